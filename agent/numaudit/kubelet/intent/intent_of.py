"""The kubelet's intent, made of everything that was read from it, the pods included that it refused when it was started
again although they ran. Pure: readings in, intent out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from msgspec import Struct, field, structs
from msgspec.structs import replace

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.start.outlook import KubeletAtStart
from numaudit.containermanager.memory.headroom import Headroom, Holder, headroom_of, holders_of
from numaudit.containermanager.pod.spec import Pod
from numaudit.errors import InputError, Unavailable
from numaudit.intent.kubelet import REJECTIONS, StartOutlook
from numaudit.intent.node import Intent
from numaudit.intent.pods import HintRecord, PodFacts, Rejection
from numaudit.kubelet.intent import join
from numaudit.kubelet.intent.claims import with_claims
from numaudit.kubelet.intent.join import Joined
from numaudit.kubelet.intent.promises import Checkpoints, by_container
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.parsers.metrics import KubeletMetrics
from numaudit.kubelet.parsers.pods import Pods
from numaudit.kubelet.questions.examination import examine
from numaudit.kubelet.questions.forecasting import active_pods, forecast_of, outlook_of, start_of, stored
from numaudit.kubelet.questions.kubelet_here import StartForecaster, kubelet_here
from numaudit.kubelet.questions.node_here import node_here, restored_node
from numaudit.kubelet.questions.starting import AskedKubelet, Starting, starting
from numaudit.kubelet.sources.cdi_files import CdiSpecs
from numaudit.kubelet.sources.podresources import PodResources
from numaudit.kubelet.sources.polled import Memo
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.memorymanager.forecast import Forecast
from numaudit.scenario.values import Node
from numaudit.snapshot import Container
from numaudit.topology.machine import Machine

MESSAGE = "at a restart of the kubelet, by its counter of refusals; the pod's status does not say so"
UNKNOWN = "Unknown"
"""The reason of a pod where the counter leaves more than one."""
_CLOCK_STEP = 1.0
"""Seconds: times in a pod's status have no fractions."""


def refused_at_restart(
    pods: Mapping[str, PodFacts] | None, known: Collection[Rejection], metrics: KubeletMetrics | None
) -> tuple[Rejection, ...]:
    """Pods that ran and were refused at the restart. `known`: the refusals that a status or the log names.

    Such a pod ends as if it had done its work: phase Succeeded (or Failed), without a reason or message (seen with
    1.36). One whose containers restart always does not end by itself, and the kubelet's own counter of refusals, which
    begins with its start, says that it refused more pods than are known, and why.
    """
    if metrics is None or metrics.started_at is None:
        return ()
    began = metrics.started_at - _CLOCK_STEP
    candidates = list(_ended_without_reason(pods or {}, {one.pod_uid for one in known}, began))
    if not candidates:
        return ()
    left = _counted(metrics) - Counter(one.reason for one in known if one.at is None or one.at >= began)
    if left.total() < len(candidates):
        return ()
    reason = next(iter(left)) if len(left) == 1 else UNKNOWN
    return tuple(
        Rejection(one.uid, one.namespace, one.name, reason, MESSAGE, metrics.started_at, True) for one in candidates
    )


def _ended_without_reason(pods: Mapping[str, PodFacts], known: Collection[str], began: float) -> Iterator[PodFacts]:
    for pod in pods.values():
        if pod.ended_without_reason and pod.uid not in known and (pod.ended_at is None or pod.ended_at >= began):
            yield pod


def _counted(metrics: KubeletMetrics) -> Counter[str]:
    """By reason, since the kubelet's start."""
    counted = Counter[str]()
    for series, value in metrics.counters.items():
        if series.name == REJECTIONS and (reason := dict(series.labels).get("reason")):
            counted[reason] += int(value)
    return counted


def room_here(
    readings: KubeletReadings, with_cgroup: Set[str], restore: Memo[..., Node], start: StartForecaster
) -> Node | None:
    """The node as the next pod finds it; None where too little is known, or the kubelet would not start with its files.

    `restore` and `start`: see `node_here`; both remember their results.
    """
    try:
        return node_here(
            readings,
            AskedKubelet(),
            folder=readings.folder,
            with_cgroup=with_cgroup,
            storage=None,
            start=start,
            restore=restore,
        )
    except (Unavailable, InputError):  # `state verify` and `explain` say why
        return None


class Collected(Struct, frozen=True):
    """The intent, and the containers with the names that the pods' status gives them."""

    intent: Intent
    containers: tuple[Container, ...]


class Steps(Struct, frozen=True):
    """The costly steps of `intent_of`, each done again only when its inputs changed since the last time."""

    by_container: Memo[..., Checkpoints] = field(default_factory=lambda: Memo(by_container))
    joined: Memo[..., tuple[tuple[Container, ...], Joined]] = field(default_factory=lambda: Memo(_joined))
    headroom: Memo[..., Headroom | None] = field(default_factory=lambda: Memo(_headroom))
    """Eight nodes have 255 sets to try."""
    holders: Memo[..., tuple[Holder, ...]] = field(default_factory=lambda: Memo(_holders))
    room: Memo[..., Node] = field(default_factory=lambda: Memo(restored_node))
    forecast: Memo[..., tuple[Forecast, ...]] = field(default_factory=lambda: Memo(_forecasts))
    """A restart admits every pod again."""
    starting: Memo[..., Starting] = field(default_factory=lambda: Memo(starting))
    examined: Mapping[CheckpointKind, Memo[..., StartOutlook]] = field(
        default_factory=lambda: {kind: Memo(examine) for kind in (MEMORY, CPU, DEVICES, CLAIMS)}
    )


