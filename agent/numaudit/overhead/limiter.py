"""What do the probes cost, and what has to rest so that they keep to their budget?

The cost is estimated: events that the probes counted, times nanoseconds for each event (calibration.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from numaudit.containers.inventory import Inventory
from numaudit.evaluation.alignment import MISALIGNED, Judgements
from numaudit.overhead.budget import Budget, Load, WatchList, choose, next_budget, share_of
from numaudit.overhead.calibration import Listener, assumed
from numaudit.probes import first_touch, hint_faults, page_alloc
from numaudit.probes.cpu_time import CpuTimeByNode
from numaudit.probes.first_touch import FirstTouchByNode
from numaudit.probes.hint_faults import HintFaultsByNode
from numaudit.probes.migrations import MigrationsByCgroup
from numaudit.probes.page_alloc import AllocationsByNode
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import AnyRead, Session
from numaudit.snapshot import ContainerId, Cost, Overhead, OverheadOfProbe, Snapshot

WATCHED_AT_MOST = 64
"""Containers on the watch list."""


@dataclass(slots=True)
class Keeper:
    """Keeps the probes of one session to a share of all CPUs' time."""

    session: Session
    limit: float
    """Share of the CPU time of all online CPUs, 0.01 = 1 %."""
    costs: dict[str, Cost]
    """By the probe's name; what is not in it is assumed."""
    inventory: Inventory
    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = time.monotonic
    _before: Mapping[str, AnyRead] = field(default_factory=dict)
    _looked_at: float | None = None
    _turn: int = 0
    _sums: dict[str, tuple[int, float]] = field(default_factory=dict)
    _listener: Listener = field(init=False)

    def __post_init__(self) -> None:
        self._listener = Listener(self.session)

    def after_look(self, snapshot: Snapshot, judgements: Judgements) -> Overhead:
        """What the probes cost since the look before, and what rests from now on.

        Raises OSError, and Refusal when a probe that rested cannot be put back.
        """
        now = self.clock()
        loads, dropped = self._loads(), self._has_dropped()
        share = None
        if self._looked_at is not None:
            share = share_of(loads, now - self._looked_at, len(snapshot.machine.node_of_cpu))
            self.budget = next_budget(self.budget, share, self.limit)
        self._looked_at = now
        self.costs |= self._listener.after_look(loads)
        self._before = dict(self.session.last_reads)
        self._rest()
        watched = self._narrow(snapshot, judgements, dropped)
        return Overhead(
            share,
            self.limit,
            self.budget.steps,
            None if watched is None else watched.coverage,
            self._add(loads),
        )

    def _loads(self) -> list[Load]:
        """Events since the look before, of each probe that was read in both."""
        loads = []
        for name, read in self.session.last_reads.items():
            earlier = self._before.get(name)
            if earlier is not None and (events := count_between(read, earlier)) is not None:
                loads.append(Load(name, events, self.cost_of(name).ns))
        return loads

    def _add(self, loads: list[Load]) -> tuple[OverheadOfProbe, ...]:
        """The sums since the first look."""
        for load in loads:
            events, seconds = self._sums.get(load.probe, (0, 0.0))
            self._sums[load.probe] = events + load.events, seconds + load.seconds
        return tuple(
            OverheadOfProbe(probe, events, seconds, self.cost_of(probe).ns, self.cost_of(probe).basis)
            for probe, (events, seconds) in self._sums.items()
        )

    def _has_dropped(self) -> bool:
        """Did the map of hint faults become full since the look before?"""
        read, earlier = self.session.last_reads.get(hint_faults.NAME), self._before.get(hint_faults.NAME)
        if not isinstance(read, HintFaultsByNode):
            return False
        return read.dropped > (earlier.dropped if isinstance(earlier, HintFaultsByNode) else 0)

    def cost_of(self, probe: str) -> Cost:
        """Of one event, as it was measured last, else as it is assumed."""
        return self.costs.get(probe) or assumed(probe)

    def close(self) -> None:
        """Ask the kernel for nothing more."""
        self._listener.close()

    def _rest(self) -> None:
        steps = self.budget.steps
        self.session.let_rest(page_alloc.NAME, "page_alloc off" in steps)
        self.session.let_rest(first_touch.NAME, "first_touch off" in steps)
        self.session.let_rest(hint_faults.NAME, "hint_faults off" in steps)

    def _narrow(self, snapshot: Snapshot, judgements: Judgements, has_dropped: bool) -> WatchList | None:
        """Watch some only when that is a step taken, or when the map has no room for all: then the others go first."""
        probe = self.session.hint_faults
        if isinstance(probe, Refusal):
            return None
        if not has_dropped and "watch list" not in self.budget.steps:
            probe.watch(None)
            return None
        chosen = self._choose(snapshot, judgements)
        groups = self.inventory.take().groups
        cgroups = frozenset(group.id for id_ in chosen.watched for group in groups.get(ContainerId(id_), ()))
        probe.watch(cgroups)
        if has_dropped:
            probe.forget_all_but(cgroups)
        return chosen

    def _choose(self, snapshot: Snapshot, judgements: Judgements) -> WatchList:
        intents = {} if snapshot.intent is None else snapshot.intent.by_cgroup
        promised = [one.id for one in snapshot.containers if (found := intents.get(one.id)) and found.promise.memory]
        suspicious = [id_ for id_, verdict in judgements.verdicts.items() if verdict.name in MISALIGNED]
        chosen = choose(promised, suspicious, [one.id for one in snapshot.containers], WATCHED_AT_MOST, self._turn)
        self._turn = chosen.next_turn
        return chosen


def count_between(later: AnyRead, earlier: AnyRead) -> int | None:
    """Events between two reads of one probe; None = it does not tell. Raises TypeError for two probes' reads."""
    match later, earlier:
        case (AllocationsByNode(), AllocationsByNode()):
            return later.since(earlier).events
        case (CpuTimeByNode(), CpuTimeByNode()):
            return later.since(earlier).events
        case (HintFaultsByNode(), HintFaultsByNode()):
            return later.since(earlier).events
        case (MigrationsByCgroup(), MigrationsByCgroup()):
            return later.since(earlier).events
        case (FirstTouchByNode(), FirstTouchByNode()):
            return later.since(earlier).events
    raise TypeError(f"{type(later).__name__} and {type(earlier).__name__} are reads of two probes")
