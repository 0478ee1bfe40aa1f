"""The checkpoints of a host, or one that somebody named, read and examined once."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from numaudit.checkpoints.formats import file as checkpoint_files
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY
from numaudit.checkpoints.start.findings import CHECKPOINT_ABSENT
from numaudit.containermanager.memory.headroom import HugePagesAtStart
from numaudit.containers.inventory import Inventory
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent.kubelet import StartOutlook
from numaudit.kernel import files
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import LARGEST_FILE, STANDARD_INPUT, Host, is_named_pipe, is_pipe
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile, decode
from numaudit.kubelet.questions.examination import ExaminedFile, examine, examine_absent
from numaudit.kubelet.questions.forecasting import forecast_here
from numaudit.kubelet.questions.kubelet_here import KubeletHere, kubelet_here
from numaudit.kubelet.questions.node_here import node_here, pod_names
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.kubelet.sources import checkpoints
from numaudit.kubelet.sources.polled import MachineWatch
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.memorymanager.forecast import Forecast
from numaudit.scenario.values import Node

ON_A_NODE = "run it on a node, as root, or give a captured one with --root"
"""What to do where no kubelet is."""


def poll_once(poller: KubeletPoller) -> KubeletReadings | None:
    """Read what decides about the kubelet's next start, and its pods; None = there is no kubelet. Closes the poller."""
    try:
        return poller.poll_state()
    except Unavailable:
        return None
    finally:
        poller.close()


def node_on(host: Host, asked: AskedKubelet) -> Node:
    """The kubelet's node on this host, asked once. Raises as `node_here`."""
    poller = KubeletPoller.of(host)
    readings = poll_once(poller)
    folder, storage = poller.host.kubelet_root, storage_of(poller.host)
    return node_here(readings, asked, folder=folder, with_cgroup=_pods_with_cgroup(host), storage=storage)


def storage_of(host: Host) -> int | None:
    """Bytes of the file system of the kubelet's folder; None = not known, as in a captured tree."""
    if not host.is_live:
        return None
    try:
        found = files.file_system(host.kubelet)
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


def forecast_on(
    host: Host, asked: AskedKubelet, *, reboot: bool, huge_pages: HugePagesAtStart | None = None
) -> Forecast:
    """Forecast of a restart for the pods of this host. Raises Unavailable with what is not known."""
    readings = poll_once(KubeletPoller.of(host))
    if readings is None:
        raise Unavailable(f"no kubelet has run on this host, so there is no restart to forecast; {ON_A_NODE}")
    return forecast_here(readings, kubelet_here(readings, asked), asked, reboot=reboot, huge_pages=huge_pages)


def belongs_to(host: Host, file: Path) -> bool:
    """Is it a file of this host's kubelet? With a captured tree every file is."""
    return not host.is_live or Path(files.real_path(host.kubelet)) in file.resolve().parents


def read_given(file: Path) -> bytes:
    """A file that was named on the command line; `-` is the standard input, and a pipe is read to its end.

    Raises Unavailable, and InputError when it is gone, or a named pipe, which may never end.
    """
    if file != STANDARD_INPUT and is_named_pipe(file):
        raise InputError(f"{file} is a named pipe; give a file, or - for what a pipe brings to the standard input")
    if file != STANDARD_INPUT and not is_pipe(file):
        data = checkpoints.read_file(file)
        if data is None:
            raise InputError(f"{file} does not exist any more; give another file")
        return data
    if file == STANDARD_INPUT and sys.stdin is None:
        raise Unavailable("cannot read the standard input: it is closed")
    try:
        with sys.stdin.buffer if file == STANDARD_INPUT else file.open("rb") as pipe:
            data = pipe.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Unavailable(f"cannot read {file}: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise Unavailable(f"cannot read {file}: it gives more than {LARGEST_FILE} bytes, which no checkpoint has")
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
    raise InputError(f"{shown}: this is not a checkpoint: {why}; give a {MEMORY}, {CPU}, {DEVICES} or {CLAIMS}")


def decode_given(
    file: Path, host: Host, readings: KubeletReadings | None, *, may_be_empty: bool = False
) -> CheckpointFile:
    """A file that was named. One of the kubelet's that was read already is not read again.

    Raises as `read_given` and `refuse_other_files`.
    """
    own = None if readings is None or is_pipe(file) else _read_already(file, host, readings)
    found = own or decode(None, read_given(file), name=file.name)
    data = found.data or b""
    if data.strip() or not may_be_empty:
        refuse_other_files(file, data)
    return replace(found, shown="")


def _read_already(file: Path, host: Host, readings: KubeletReadings) -> CheckpointFile | None:
    path, known = file.resolve(), [one for one in readings.checkpoints.values() if one.data is not None]
    return next((one for one in known if files.real_path(host.at(one.shown)) == str(path)), None)


def examine_files(
    file: Path | None, host: Host, asked: AskedKubelet, *, needs_machine: bool
) -> tuple[ExaminedFile, ...]:
    """The given file, or all that the host's kubelet has. A file that stands alone knows no kubelet but the one asked.

    Raises Unavailable when there is none, and when the machine that they belong to cannot be read but
    `needs_machine`; else the result says why the machine was not compared.
    """
    poller = KubeletPoller.of(host)
    if file is not None and not belongs_to(poller.locate(), file):
        poller.close()
        alone = KubeletReadings(folder=poller.host.kubelet_root)
        return (_examined(str(file), decode_given(file, host, None), alone, kubelet_here(alone, asked)),)
    readings = poll_once(poller)
    host = poller.host
    if file is not None:
        # The kubelet's own file may be empty, and then the kubelet does not start.
        files = {str(file): decode_given(file, host, readings, may_be_empty=True)}
    else:
        found = {} if readings is None else readings.checkpoints
        unread = [one.detail for one in found.values() if one.problem == "unreadable"]
        if unread:
            raise Unavailable(str(unread[0]))
        if all(one.is_absent for one in found.values()):
            raise Unavailable(
                f"no checkpoint under {host.kubelet_root}: no kubelet has run here, or it keeps its files elsewhere; "
                "give the file as an argument"
            )
        files = {one.shown: replace(one, shown="") for one in found.values()}
    readings = readings or _without_kubelet(host)
    if needs_machine and readings.machine is None:
        raise Unavailable(readings.machine_problem or "this machine cannot be read whole")
    here = kubelet_here(readings, asked)
    examined = [_examined(shown, one, readings, here) for shown, one in files.items()]
    return tuple([one for one in examined if not one.file.is_absent or _is_missed(one.start)])


def _is_missed(start: StartOutlook) -> bool:
    """A file that is not there is of interest only where it should be."""
    return any(one.name == CHECKPOINT_ABSENT for one in start.findings)


def _without_kubelet(host: Host) -> KubeletReadings:
    watch = MachineWatch(host)
    machine = watch.machine()
    return KubeletReadings(machine=machine, machine_problem=watch.problem, folder=host.kubelet_root)


def _examined(shown: str, file: CheckpointFile, readings: KubeletReadings, here: KubeletHere) -> ExaminedFile:
    kubelet, machine = here.starting.kubelet, readings.machine
    if file.kind is not None and file.is_absent:
        return ExaminedFile(shown, file, examine_absent(file.kind, shown, kubelet), here.starting, with_machine=False)
    return ExaminedFile(
        shown,
        file,
        examine(file, machine, kubelet, readings.folder),
        here.starting,
        with_machine=machine is not None,
        machine_problem=readings.machine_problem,
        pods={} if file.content is None else pod_names(file.content[:1], readings),
        topology_policy=here.config.topology_manager_policy,
    )
