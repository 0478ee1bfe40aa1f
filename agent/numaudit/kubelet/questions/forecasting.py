"""Forecast of a restart of this node's kubelet for its pods, made of what was read from it. Pure.

Whether the kubelet starts is answered once, by the outlook of each file: `numaudit state verify`, the forecast, the
report and its metrics all give that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import PurePosixPath

from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CLAIMS, CPU, MEMORY, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.start.outlook import KubeletAtStart, worst
from numaudit.containermanager.memory.headroom import HugePagesAtStart
from numaudit.containermanager.memory.state import MemoryState
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.policy import KubeletHangs
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent.kubelet import StartOutlook
from numaudit.intent.pods import PodFacts
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.questions.examination import examine, examine_absent
from numaudit.kubelet.questions.kubelet_here import KubeletHere
from numaudit.kubelet.questions.starting import AskedKubelet, changed_document
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.forecast import Forecast, KubeletStart, Obstacle, forecast
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.topology.machine import Machine

_AS_THE_KUBELET_STARTS = (CLAIMS, CPU, MEMORY)
"""The first manager that refuses its file stops the kubelet. It starts without the file of its devices."""
_HOLDERS = (CPU, MEMORY)
"""The managers whose files say what a pod keeps at a restart."""

Examine = Callable[..., StartOutlook]


def outlook_of(
    kind: CheckpointKind,
    file: CheckpointFile,
    machine: Machine | None,
    kubelet: KubeletAtStart,
    examined: Examine = examine,
) -> StartOutlook:
    """Would the kubelet start with this file? `examined` is `examine`, or remembers its result."""
    if file.is_absent:
        return examine_absent(kind, file.shown, kubelet)
    if file.data is None:
        return StartOutlook()
    return examined(file, machine, kubelet, str(PurePosixPath(file.shown).parent))


def start_of(outlooks: Mapping[CheckpointKind, StartOutlook], *, reboot: bool) -> KubeletStart:
    """Does the kubelet start with all its files, now or after a reboot?"""
    files = {kind: outlooks[kind] for kind in _AS_THE_KUBELET_STARTS if kind in outlooks}
    answers = {kind: one.starts_after_reboot if reboot else one.starts_now for kind, one in files.items()}
    refusals = [one.refusal for kind, one in files.items() if answers[kind] == "no" and one.refusal is not None]
    obstacles: dict[tuple[str, str], Obstacle] = {}
    for kind, one in files.items():
        for found in one.findings:
            if found.stops != "nothing" and (reboot or found.stops != "reboot"):
                obstacles[found.name, found.message] = Obstacle(kind, found.name, found.message)
    return KubeletStart(worst(answers.values()), next(iter(refusals), None), tuple(obstacles.values()))


def forecast_here(
    readings: KubeletReadings,
    here: KubeletHere,
    asked: AskedKubelet,
    *,
    reboot: bool,
    huge_pages: HugePagesAtStart | None = None,
) -> Forecast:
    """A restart of the kubelet that runs here, or of another one that somebody asks about.

    Raises Unavailable with what is not known: the pods, the configuration, the machine, a checkpoint. Where it is known
    that the kubelet does not start, the forecast says so instead.
    """
    kubelet = here.starting.kubelet
    outlooks = {kind: outlook_of(kind, file, readings.machine, kubelet) for kind, file in readings.checkpoints.items()}
    document = here.config.document
    return forecast_of(
        None if document is None else changed_document(document, asked),
        readings.machine,
        stored(readings),
        None if readings.pods is None else active_pods(readings.pods),
        kubelet,
        start_of(outlooks, reboot=reboot),
        reboot=reboot,
        huge_pages=huge_pages,
        machine_problem=readings.machine_problem,
    )


def stored(readings: KubeletReadings) -> Mapping[CheckpointKind, CheckpointFile]:
    """Of the managers whose files a forecast needs."""
    return {kind: readings.checkpoints[kind] for kind in _HOLDERS}


def forecast_of(
    document: Mapping[str, object] | None,
    machine: Machine | None,
    files: Mapping[CheckpointKind, CheckpointFile],
    pods: Sequence[Pod] | None,
    kubelet: KubeletAtStart,
    start: KubeletStart,
    *,
    reboot: bool,
    huge_pages: HugePagesAtStart | None = None,
    machine_problem: str | None = None,
) -> Forecast:
    """The forecast of these values; None = not known. Raises Unavailable as `forecast_here` does, and where the
    kubelet cannot be foreseen with one of its pods.
    """
    try:
        if pods is None:
            raise Unavailable("the kubelet's pods are not known: `numaudit doctor` says how to read /pods")
        if document is None:
            raise Unavailable("the kubelet's configuration is not known: `numaudit doctor` says why")
        if machine is None:
            problem = "this machine cannot be read whole, so nothing can be compared with it"
            raise Unavailable(machine_problem or problem)
        for one in files.values():  # a file that is there, but not read, may hold anything
            if start.answer != "no" and one.problem is not None and not one.is_absent:
                raise Unavailable(f"the memory and CPUs that the pods hold are not known: {one.detail or one.problem}")
        starting, state, is_whole = _restarting(document, machine, files, kubelet)
        return forecast(starting, state, pods, reboot=reboot, start=start, is_whole=is_whole, huge_pages=huge_pages)
    except (InputError, KubeletHangs, ParseError, Unavailable) as error:
        unknown = error if isinstance(error, Unavailable) else f"the restart cannot be forecast: {error}"
        if start.answer != "no":
            raise Unavailable(str(unknown)) from None
        return Forecast(reboot, "no", start.refusal, start.obstacles, (), str(unknown))


def _restarting(
    document: Mapping[str, object],
    machine: Machine,
    files: Mapping[CheckpointKind, CheckpointFile],
    starting: KubeletAtStart,
) -> tuple[Kubelet, NodeState, bool]:
    """The kubelet, its state by its files, and whether that is all of it: a manager with a static policy writes its
    file at its first start, and keeps there what it gives. Raises InputError, ParseError.
    """
    memory, cpu = (None if files[kind].is_absent else files[kind].good for kind in (MEMORY, CPU))
    for one in (memory, cpu):
        starting = starting if one is None else starting.assumed_for(one)
    version = starting.version
    kubelet, _ = read_kubelet(document, machine, kubernetes_version=f"{version[0]}.{version[1]}")
    state = NodeState(
        MemoryPolicy(memory.as_read_by(version).state if isinstance(memory, MemoryCheckpoint) else MemoryState({})),
        cpu.as_read_by(version).state if isinstance(cpu, CpuCheckpoint) and cpu.policy_name != "none" else None,
    )
    has_memory = memory is not None or kubelet.memory_policy == "None"
    return kubelet, state, has_memory and (cpu is not None or kubelet.cpu is None)


def active_pods(pods: Mapping[str, PodFacts]) -> tuple[Pod, ...]:
    """Those that the kubelet admits when it starts, the oldest first. Without those whose resources are not known."""
    active = [one for one in pods.values() if not one.has_ended and one.rejection is None]
    active.sort(key=lambda one: inf if one.created_at is None else one.created_at)
    return tuple(one.spec for one in active if one.spec is not None)
