"""Verdicts: did each container get what it was promised?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from numaudit.evaluation.access import Access, Measured, measured
from numaudit.evaluation.access_reasons import said_of, why_still
from numaudit.evaluation.causes import remedies
from numaudit.evaluation.causes.arrivals import Arrival
from numaudit.evaluation.causes.causes import Explained, full_nodes
from numaudit.evaluation.causes.cpu_causes import cpu_cause
from numaudit.evaluation.causes.failed_moves import failed_moves
from numaudit.evaluation.causes.spill import Spill, next_spill
from numaudit.evaluation.changes import unchanged, why_no_intent
from numaudit.evaluation.history import History, by_design, uses_other_nodes
from numaudit.evaluation.rates import cpu_seconds, share_outside
from numaudit.evaluation.sources.base import AccessEvidence, AccessSource
from numaudit.evaluation.sources.table import evaluate_sources, running_sources
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.evaluation.verdicts import Verdict, VerdictName
from numaudit.evaluation.window import ends_at
from numaudit.intent import ContainerIntent, Intent
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.sizes import in_units
from numaudit.value import timestamp


@dataclass(frozen=True, slots=True)
class Judgements:
    """Verdicts of one tick, and what the next tick needs of them."""

    verdicts: Mapping[ContainerId, Verdict] = field(default_factory=dict)
    """Pause sandboxes and the remainders of pods and slices have none: nothing is promised to them."""
    spills: Mapping[ContainerId, Spill] = field(default_factory=dict)
    accesses: Mapping[ContainerId, tuple[Access, ...]] = field(default_factory=dict)
    """From where each container used its memory lately."""
    histories: Mapping[ContainerId, History] = field(default_factory=dict)
    """Of the containers that something is remembered of."""
    arrivals: Mapping[ContainerId, Arrival] = field(default_factory=dict)
    """How bytes came to where they should not be; of containers that have such bytes."""
    thresholds: Thresholds = DEFAULT
    """The limits by which it was judged."""
    unchanged: frozenset[ContainerId] = frozenset()
    """Containers that this tick found just as the previous one did."""
    settled: frozenset[ContainerId] = frozenset()
    """Of these, the ones that will be judged the same as long as nothing changes, however much time passes."""

    @property
    def needs_another_tick(self) -> bool:
        """Are bytes out of place that a second tick must confirm?"""
        return any(spill.ticks for spill in self.spills.values())


class _Conclusion(NamedTuple):
    """Conclusion about a container now, with its evidence."""

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
    history: History
    measures_cpu: bool
    spill: Spill | None
    machine: Machine
    now: float


def judge(
    snapshot: Snapshot,
    before: Snapshot | None = None,
    earlier: Judgements | None = None,
    thresholds: Thresholds = DEFAULT,
) -> Judgements:
    """Judge every container of a snapshot.

    `before` is the previous snapshot and `earlier` its judgements; without `before`, all that was counted is of now.
    """
    judging = _Judging.of(snapshot, before, earlier, thresholds)
    for container in snapshot.containers:
        if container.id in judging.kept:
            judging.keep(container.id)
        else:
            judging.judge(container)
    return judging.judgements()


@dataclass(slots=True)
class _Judging:
    """The judgement of one tick."""

    snapshot: Snapshot
    before: Snapshot | None
    earlier: Judgements | None
    thresholds: Thresholds
    unchanged: frozenset[ContainerId]
    kept: frozenset[ContainerId]
    """Containers whose judgement of the previous tick still holds."""
    explained: Explained
    there_before: frozenset[ContainerId] | None
    sources: tuple[AccessSource, ...]
    verdicts: dict[ContainerId, Verdict] = field(default_factory=dict)
    spills: dict[ContainerId, Spill] = field(default_factory=dict)
    accesses: dict[ContainerId, tuple[Access, ...]] = field(default_factory=dict)
    histories: dict[ContainerId, History] = field(default_factory=dict)
    settled: set[ContainerId] = field(default_factory=set)

    @classmethod
    def of(
        cls, snapshot: Snapshot, before: Snapshot | None, earlier: Judgements | None, thresholds: Thresholds
    ) -> _Judging:
        same = unchanged(snapshot, before)
        kept: frozenset[ContainerId] = frozenset()
        if earlier is not None and before is not None and thresholds == earlier.thresholds:
            are_alike = full_nodes(snapshot.nodes, thresholds) == full_nodes(before.nodes, thresholds)
            kept = same & earlier.settled if are_alike else kept  # causes name nodes that are full now
        there_before = None if before is None else frozenset([one.id for one in before.containers])
        arrivals = {} if earlier is None else earlier.arrivals
        explained, sources = Explained(snapshot, before, arrivals, thresholds), running_sources(snapshot)
        return cls(snapshot, before, earlier, thresholds, same, kept, explained, there_before, sources)

    def keep(self, id_: ContainerId) -> None:
        """The same as in the previous tick."""
        assert self.earlier is not None
        verdict, arrival = self.earlier.verdicts.get(id_), self.earlier.arrivals.get(id_)
        if verdict is not None:
            self.verdicts[id_] = verdict
        if arrival is not None:
            self.explained.arrivals[id_] = arrival
        self.accesses[id_] = self.earlier.accesses[id_]
        self.settled.add(id_)

    def judge(self, container: Container) -> None:
        snapshot, before, thresholds, id_ = self.snapshot, self.before, self.thresholds, container.id
        known = None if self.earlier is None or before is None else self.earlier.histories.get(id_)
        allowed = snapshot.allowed.get(id_)
        history = History(allowed) if known is None else known.moved_to(allowed, snapshot.machine)
        grown = cpu_seconds(snapshot, id_, before)
        moves = failed_moves(snapshot, id_, before)
        if uses_other_nodes(_allowed_before(id_, known, before), allowed, snapshot.machine):
            grown = moves = None  # nobody knows which part of them came after the change
        if self.there_before is not None and id_ not in self.there_before:
            grown = None  # some of it is its runtime's, from before its cpuset held
        ran = history.ran_with(grown)
        evidence = AccessEvidence(snapshot, id_, before, thresholds, ran, grown)
        evaluated = evaluate_sources(self.sources, evidence, history.samples)
        self.accesses[id_] = evaluated.accesses
        if evaluated.windows is not history.samples:
            history = replace(history, samples=evaluated.windows)
        history = history.moved(moves, snapshot.taken_at, thresholds)
        if is_judged(container):
            history = self._conclude(container, history, grown, measured(evaluated.accesses))
        if history.is_worth_keeping:
            self.histories[id_] = history
        elif id_ in self.unchanged and self._left_as_it_was(id_):
            self.settled.add(id_)

    def _conclude(
        self, container: Container, history: History, grown: Mapping[int, float] | None, share: Measured | None
    ) -> History:
        """The verdict, and what is remembered after it."""
        snapshot, thresholds, id_ = self.snapshot, self.thresholds, container.id
        intended = intended_nodes(None if snapshot.intent is None else snapshot.intent.by_cgroup.get(id_))
        if intended:
            history = history.judged(intended, grown, share, snapshot.taken_at, thresholds)
        evidence = _gather(snapshot, container, history, self.earlier, thresholds, measures_cpu=grown is not None)
        if evidence.spill is not None:
            self.spills[id_] = evidence.spill
        name, reason, remedy = _verdict(snapshot, evidence, thresholds)
        causes = self.explained.of(container, intended, drifted=name == "drifted")
        if remedy is None:
            remedy = remedies.remedy(name, remedies.owner(container, snapshot.intent), snapshot.intent)
        since = _since(name, id_, snapshot.taken_at, self.earlier)
        self.verdicts[id_] = Verdict(name, reason, timestamp(since), causes, remedy)
        return history

    def _left_as_it_was(self, id_: ContainerId) -> bool:
        """Does the next tick begin with what this one began with? That is how its bytes came, and nothing that ages."""
        earlier = self.earlier
        if earlier is None or id_ in earlier.histories or id_ in earlier.spills or id_ in self.spills:
            return False
        return self.explained.arrivals.get(id_) == earlier.arrivals.get(id_)

    def judgements(self) -> Judgements:
        return Judgements(
            self.verdicts,
            self.spills,
            self.accesses,
            self.histories,
            self.explained.arrivals,
            self.thresholds,
            self.unchanged,
            frozenset(self.settled),
        )


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


def _allowed_before(id_: ContainerId, known: History | None, before: Snapshot | None) -> Allowed | None:
    """Its cpuset at the previous tick, or when that was read last; None = there was none, or it is not known."""
    if known is not None:
        return known.allowed
    return None if before is None else before.allowed.get(id_)


def _gather(
    snapshot: Snapshot,
    container: Container,
    history: History,
    earlier: Judgements | None,
    thresholds: Thresholds,
    *,
    measures_cpu: bool,
) -> _Evidence:
    id_, now = container.id, snapshot.taken_at
    intent = None if snapshot.intent is None else snapshot.intent.by_cgroup.get(id_)
    allowed, resident = snapshot.allowed.get(id_), snapshot.residency.get(id_)
    intended, spill = intended_nodes(intent), None
    if intended and resident is not None:
        drifted = allowed is not None and allowed.nodes is not None and allowed.nodes != intended
        known = None if earlier is None else earlier.spills.get(id_)
        spill = next_spill(resident, intended, drifted, known, now, thresholds)
    return _Evidence(container, intent, allowed, resident, history, measures_cpu, spill, snapshot.machine, now)


def _verdict(snapshot: Snapshot, evidence: _Evidence, thresholds: Thresholds) -> _Conclusion:
    """The first verdict that applies, as long as the evidence of every one before it is known."""
    unmanaged = _why_unmanaged(snapshot.intent, evidence)
    if unmanaged is not None:
        return _Conclusion("unmanaged", unmanaged)
    intended = intended_nodes(evidence.intent)
    if evidence.intent is None or not intended:
        return _Conclusion("unknown", f"its promise is unknown: {_why_not_known(snapshot)}")
    if evidence.allowed is None or evidence.allowed.nodes is None:
        return _Conclusion("unknown", "its allowed nodes are unknown")
    if evidence.allowed.nodes != intended:
        return _Conclusion("drifted", _drift(evidence.allowed.nodes, intended))
    if evidence.resident is None or evidence.resident.anon is None:
        return _Conclusion("unknown", "its resident memory is unknown")
    spill = evidence.spill
    if spill is not None:
        of = remedies.owner(evidence.container, snapshot.intent)
        return _spilled(spill, intended, of, evidence.now, thresholds)
    if evidence.resident.hugetlb is None and _has_huge_pages(evidence.intent):
        return _Conclusion("unknown", "its huge pages are unknown, because no hugetlb controller counts them by node")
    return _placed(snapshot.intent, evidence, evidence.allowed, intended, thresholds)


def _spilled(spill: Spill, intended: NodeSet, of: remedies.Owner, now: float, thresholds: Thresholds) -> _Conclusion:
    if spill.is_certain(now, thresholds):
        said = f"{in_units(spill.outside)} of its judged bytes are outside the promised nodes {intended}"
        if spill.unmapped <= thresholds.spilled_bytes:
            return _Conclusion("spilled", said)
        are_all = spill.outside - spill.unmapped <= thresholds.spilled_bytes
        said += f", {in_units(spill.unmapped)} of them in files in memory that no process maps"
        return _Conclusion("spilled", said, remedies.of_unmapped(of, are_all))
    if spill.settling:
        reason = "its cpuset was corrected, and memory outside the promised nodes may still be moving back"
        return _Conclusion("unknown", reason, "Wait until it has stopped moving.")
    return _Conclusion(
        "unknown",
        "memory is outside the promised nodes, but a second tick must confirm it",
        "Wait for the next tick, which decides.",
    )


def _drift(allowed: NodeSet, promised: NodeSet) -> str:
    """it may use nodes 0,2, but was promised node 2 only"""
    only = " only" if promised <= allowed else ""
    return f"it may use {_nodes(allowed)}, but was promised {_nodes(promised)}{only}"


def _nodes(nodes: NodeSet) -> str:
    if not nodes:
        return "no node"
    return f"node {nodes}" if len(nodes) == 1 else f"nodes {nodes}"


def _why_not_known(snapshot: Snapshot) -> str:
    """A checkpoint that was read has no entry for it; or else why none was read."""
    if snapshot.intent is None:
        return why_no_intent(snapshot) or "the kubelet's promises were not read"
    for one in snapshot.intent.sources:
        if one.name == "memory checkpoint" and one.state == "missing":
            return f"no memory checkpoint can be read: {one.reason or 'it is not there'}"
    return "no checkpoint entry matches this cgroup"


def _has_huge_pages(intent: ContainerIntent) -> bool:
    return any(block.type != "memory" and block.size for block in intent.promise.memory or ())


def _placed(
    intent: Intent | None, evidence: _Evidence, allowed: Allowed, intended: NodeSet, thresholds: Thresholds
) -> _Conclusion:
    """The verdict on a container whose memory is where it was promised."""
    if allowed.cpus is None:
        return _Conclusion("unknown", "its allowed CPUs are unknown")
    cpu_remote = _why_cpu_remote(evidence, allowed.cpus, intended, thresholds)
    if cpu_remote is not None:
        own = evidence.intent
        cause = None if intent is None or own is None else cpu_cause(own, allowed.cpus, intent)
        if cause is None:
            return _Conclusion("cpu-remote", cpu_remote)
        return _Conclusion("cpu-remote", f"{cpu_remote}: {cause.reason}", cause.remedy)
    used = evidence.history.used
    if used is not None and used.is_past:
        limit = max(thresholds.remote_access_share, by_design(intended))
        return _Conclusion("remote-access", said_of(used, evidence.now) + why_still(used.share.lower, limit))
    said = None if used is None else said_of(used, evidence.now)
    if len(intended) > 1:
        part = "" if said is None else f": {said}"
        return _Conclusion(
            "split", f"the promise spans nodes {intended}, so part of the accesses is remote by design{part}"
        )
    return _Conclusion("aligned", said or "access not measured")


def _why_unmanaged(intent: Intent | None, evidence: _Evidence) -> str | None:
    """Why nothing was promised; None when something was, or when that is not known."""
    container = evidence.container
    if container.pod_uid is None and evidence.intent is None:
        return "not a Kubernetes container"
    if container.qos is not None and container.qos != "Guaranteed":
        return f"the pod is {container.qos}"
    if intent is None:
        return None
    if (intent.config.memory_manager_policy or "").lower() == "none":
        return "the kubelet's Memory Manager policy is None"
    own = evidence.intent
    if own is not None and own.promise.memory == ():
        pod = (intent.pods or {}).get(own.pod_uid)
        if pod is not None and pod.has_pod_level_resources:
            return "the pod has pod-level resources, which the Memory Manager ignores"
        return "the Memory Manager promised it nothing"
    return None


def _why_cpu_remote(evidence: _Evidence, cpus: CpuSet, intended: NodeSet, thresholds: Thresholds) -> str | None:
    """By the CPU time when it was measured last; by the allowed CPUs when it has hardly run, or was not measured."""
    limit, ran = thresholds.cpu_remote_share, evidence.history.ran
    if ran is not None:
        if not ran.is_past:
            return None
        said = f"{ran.share:.0%} of the CPU time was on other nodes than {intended}"
        return (
            said if ran.share > limit else f"{said} (it was more than {limit:.0%}, and ends below {ends_at(limit):.1%})"
        )
    by_node = {node.id: len(node.cpus & cpus) for node in evidence.machine.nodes}
    may = share_outside(by_node, frozenset(intended))
    if may is None or may <= limit:
        return None
    seconds = evidence.history.cpu_seconds.total
    why = "CPU time was not measured"
    if evidence.measures_cpu:
        why = f"only {seconds:.1g} s of CPU time were measured" if seconds else "idle"
    return f"{may:.0%} of the allowed CPUs are on other nodes than {intended} ({why})"


def _since(name: VerdictName, container: ContainerId, now: float, earlier: Judgements | None) -> float | None:
    """Kept while the verdict stays the same, unknown at the very first tick."""
    if earlier is None:
        return None
    last = earlier.verdicts.get(container)
    return last.since if last is not None and last.name == name else now
