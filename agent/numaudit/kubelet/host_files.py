"""The checkpoints of a host, or one that somebody named, read and examined once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from numaudit.containers.inventory import Inventory
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent import KubeletConfig
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import LARGEST_FILE, Host, is_named_pipe, is_pipe
from numaudit.kubelet import settled_file, state_files
from numaudit.kubelet.examination import Decoded, Examined, decode, examine, examine_absent
from numaudit.kubelet.examined_file import ExaminedFile
from numaudit.kubelet.forecasting import forecast_here
from numaudit.kubelet.kubelet_here import KubeletHere, kubelet_here, no_kubelet
from numaudit.kubelet.machine_watch import read_whole_machine
from numaudit.kubelet.node_here import NodeHere, node_here
from numaudit.kubelet.pod_names import pod_names
from numaudit.kubelet.poller import KubeletPoller
from numaudit.kubelet.readings import Readings
from numaudit.kubelet.starting import Asked, Starting, starting
from numaudit.memorymanager.checkpoint import file as checkpoint_files
from numaudit.memorymanager.checkpoint.file import CPU, DEVICES, MEMORY, Checkpoint, Kind
from numaudit.memorymanager.forecast import Forecast
from numaudit.memorymanager.pod.names import PodName
from numaudit.memorymanager.restart.findings import CHECKPOINT_ABSENT
from numaudit.topology.machine import Machine

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class Against:
    """What a file is compared with: the kubelet that is to start, and the machine that the file belongs to, if any."""

    starting: Starting
    folder: str
    """The kubelet's root folder, as the host calls it."""
    machine: Machine | None = None
    machine_problem: str | None = None
    """Why the machine cannot be compared although the file belongs to it."""
    readings: Readings | None = None
    """What the kubelet says of its pods; None = the file stands alone, or there is no kubelet."""
    topology_policy: str | None = None


def kubelet_on(host: Host, asked: Asked = Asked()) -> KubeletHere:  # noqa: B008 -- an immutable value
    """The kubelet that runs and would start on this host, or as somebody asks. Without one nothing of it is known."""
    poller = KubeletPoller.of(host)
    try:
        return kubelet_here(poller.poll_start(), asked)
    except Unavailable:
        return no_kubelet(asked)
    finally:
        poller.close()


def pod_names_on(host: Host, checkpoints: Iterable[Checkpoint]) -> dict[str, PodName]:
    """Who the pods of these checkpoints are, as far as the kubelet of this host knows them."""
    readings = _read_state(host)
    return {} if readings is None else pod_names(checkpoints, readings)


def node_on(host: Host, asked: Asked) -> NodeHere:
    """What is known of the kubelet on this host, asked once. Raises Unavailable where that is too little."""
    poller = KubeletPoller.of(host)
    readings = _poll(poller)
    folder, storage = poller.host.kubelet_root, storage_of(poller.host)
    return node_here(readings, asked, folder=folder, with_cgroup=_pods_with_cgroup(host), storage=storage)


def storage_of(host: Host) -> int | None:
    """Bytes of the file system of the kubelet's folder; None = not known, as in a captured tree."""
    if not host.is_live:
        return None
    try:
        found = os.statvfs(host.kubelet)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _pods_with_cgroup(host: Host) -> frozenset[str] | None:
    """Their UIDs; None where not all groups of the host can be seen."""
    try:
        hierarchies = find_hierarchies(host)
        if not hierarchies.is_whole:
            return None
        found = Inventory(host, hierarchies).take().containers
    except (Unavailable, OSError):
        return None
    return frozenset(one.pod_uid for one in found if one.pod_uid is not None)


def _read_state(host: Host) -> Readings | None:
    return _poll(KubeletPoller.of(host))


def _poll(poller: KubeletPoller) -> Readings | None:
    """Once; None = there is no kubelet."""
    try:
        return poller.poll_state()
    except Unavailable:
        return None
    finally:
        poller.close()


def forecast_on(host: Host, asked: Asked, *, reboot: bool) -> Forecast:
    """What a restart would do to the pods of this host. Raises Unavailable with what is not known."""
    readings = _read_state(host)
    if readings is None:
        raise Unavailable("no kubelet has run here, so there is nothing to foresee")
    return forecast_here(readings, kubelet_here(readings, asked), asked, reboot=reboot)


