"""The checkpoints that `numaudit state` is asked about: found, read, and looked into."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.kernel.host import LARGEST_FILE, Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet import state_files
from numaudit.kubelet.restart_safety import machine_of, starting_kubelet
from numaudit.memorymanager.checkpoint import file as checkpoints
from numaudit.memorymanager.checkpoint.file import Checkpoint, Kind
from numaudit.memorymanager.restart.kubelet_words import kubelet_says
from numaudit.memorymanager.restart.outlook import Outlook, StartingKubelet, examine, unreadable
from numaudit.topology.machine import Machine
from numaudit.views import state_document
from numaudit.views.state_document import StateVerification

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class Looked:
    """One file, looked into. `checkpoint` None = it could not be read."""

    verification: StateVerification
    checkpoint: Checkpoint | None


@dataclass(frozen=True, slots=True)
class Against:
    """What a file is held against: the machine that it belongs to, if any, and the kubelet that is to start."""

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
    configured = starting_kubelet(config, machine_of(host))
    return replace(
        configured,
        version=kubelet.version,
        version_is_known=kubelet.version_is_known,
        pod_level=kubelet.pod_level,
        tolerates_drift=kubelet.tolerates_drift or configured.tolerates_drift,
    )


def is_the_kubelets(file: Path, host: Host, is_captured: bool) -> bool:
    """Does it belong to this machine?"""
    return is_captured or host.kubelet.resolve() in file.resolve().parents


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


def look(
    file: Path | None, host: Host, *, is_captured: bool, kubelet: StartingKubelet, needs_machine: bool
) -> list[Looked]:
    """The given file, or all that are there.

    Raises Unavailable when there is none, and when the machine that they belong to cannot be read but
    `needs_machine`; else the verification says why the machine was not compared.
    """
    if file is not None:
        data = read_given(file)
        against = Against(kubelet, host.kubelet_root)
        if is_the_kubelets(file, host, is_captured):
            against = _with_machine(against, host, needs_machine)
        return [_look_into(file, None, data, against)]
    here = {kind: (path, state_files.read(path)) for kind, path in state_files.paths(host).items()}
    found = [(kind, path, data) for kind, (path, data) in here.items() if data is not None]
    if not found:
        raise Unavailable(
            f"no checkpoint under {host.kubelet}: no kubelet has run here, or it keeps its files elsewhere; "
            "give the file as an argument"
        )
    against = _with_machine(Against(kubelet, host.kubelet_root), host, needs_machine)
    return [_look_into(path, kind, data, against) for kind, path, data in found]


def _with_machine(against: Against, host: Host, needs_machine: bool) -> Against:
    try:
        return replace(against, machine=_whole_machine(host))
    except Unavailable as problem:
        if needs_machine:
            raise
        return replace(against, machine_problem=str(problem))


def _whole_machine(host: Host) -> Machine:
    machine = read_machine(host)
    unknown = [node.id for node in machine.nodes if node.memory is None]
    if unknown:
        raise Unavailable(
            f"cannot read MemTotal of nodes {unknown} in {host.nodes}, so nothing can be compared with it"
        )
    return machine


def _look_into(path: Path, kind: Kind | None, data: bytes, against: Against) -> Looked:
    kubelet, machine = against.kubelet, against.machine
    try:
        kind = kind or checkpoints.kind_of(path.name, data)
        checkpoint = checkpoints.parse(kind, data)
    except ParseError as error:
        finding = unreadable(kind, error)
        words = (
            None
            if kind is None or finding.name == "format-unknown"
            else kubelet_says(kind, data, None, kubelet, against.folder)
        )
        return Looked(state_document.unreadable(str(path), kind, finding, words), None)
    outlook: Outlook = examine(checkpoint, checkpoints.verify(checkpoint), machine, kubelet)
    found = state_document.verification(
        str(path),
        checkpoint,
        outlook,
        with_machine=machine is not None,
        machine_problem=against.machine_problem,
        refusal=kubelet_says(kind, data, outlook, kubelet, against.folder),
    )
    return Looked(found, checkpoint)
