"""Verdicts: did each container get what it was promised?"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.encoding.value import timestamp
from numaudit.evaluation.access import Access, Measured, measured, saw_nothing
from numaudit.evaluation.causes import remedies
from numaudit.evaluation.causes.arrivals import Arrival, failed_moves
from numaudit.evaluation.causes.causes import CauseFinder
from numaudit.evaluation.causes.placement import Spill, next_spill
from numaudit.evaluation.conclusion import ContainerEvidence, conclude, intended_nodes
from numaudit.evaluation.hint_outcomes import HintOutcome, outcomes
from numaudit.evaluation.history import History, remote_limit, uses_other_nodes
from numaudit.evaluation.huge_pages import by_page_size
from numaudit.evaluation.ranks.judge import ranks_of
from numaudit.evaluation.ranks.rank import Rank
from numaudit.evaluation.rates import cpu_seconds
from numaudit.evaluation.setup import SetupResult, examine
from numaudit.evaluation.setup.facts import SetupFact, facts_of
from numaudit.evaluation.sources import AccessEvidence, accesses_of
from numaudit.evaluation.verdicts import DEFAULT, Thresholds, Verdict, VerdictName
from numaudit.snapshot import Allowed, Container, ContainerId, Snapshot

SETUP_AGAIN = 300.0
"""Seconds until rules about how the node is set up are judged again."""
_NONE: Mapping[str, str] = {}


class Judgements(Struct, frozen=True):
    """Verdicts of one tick, and what the next tick needs of them."""

    verdicts: dict[ContainerId, Verdict] = field(default_factory=dict)
    """Pause sandboxes and the remainders of pods and slices have none: nothing is promised to them."""
    spills: dict[ContainerId, Spill] = field(default_factory=dict)
    accesses: dict[ContainerId, tuple[Access, ...]] = field(default_factory=dict)
    """From where each container used its memory lately."""
    measured: dict[ContainerId, Measured] = field(default_factory=dict)
    """Of the containers of which something was measured, the share that counts."""
    histories: dict[ContainerId, History] = field(default_factory=dict)
    """Of the containers that something is remembered of."""
    arrivals: Mapping[ContainerId, Arrival] = field(default_factory=dict)
    """For each container with bytes on the wrong nodes, how these bytes came there."""
    thresholds: Thresholds = DEFAULT
    """The limits by which it was judged."""
    hint_outcomes: tuple[HintOutcome, ...] | None = None
    """Of the promises. None = of no tick."""
    ranks: Mapping[ContainerId, tuple[Rank, ...]] = field(default_factory=dict)
    """Of the containers whose processes were read; empty = none of them declares anything."""

    setup: tuple[SetupResult, ...] = ()
    """The rules about how the node is set up; empty = its settings were not read."""
    facts: tuple[SetupFact, ...] = ()
    """How the node is set up; of the same time as `setup`."""
    setup_at: float | None = None
    """Time of the tick that judged them, seconds since the epoch."""

    @property
    def needs_another_tick(self) -> bool:
        """Are bytes out of place that a second tick must confirm?"""
        return any(spill.ticks for spill in self.spills.values())


def judge(
    snapshot: Snapshot,
    before: Snapshot | None = None,
    earlier: Judgements | None = None,
    thresholds: Thresholds = DEFAULT,
    accepted: Mapping[str, str] = _NONE,
) -> Judgements:
    """Judge every container of a snapshot, and how its node is set up.

    `before` is the previous snapshot and `earlier` its judgements; without `before`, all that was counted is of now.
    `accepted`: rules of the node's setup -> why what they find is fine here.
    """
    judging = _Judging.of(snapshot, before, earlier, thresholds)
    for container in snapshot.containers:
        judging.judge(container)
    found = judging.judgements()
    if earlier is not None and earlier.setup_at is not None and abs(snapshot.taken_at - earlier.setup_at) < SETUP_AGAIN:
        return replace(found, setup=earlier.setup, facts=earlier.facts, setup_at=earlier.setup_at)
    if snapshot.settings is None:
        return found
    return replace(found, setup=examine(snapshot, accepted), facts=facts_of(snapshot), setup_at=snapshot.taken_at)


class _Judging(Struct):
    """The judgement of one tick."""

    snapshot: Snapshot
    before: Snapshot | None
    earlier: Judgements | None
    thresholds: Thresholds
    explained: CauseFinder
    there_before: frozenset[ContainerId] | None
    found: Judgements

    @classmethod
    def of(
        cls, snapshot: Snapshot, before: Snapshot | None, earlier: Judgements | None, thresholds: Thresholds
    ) -> _Judging:
        there_before = None if before is None else frozenset([one.id for one in before.containers])
        arrivals = {} if earlier is None else earlier.arrivals
        explained = CauseFinder(snapshot, before, arrivals, thresholds)
        return cls(snapshot, before, earlier, thresholds, explained, there_before, Judgements(thresholds=thresholds))

    def judge(self, container: Container) -> None:
        snapshot, before, thresholds, id_ = self.snapshot, self.before, self.thresholds, container.id
        known = None if self.earlier is None or before is None else self.earlier.histories.get(id_)
        allowed = snapshot.allowed.get(id_)
        history = History(allowed) if known is None else known.moved_to(allowed, snapshot.machine)
        grown = cpu_seconds(snapshot, id_, before)
        moves = failed_moves(snapshot, id_, before)
        if uses_other_nodes(_allowed_before(id_, known, before), allowed, snapshot.machine):
            grown = moves = None  # which part of them came after the change is unknown
        if self.there_before is not None and id_ not in self.there_before:
            grown = None  # some of it is its runtime's, from before its cpuset held
        evidence = AccessEvidence(snapshot, id_, before, thresholds)
        self.found.accesses[id_], counts = accesses_of(evidence, history.counts)
        if counts is not history.counts:
            history = replace(history, counts=counts)
        history = history.moved(moves, snapshot.taken_at, thresholds)
        share = measured(self.found.accesses[id_])
        if share is not None:
            self.found.measured[id_] = share
        if is_judged(container):
            history = self._conclude(container, history, grown, share)
        if history.is_worth_keeping:
            self.found.histories[id_] = history

    def _conclude(
        self, container: Container, history: History, grown: Mapping[int, float] | None, share: Measured | None
    ) -> History:
        """The verdict, and what is remembered after it."""
        snapshot, thresholds, id_ = self.snapshot, self.thresholds, container.id
        intended = intended_nodes(None if snapshot.intent is None else snapshot.intent.by_cgroup.get(id_))
        if intended:
            nothing = saw_nothing(self.found.accesses.get(id_, ()))
            home, limit = snapshot.machine.cpu_nodes_of(intended), remote_limit(thresholds, intended)
            history = history.judged(home, grown, share, limit, snapshot.taken_at, thresholds, saw_nothing=nothing)
        evidence = _gather(snapshot, container, history, self.earlier, thresholds, measures_cpu=grown is not None)
        if evidence.spill is not None:
            self.found.spills[id_] = evidence.spill
        conclusion = conclude(snapshot, evidence, thresholds)
        name, remedy = conclusion.name, conclusion.remedy
        off_memory = name == "drifted" and bool(intended)  # not where only its CPUs are others than claimed
        causes = self.explained.of(container, intended, drifted=off_memory)
        if remedy is None:
            remedy = remedies.remedy(name, remedies.owner(container, snapshot.intent), snapshot.intent)
        commands = conclusion.commands if snapshot.cgroup_mode == "v2" else ()
        since = self._since(name, id_)
        self.found.verdicts[id_] = Verdict(name, conclusion.reason, timestamp(since), causes, remedy, commands)
        return history

    def _since(self, name: VerdictName, id_: ContainerId) -> float | None:
        """Kept while the verdict stays the same. None = it was so before the first tick, as far as anybody knows: also
        where the ticks until now lacked the evidence for it.
        """
        last = None if self.earlier is None else self.earlier.verdicts.get(id_)
        if self.earlier is None or (last is not None and last.name == name):
            return None if last is None else last.since
        if last is not None and last.since is None:
            was_measured = name != "remote-access" or id_ in self.earlier.measured
            if last.name == "unknown" or not was_measured:
                return None
        return self.snapshot.taken_at

    def judgements(self) -> Judgements:
        intent = self.snapshot.intent
        return replace(
            self.found,
            arrivals=self.explained.arrivals,
            hint_outcomes=() if intent is None else outcomes(intent),
            ranks={id_: ranks_of(id_, self.snapshot) for id_ in (*self.snapshot.processes, *self.snapshot.watched)},
        )


def is_judged(container: Container) -> bool:
    """Containers and systemd units are; pause sandboxes and what parent groups hold themselves are not.

    Of a pod only its containers are: what else is in its cgroup, such as a runtime's monitor, was promised nothing.
    """
    if container.pod_uid is not None and container.kind != "container":
        return False
    return container.whole


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
) -> ContainerEvidence:
    id_, now = container.id, snapshot.taken_at
    intent = None if snapshot.intent is None else snapshot.intent.by_cgroup.get(id_)
    allowed, resident = snapshot.allowed.get(id_), snapshot.residency.get(id_)
    intended, spill = intended_nodes(intent), None
    known = None if earlier is None else earlier.spills.get(id_)
    if intended and (resident is None or resident.anon is None):
        spill = (
            None
            if known is None or known.unread or known.ticks < thresholds.spilled_ticks
            else replace(known, unread=True)
        )
    elif intended and resident is not None:
        drifted = allowed is not None and allowed.nodes is not None and allowed.nodes != intended
        pages = by_page_size(resident, None if intent is None else intent.promise) or ()
        spill = next_spill(resident, intended, drifted, known, now, thresholds, pages)
    sampled = id_ in (snapshot.sampled_time or {})
    return ContainerEvidence(
        container, intent, allowed, resident, history, measures_cpu, sampled, spill, snapshot.machine, now
    )