def belongs_to(host: Host, file: Path) -> bool:
    """Is it a file of this host's kubelet? With a captured tree every file is."""
    return not host.is_live or host.kubelet.resolve() in file.resolve().parents


def read_given(file: Path) -> bytes:
    """A file that was named on the command line; `-` is the standard input, and a pipe is read to its end.

    Raises Unavailable, and InputError when it is gone, or a named pipe, which may never end.
    """
    if file != STANDARD_INPUT and is_named_pipe(file):
        raise InputError(f"{file} is a named pipe; give a file, or - for what a pipe brings to the standard input")
    if file != STANDARD_INPUT and not is_pipe(file):
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


def refuse_other_files(file: Path, data: bytes) -> None:
    """Raises InputError for what is no checkpoint: it is empty, or neither its name nor its keys are one's."""
    why = "it is empty"
    try:
        if data.strip():
            checkpoint_files.kind_of(file.name, data)
            return
    except ParseError as error:
        why = str(error).removeprefix("not a checkpoint: ")
    shown = "the standard input" if file == STANDARD_INPUT else str(file)
    raise InputError(f"{shown}: this is not a checkpoint: {why}; give a {MEMORY}, {CPU} or {DEVICES}")


def examine_files(file: Path | None, host: Host, asked: Asked, *, needs_machine: bool) -> tuple[ExaminedFile, ...]:
    """The given file, or all that the host's kubelet has. A file that stands alone knows no kubelet but the one asked.

    Raises Unavailable when there is none, and when the machine that they belong to cannot be read but
    `needs_machine`; else the result says why the machine was not compared.
    """
    if file is not None:
        data = read_given(file)
        is_here = belongs_to(host, file)
        if data.strip() or not is_here:  # the kubelet's own file may be empty, and then the kubelet does not start
            refuse_other_files(file, data)
        if not is_here:
            alone = Against(starting(KubeletConfig(), None, asked), host.kubelet_root)
            return (_examine(file, None, data, alone),)
        return (_examine(file, None, data, _against(host, asked, needs_machine)),)
    here = {kind: (path, settled_file.read(kind, path)) for kind, path in state_files.paths(host).items()}
    if all(data is None for _, data in here.values()):
        raise Unavailable(
            f"no checkpoint under {host.kubelet}: no kubelet has run here, or it keeps its files elsewhere; "
            "give the file as an argument"
        )
    against = _against(host, asked, needs_machine)
    found = [
        _absent(host.name_of(path), kind, against)
        if data is None
        else _examine(path, kind, data, against, host.name_of(path))
        for kind, (path, data) in here.items()
    ]
    return tuple([one for one in found if one is not None])


def _against(host: Host, asked: Asked, needs_machine: bool) -> Against:
    readings = _read_state(host)
    here = (
        KubeletHere(KubeletConfig(), starting(KubeletConfig(), None, asked))
        if readings is None
        else kubelet_here(readings, asked)
    )
    policy = here.config.topology_manager_policy
    against = Against(here.starting, host.kubelet_root, readings=readings, topology_policy=policy)
    try:
        return replace(against, machine=read_whole_machine(host))
    except Unavailable as problem:
        if needs_machine:
            raise
        return replace(against, machine_problem=str(problem))


def _absent(shown: str, kind: Kind, against: Against) -> ExaminedFile | None:
    """A file that is not there is of interest only where it should be."""
    start = examine_absent(kind, shown, against.starting.kubelet)
    missing = any(one.name == CHECKPOINT_ABSENT for one in start.findings)
    examined = Examined(Decoded(kind), start)
    return ExaminedFile(shown, examined, against.starting, with_machine=False) if missing else None


def _examine(path: Path, kind: Kind | None, data: bytes, against: Against, shown: str | None = None) -> ExaminedFile:
    """`shown` is what a captured host calls the file; None = as it was named."""
    kubelet = against.starting.kubelet
    found = examine(decode(kind, data, name=path.name), against.machine, kubelet, against.folder)
    content = found.decoded.content
    names = {} if content is None or against.readings is None else pod_names(content[:1], against.readings)
    return ExaminedFile(
        shown or str(path),
        found,
        against.starting,
        with_machine=against.machine is not None,
        machine_problem=against.machine_problem,
        pods=names,
        topology_policy=against.topology_policy,
    )
