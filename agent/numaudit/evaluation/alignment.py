"""Verdicts: did each container get what it was promised?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from numaudit.evaluation import access
from numaudit.evaluation.access import Access, RemoteShare, accesses
from numaudit.evaluation.causes import Explained
from numaudit.evaluation.cpu_causes import cpu_cause
from numaudit.evaluation.placement import bytes_outside
from numaudit.evaluation.rates import increase, share_outside
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.evaluation.verdicts import REMEDIES, Verdict, VerdictName
from numaudit.intent import ContainerIntent, Intent
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.sizes import in_units


@dataclass(frozen=True, slots=True)
class Judgements:
    """Verdicts of one tick, and what the next tick needs of them."""

    verdicts: Mapping[ContainerId, Verdict] = field(default_factory=dict)
    """Pause sandboxes and the remainders of pods and slices have none: nothing is promised to them."""
    spilled_ticks: Mapping[ContainerId, int] = field(default_factory=dict)
    accesses: Mapping[ContainerId, tuple[Access, ...]] = field(default_factory=dict)
    """From where each container used its memory since the previous tick."""
    thresholds: Thresholds = DEFAULT
    """The limits by which it was judged."""


_SAMPLED = "of the sampled pages were used from another node"
"""Each sample stands for a page, not for how often it was used."""


class _Said(NamedTuple):
    """What holds of a container now, and what says so."""

    name: VerdictName
    reason: str
    remedy: str | None = None
    """None = that of the verdict."""


class _Evidence(NamedTuple):
    """All that is known of one container. None = not known."""

    container: Container
    intent: ContainerIntent | None
    allowed: Allowed | None
    resident: Resident | None
    cpu_seconds: Mapping[int, float] | None
    remote_share: RemoteShare | None
    machine: Machine


def judge(
    snapshot: Snapshot,
    before: Snapshot | None = None,
    earlier: Judgements | None = None,
    thresholds: Thresholds = DEFAULT,
    remote_shares: Mapping[ContainerId, RemoteShare] | None = None,
) -> Judgements:
    """Judge every container of a snapshot.

    `before` is the previous snapshot (for CPU time and accesses since then), `earlier` its judgements.
    `remote_shares` are measured elsewhere; None = those that the snapshot itself holds.
    """
    verdicts: dict[ContainerId, Verdict] = {}
    spilled_ticks: dict[ContainerId, int] = {}
    found = {one.id: accesses(snapshot, one, before, thresholds) for one in snapshot.containers}
    shares = access.remote_shares(found) if remote_shares is None else remote_shares
    explained = Explained(snapshot, thresholds)
    for container in snapshot.containers:
        if not is_judged(container):
            continue
        evidence = _gather(snapshot, before, container, shares.get(container.id))
        ticks = _spilled_ticks(evidence, thresholds, earlier)
        if ticks:
            spilled_ticks[container.id] = ticks
        name, reason, remedy = _verdict(snapshot, evidence, ticks, thresholds)
        since = _since(name, container.id, snapshot.taken_at, earlier)
        causes = explained.of(container, intended_nodes(evidence.intent), drifted=name == "drifted")
        verdicts[container.id] = Verdict(name, reason, since, causes, REMEDIES[name] if remedy is None else remedy)
    return Judgements(verdicts, spilled_ticks, found, thresholds)


def is_judged(container: Container) -> bool:
    """Containers and systemd units are; pause sandboxes and what parent groups hold themselves are not.

    Of a pod only its containers are: what else is in its cgroup, such as a runtime's monitor, was promised nothing.
    """
    if container.pod_uid is not None and container.kind != "container":
        return False
    return container.whole


def intended_nodes(intent: ContainerIntent | None) -> NodeSet | None:
    """The nodes that the memory manager promised; None = not known, empty = nothing was promised."""
    return None if intent is None else intent.promise.memory_nodes


def _gather(
    snapshot: Snapshot, before: Snapshot | None, container: Container, remote_share: RemoteShare | None
) -> _Evidence:
    cpu_seconds = None
    if snapshot.cpu_time is not None:
        earlier = None if before is None or before.cpu_time is None else before.cpu_time.get(container.id)
        cpu_seconds = increase(snapshot.cpu_time.get(container.id, {}), earlier)
    return _Evidence(
        container=container,
        intent=None if snapshot.intent is None else snapshot.intent.by_cgroup.get(container.id),
        allowed=snapshot.allowed.get(container.id),
        resident=snapshot.residency.get(container.id),
        cpu_seconds=cpu_seconds,
        remote_share=remote_share,
        machine=snapshot.machine,
    )


def _verdict(snapshot: Snapshot, evidence: _Evidence, spilled_ticks: int, thresholds: Thresholds) -> _Said:
    """The first verdict that applies, as long as the evidence of every one before it is known."""
    unmanaged = _why_unmanaged(snapshot.intent, evidence)
    if unmanaged is not None:
        return _Said("unmanaged", unmanaged)
    intended = intended_nodes(evidence.intent)
    if evidence.intent is None or not intended:
        return _Said("unknown", f"what was promised is not known: {_why_not_known(snapshot)}")
    if evidence.allowed is None or evidence.allowed.nodes is None:
        return _Said("unknown", "the allowed nodes are not known")
    if evidence.allowed.nodes != intended:
        return _Said("drifted", f"allowed nodes are {evidence.allowed.nodes or 'none'}, promised are {intended}")
    if evidence.resident is None or evidence.resident.anon is None:
        return _Said("unknown", "where the bytes are is not known")
    spilled = _spilled_bytes(evidence.resident, intended, thresholds)
    if not spilled and evidence.resident.hugetlb is None and _has_huge_pages(evidence.intent):
        return _Said("unknown", "where the huge pages are is not known: no hugetlb controller shows them by node")
    if not spilled:
        return _placed(snapshot.intent, evidence, evidence.allowed, intended, thresholds)
    if spilled_ticks >= thresholds.spilled_ticks:
        return _Said("spilled", f"{in_units(spilled)} of its judged bytes are outside the promised nodes {intended}")
    return _Said(
        "unknown",
        "bytes are outside the promised nodes, but a second tick has to confirm it",
        "Nothing yet: the next tick decides.",
    )


def _why_not_known(snapshot: Snapshot) -> str:
    """A checkpoint that was read has no entry for it; or else why none was read."""
    if snapshot.intent is None:
        reasons = [one.reason for one in snapshot.outcomes if one.source == "intent" and one.reason]
        return reasons[0] if reasons else "the kubelet's promises were not read"
    for one in snapshot.intent.sources:
        if one.name == "memory checkpoint" and one.state == "missing":
            return f"there is no memory checkpoint that can be read: {one.reason or 'it is not there'}"
    return "no checkpoint entry could be matched to this cgroup"


def _has_huge_pages(intent: ContainerIntent) -> bool:
    return any(block.type != "memory" and block.bytes for block in intent.promise.memory or ())


def _placed(
    intent: Intent | None, evidence: _Evidence, allowed: Allowed, intended: NodeSet, thresholds: Thresholds
) -> _Said:
    """The verdict on a container whose memory is where it was promised."""
    if allowed.cpus is None:
        return _Said("unknown", "the allowed CPUs are not known")
    cpu_remote = _why_cpu_remote(evidence, allowed.cpus, intended, thresholds)
    if cpu_remote is not None:
        own = evidence.intent
        cause = None if intent is None or own is None else cpu_cause(own, allowed.cpus, intent)
        if cause is None:
            return _Said("cpu-remote", cpu_remote)
        return _Said("cpu-remote", f"{cpu_remote}: {cause.reason}", cause.remedy)
    share = evidence.remote_share
    if share is not None and share.lower > thresholds.remote_access_share:
        return _Said("remote-access", f"at least {share.lower:.0%} {_SAMPLED} ({share.source})")
    if len(intended) > 1:
        return _Said("split", f"the promise spans nodes {intended}, so part of the accesses is remote by design")
    if share is None:
        return _Said("aligned", "access not measured")
    return _Said("aligned", f"at most {share.upper:.0%} {_SAMPLED} ({share.source})")


def _why_unmanaged(intent: Intent | None, evidence: _Evidence) -> str | None:
    """Why nothing was promised; None when something was, or when that is not known."""
    container = evidence.container
    if container.pod_uid is None:
        return "not a Kubernetes container"
    if container.qos is not None and container.qos != "Guaranteed":
        return f"the pod is {container.qos}"
    if intent is None:
        return None
    if (intent.config.memory_manager_policy or "").lower() == "none":
        return "the kubelet's memory manager policy is None"
    own = evidence.intent
    if own is not None and own.promise.memory == ():
        pod = (intent.pods or {}).get(own.pod_uid)
        if pod is not None and pod.has_pod_level_resources:
            return "the pod has pod-level resources, which the memory manager leaves alone"
        return "the memory manager holds nothing for it"
    return None


def _why_cpu_remote(evidence: _Evidence, cpus: CpuSet, intended: NodeSet, thresholds: Thresholds) -> str | None:
    """By the measured CPU time; by the allowed CPUs when it is idle or was not measured."""
    nodes = frozenset(intended)
    ran = share_outside(evidence.cpu_seconds or {}, nodes)
    if ran is not None:
        late = ran > thresholds.cpu_remote_share
        return f"{ran:.0%} of the CPU time was on other nodes than {intended}" if late else None
    by_node = {node.id: len(node.cpus & cpus) for node in evidence.machine.nodes}
    may = share_outside(by_node, nodes)
    if may is None or may <= thresholds.cpu_remote_share:
        return None
    why = "CPU time was not measured" if evidence.cpu_seconds is None else "idle"
    return f"{may:.0%} of the allowed CPUs are on other nodes than {intended} ({why})"


def _spilled_bytes(resident: Resident, intended: NodeSet, thresholds: Thresholds) -> int:
    """Judged bytes outside the intended nodes when they are past the limits, else 0."""
    outside = bytes_outside(resident.judged, intended)
    past = outside > thresholds.spilled_bytes and outside > thresholds.spilled_share * sum(resident.judged.values())
    return outside if past else 0


def _spilled_ticks(evidence: _Evidence, thresholds: Thresholds, earlier: Judgements | None) -> int:
    intended = intended_nodes(evidence.intent)
    if not intended or evidence.resident is None or not _spilled_bytes(evidence.resident, intended, thresholds):
        return 0
    return 1 + (0 if earlier is None else earlier.spilled_ticks.get(evidence.container.id, 0))


def _since(name: VerdictName, container: ContainerId, now: float, earlier: Judgements | None) -> float | None:
    """Kept while the verdict stays the same, unknown at the very first tick."""
    if earlier is None:
        return None
    last = earlier.verdicts.get(container)
    return last.since if last is not None and last.name == name else now
