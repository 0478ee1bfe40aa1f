"""The checkpoints of a host, or one that somebody named, read and examined once."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import LARGEST_FILE, Host
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet import state_files
from numaudit.kubelet.examination import ExaminedFile, decode, examine, kubelet_says
from numaudit.kubelet.machine_watch import read_whole_machine, whole_machine_or_none
from numaudit.kubelet.starting import starting_kubelet
from numaudit.memorymanager.checkpoint.file import Kind
from numaudit.memorymanager.restart.outlook import StartingKubelet
from numaudit.topology.machine import Machine

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class Against:
    """What a file is compared with: the kubelet that is to start, and the machine that the file belongs to, if any."""

    kubelet: StartingKubelet
    folder: str
    """The kubelet's root folder, as the host calls it."""
    machine: Machine | None = None
    machine_problem: str | None = None
    """Why the machine cannot be compared although the file belongs to it."""


def as_configured(kubelet: StartingKubelet, host: Host) -> StartingKubelet:
    """With the policies and reservations of the configuration that can be read on this host."""
    try:
        config = kubelet_process.read_settings(host, kubelet_process.find(host)).config
    except Unavailable:
        return kubelet
    configured = starting_kubelet(config, whole_machine_or_none(host))
    return replace(configured, version=kubelet.version, pod_level=kubelet.pod_level)


def belongs_to(host: Host, file: Path) -> bool:
    """Is it a file of this host's kubelet? With a captured tree every file is."""
    return not host.is_live or host.kubelet.resolve() in file.resolve().parents


def read_given(file: Path) -> bytes:
    """A file that was named on the command line; `-` is the standard input, and a pipe is read to its end.

    Raises Unavailable, and InputError when it is gone.
    """
    if file != STANDARD_INPUT and not file.is_fifo():
        data = state_files.read(file)
        if data is None:
            raise InputError(f"{file} is gone")
        return data
    if file == STANDARD_INPUT and sys.stdin is None:
        raise Unavailable("cannot read the standard input: it is closed")
    try:
        with sys.stdin.buffer if file == STANDARD_INPUT else file.open("rb") as pipe:
            data = pipe.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Unavailable(f"cannot read {file}: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise Unavailable(f"cannot read {file}: more than {LARGEST_FILE} bytes come out of it")
    return data


def examine_files(
    file: Path | None, host: Host, *, kubelet: StartingKubelet, needs_machine: bool
) -> tuple[ExaminedFile, ...]:
    """The given file, or all that the host's kubelet has.

    Raises Unavailable when there is none, and when the machine that they belong to cannot be read but
    `needs_machine`; else the result says why the machine was not compared.
    """
    against = Against(kubelet, host.kubelet_root)
    if file is not None:
        data = read_given(file)
        if belongs_to(host, file):
            against = _with_machine(against, host, needs_machine)
        return (_examine(file, None, data, against),)
    here = {kind: (path, state_files.read(path)) for kind, path in state_files.paths(host).items()}
    found = [(kind, path, data) for kind, (path, data) in here.items() if data is not None]
    if not found:
        raise Unavailable(
            f"no checkpoint under {host.kubelet}: no kubelet has run here, or it keeps its files elsewhere; "
            "give the file as an argument"
        )
    against = _with_machine(against, host, needs_machine)
    return tuple([_examine(path, kind, data, against) for kind, path, data in found])


def _with_machine(against: Against, host: Host, needs_machine: bool) -> Against:
    try:
        return replace(against, machine=read_whole_machine(host))
    except Unavailable as problem:
        if needs_machine:
            raise
        return replace(against, machine_problem=str(problem))


def _examine(path: Path, kind: Kind | None, data: bytes, against: Against) -> ExaminedFile:
    found = examine(decode(kind, data, name=path.name), against.machine, against.kubelet)
    return ExaminedFile(
        str(path),
        found,
        with_machine=against.machine is not None,
        machine_problem=against.machine_problem,
        refusal=kubelet_says(found, data, against.kubelet, against.folder),
    )