def intent_of(readings: KubeletReadings, containers: tuple[Container, ...], steps: Steps | None = None) -> Collected:
    """Judge what was read. The result depends on the readings and the containers alone; `steps` saves time."""
    steps = steps or Steps()
    checkpoints = steps.by_container(readings.memory, readings.cpu, readings.devices, current=readings.are_current)
    named, joined = steps.joined(
        containers,
        checkpoints,
        pods=readings.pods,
        pods_are_current=readings.pods_are_current,
        resources=readings.resources,
        records=readings.log.records,
        cgroups_are_settled=readings.cgroups_are_settled,
        claims=readings.claims,
        specs=readings.cdi,
    )
    here = kubelet_here(readings, start=steps.starting)
    config, kubelet = here.config, here.starting.kubelet
    memory, cpu, log = readings.memory, readings.cpu, readings.log
    outlooks = {
        kind: outlook_of(kind, file, readings.machine, kubelet, steps.examined[kind])
        for kind, file in readings.checkpoints.items()
    }
    rejections = join.rejections(readings.pods, {**readings.refused, **log.rejections})
    intent = Intent(
        containers=joined.containers,
        pods=readings.pods,
        machine=None if memory is None else memory.machine,
        headroom=steps.headroom(memory, config.topology_manager_policy),
        room=room_here(
            readings,
            frozenset(one.pod_uid for one in named if one.pod_uid is not None),
            steps.room,
            steps.starting,
        ),
        holders=steps.holders(memory),
        shared_cpus=None if cpu is None else cpu.state.default_cpus or None,
        hints=joined.hints,
        rejections=(*rejections, *refused_at_restart(readings.pods, rejections, readings.metrics)),
        config=config,
        checkpoints=tuple(
            [
                file.health(readings.last_good_at.get(kind), outlooks[kind])
                for kind, file in readings.checkpoints.items()
            ]
        ),
        counters=None if readings.metrics is None else readings.metrics.counters,
        denials=_denials(readings),
        start_error=log.start_error,
        conflicts=(*here.conflicts, *joined.conflicts),
        forecasts=steps.forecast(
            config.document,
            readings.machine,
            stored(readings),
            active_pods(readings.pods) if readings.pods is not None and readings.pods_are_current else None,
            kubelet,
            outlooks,
        ),
        sources=readings.sources,
    )
    return Collected(intent, named)


def _joined(
    containers: tuple[Container, ...],
    checkpoints: Checkpoints,
    *,
    pods: Pods | None,
    pods_are_current: bool,
    resources: Iterable[PodResources] | None,
    records: Iterable[HintRecord],
    cgroups_are_settled: bool,
    claims: ClaimCheckpoint | None,
    specs: CdiSpecs,
) -> tuple[tuple[Container, ...], Joined]:
    named = join.complete(containers, pods)
    joined = join.join(
        named,
        checkpoints,
        pods=pods,
        pods_are_current=pods_are_current,
        resources=resources,
        records=records,
        cgroups_are_settled=cgroups_are_settled,
    )
    prepared = None if claims is None else claims.claims or ()
    found = with_claims(joined.containers, pods=pods, claims=prepared, given=joined.given_claims, specs=specs)
    return named, replace(joined, containers=found)


def _headroom(memory: MemoryCheckpoint | None, policy: str | None) -> Headroom | None:
    if memory is None or not memory.machine:
        return None
    try:
        return headroom_of(memory.machine, policy)
    except InputError:  # a node without any memory; `state verify` reports it
        return None


def _holders(memory: MemoryCheckpoint | None) -> tuple[Holder, ...]:
    return () if memory is None else holders_of(memory.state)


def _forecasts(
    document: Mapping[str, object] | None,
    machine: Machine | None,
    files: Mapping[CheckpointKind, CheckpointFile],
    pods: tuple[Pod, ...] | None,
    kubelet: KubeletAtStart,
    outlooks: Mapping[CheckpointKind, StartOutlook],
) -> tuple[Forecast, ...]:
    """Of a restart and of a reboot; none where too little is known."""
    now, later = (start_of(outlooks, reboot=reboot) for reboot in (False, True))
    try:
        found = forecast_of(document, machine, files, pods, kubelet, now, reboot=False)
    except Unavailable:
        return ()
    if (now.answer == "no") == (later.answer == "no"):  # then the pods' fates are alike, see Forecast.reboot
        answer = later.answer if found.starts == now.answer else found.starts
        refusal = found.refusal if later.refusal is None else later.refusal
        return found, structs.replace(found, reboot=True, starts=answer, refusal=refusal, obstacles=later.obstacles)
    try:
        return found, forecast_of(document, machine, files, pods, kubelet, later, reboot=True)
    except Unavailable:
        return (found,)


def _denials(readings: KubeletReadings) -> Mapping[str, int] | None:
    """Refusals in the log since the kubelet's start, if its counters, read before, are of the same run."""
    log, read_at = readings.log, readings.metrics_read_at
    if log.topology is None or log.topology.at is None or read_at is None or read_at <= log.topology.at:
        return None
    return log.denials
