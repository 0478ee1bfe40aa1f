"""Cost of the probes, of one event in nanoseconds as measured where this kernel lets us, else assumed; and the steps
that keep them within their budget: pauses, and a list of the containers that are watched.

A share is of the CPU time of all online CPUs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from numaudit.containers.inventory import Inventory
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import Probe, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Cost, Overhead, OverheadOfProbe

WATCH_LIST = "watch list"
_NARROWS_AT = 2
"""Rank of narrowing the watch list in the order in which probes are paused."""


class BudgetStep(Struct, frozen=True):
    """One thing to give up."""

    name: str
    pauses: ProbeKind[Any] | None
    """None = the watch list is narrowed."""


def steps_of(kinds: Iterable[ProbeKind[Any]]) -> tuple[BudgetStep, ...]:
    """In the order in which they are taken: what shows least for its cost goes first."""
    ranked = [
        (kind.pause_order, BudgetStep(f"{kind.name} off", kind)) for kind in kinds if kind.pause_order is not None
    ]
    return tuple(
        step for _, step in sorted([*ranked, (_NARROWS_AT, BudgetStep(WATCH_LIST, None))], key=lambda one: one[0])
    )


STEPS = steps_of(KINDS)
CALM_TICKS = 20
"""Ticks within the budget before a step is taken back. After each such time its remembered cost is halved."""
SAFE_PART = 0.7
"""A step is taken back only when all of it would take less than this part of the budget."""


class Load(Struct, frozen=True):
    """Work of one probe between two ticks."""

    probe: str
    events: int
    ns_per_event: float

    @property
    def seconds(self) -> float:
        return self.events * self.ns_per_event / 1_000_000_000


class Budget(Struct, frozen=True):
    """Number of STEPS that are taken, and their known cost."""

    taken: int = 0
    calm: int = 0
    """Ticks within the budget since the last step."""
    shares: Mapping[int, float] = {}
    """Number of the step -> share of CPU time that made us take it."""

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps taken."""
        return tuple(step.name for step in STEPS[: self.taken])


def share_of(loads: Collection[Load], seconds: float, cpus: int) -> float:
    """Share of all CPUs' time between two ticks that are this many seconds apart."""
    return sum(load.seconds for load in loads) / (seconds * cpus) if seconds > 0 and cpus else 0.0


def next_budget(budget: Budget, share: float, limit: float) -> Budget:
    """Take a step at once when the share is over the limit; take one back after a calm time that makes it likely
    that the limit holds without it. What cost too much once is thus tried again ever more seldom, but it is tried.
    """
    if share > limit:
        if budget.taken == len(STEPS):
            return Budget(budget.taken, 0, budget.shares)
        return Budget(budget.taken + 1, 0, {**budget.shares, budget.taken: share})
    if not budget.taken:
        return budget
    calm = budget.calm + 1
    cost = budget.shares.get(budget.taken - 1, 0.0) * 0.5 ** (calm // CALM_TICKS)
    if calm >= CALM_TICKS and share + cost < SAFE_PART * limit:
        return Budget(budget.taken - 1, 0, budget.shares)
    return Budget(budget.taken, calm, budget.shares)


class WatchList(Struct, frozen=True):
    """Containers that are watched while not all can be."""

    watched: tuple[int, ...]
    of: int
    """Number of all that could be watched."""
    next_turn: int
    """Index at which the rotation continues."""

    @property
    def coverage(self) -> float:
        """Share of the containers that is watched now."""
        return len(self.watched) / self.of if self.of else 1.0


def choose(
    promised: Sequence[int], suspicious: Sequence[int], others: Sequence[int], most: int, turn: int
) -> WatchList:
    """At most `most`: those that memory was promised to first, then those with a reason for suspicion, then the
    others in turn, so that each gets its time. When even the promised ones are too many, they take turns too.
    """
    groups = (promised, suspicious, others)
    count = len({one for group in groups for one in group})
    chosen: dict[int, None] = {}
    following = turn
    for group in groups:
        waiting = [one for one in group if one not in chosen]
        places = most - len(chosen)
        if len(waiting) <= places:
            chosen.update(dict.fromkeys(waiting))
            continue
        start = turn % len(waiting)
        chosen.update(dict.fromkeys((waiting[start:] + waiting[:start])[:places]))
        following = turn + places
        break
    return WatchList(tuple(chosen), count, following)


_LEAST_EVENTS = 1000
"""With fewer no cost is made of them."""
TICKS_BETWEEN = 20
"""In one tick of this many the kernel keeps account, which costs some 60 ns for each event."""


def assumed(kind: ProbeKind[Any]) -> Cost:
    return Cost(kind.ns_per_event, "assumed")


@dataclass(slots=True)
class RunTimeSampler:
    """Lets the kernel keep account of the programs' run time from one tick to the next, now and then."""

    session: Session
    _until_next: int = 0
    _descriptor: int | None = None
    _before: Mapping[str, RunTime] = field(default_factory=dict)

    def after_tick(self, loads: Collection[Load]) -> dict[str, Cost]:
        """Cost of the events since the previous tick, of each probe that had enough; usually of none.

        Raises OSError when the kernel does not answer about one of the programs.
        """
        costs = {}
        if self._descriptor is not None:
            spent = {name: now - self._before[name] for name, now in self._read().items() if name in self._before}
            self.close()
            costs = {
                load.probe: Cost(spent[load.probe].nanoseconds / load.events, "measured")
                for load in loads
                if load.probe in spent and load.events >= _LEAST_EVENTS
            }
        elif loads and not self._until_next:
            self._until_next = TICKS_BETWEEN
            with suppress(OSError):  # only for CAP_SYS_ADMIN, and only since Linux 5.8
                self._descriptor = bpf.count_run_time()
                self._before = self._read()
        self._until_next = max(0, self._until_next - 1)
        return costs

    def close(self) -> None:
        """The kernel keeps account no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> dict[str, RunTime]:
        found = {name: probe.run_time() for name, probe in self.session.running().items()}
        return {name: spent for name, spent in found.items() if spent is not None}


WATCHED_AT_MOST = 64
"""Containers on the watch list."""
_KINDS = {kind.name: kind for kind in KINDS}


@dataclass(slots=True)
class Limiter:
    """Keeps the probes of one session to a share of all CPUs' time."""

    session: Session
    limit: float
    """Share of the CPU time of all online CPUs, 0.01 = 1 %."""
    inventory: Inventory
    costs: dict[str, Cost] = field(default_factory=dict)
    """By the probe's name; what is not in it is assumed."""
    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = time.monotonic
    _before: Mapping[str, Reading] = field(default_factory=dict)
    _ticked_at: float | None = None
    _turn: int = 0
    _sums: dict[str, tuple[int, float]] = field(default_factory=dict)
    _listener: RunTimeSampler = field(init=False)

    def __post_init__(self) -> None:
        self._listener = RunTimeSampler(self.session)

    def after_tick(self, snapshot: Snapshot, judgements: Judgements, readings: ProbeReadings) -> Overhead:
        """Cost of the probes since the previous tick, and the probes that pause from now on.

        Raises OSError, and ProbeRefusal when a probe that was paused cannot be put back.
        """
        now = self.clock()
        loads, full = self._loads(readings.taken), self._full(readings.taken)
        share = None
        if self._ticked_at is not None:
            share = share_of(loads, now - self._ticked_at, len(snapshot.machine.cpus))
            self.budget = next_budget(self.budget, share, self.limit)
        self._ticked_at = now
        self.costs |= self._listener.after_tick(loads)
        self._before = readings.taken
        steps = self.budget.steps
        for step in STEPS:
            if step.pauses is not None:
                self.session.pause(step.pauses, step.name in steps)
        watched = self._narrow(snapshot, judgements, full)
        coverage = None if watched is None else watched.coverage
        return Overhead(share, self.limit, steps, coverage, self._add(loads))

    def cost_of(self, probe: str) -> Cost:
        """Of one event, as it was measured last, else as it is assumed."""
        return self.costs.get(probe) or assumed(_KINDS[probe])

    def close(self) -> None:
        """Ask the kernel for nothing more."""
        self._listener.close()

    def _loads(self, taken: Mapping[str, Reading]) -> list[Load]:
        """Events since the tick before, of each probe that was read in both."""
        loads = []
        for name, reading in taken.items():
            earlier = self._before.get(name)
            if earlier is not None and (events := reading.events_since(earlier)) is not None:
                loads.append(Load(name, events, self.cost_of(name).ns))
        return loads

    def _add(self, loads: list[Load]) -> tuple[OverheadOfProbe, ...]:
        """The sums since the first tick."""
        for load in loads:
            events, seconds = self._sums.get(load.probe, (0, 0.0))
            self._sums[load.probe] = events + load.events, seconds + load.seconds
        return tuple(
            OverheadOfProbe(probe, events, seconds, self.cost_of(probe).ns, self.cost_of(probe).basis)
            for probe, (events, seconds) in self._sums.items()
        )

    def _full(self, taken: Mapping[str, Reading]) -> set[str]:
        """Probes whose map became full since the tick before."""
        before = {name: reading.lost.get("map-full", 0) for name, reading in self._before.items()}
        return {name for name, reading in taken.items() if reading.lost.get("map-full", 0) > before.get(name, 0)}

    def _narrow(self, snapshot: Snapshot, judgements: Judgements, full: set[str]) -> WatchList | None:
        """Watch some only when that is a step taken, or when a map cannot hold all: then the others go first."""
        probes = self._narrowable()
        if not probes:
            return None
        if full.isdisjoint(probes) and WATCH_LIST not in self.budget.steps:
            for probe in probes.values():
                probe.watch(None)
            return None
        chosen = self._choose(snapshot, judgements)
        groups = self.inventory.take().groups
        cgroups = frozenset(group.id for id_ in chosen.watched for group in groups.get(ContainerId(id_), ()))
        for name, probe in probes.items():
            probe.watch(cgroups)
            if name in full:
                probe.forget(probe.cgroups() - cgroups)
        return chosen

    def _narrowable(self) -> dict[str, Probe[Reading]]:
        kinds: list[ProbeKind[Any]] = [kind for kind in KINDS if kind.can_narrow]
        found = {kind.name: self.session.probe(kind) for kind in kinds}
        return {name: probe for name, probe in found.items() if not isinstance(probe, ProbeRefusal)}

    def _choose(self, snapshot: Snapshot, judgements: Judgements) -> WatchList:
        intents = {} if snapshot.intent is None else snapshot.intent.by_cgroup
        promised = [one.id for one in snapshot.containers if (found := intents.get(one.id)) and found.promise.memory]
        verdicts = judgements.verdicts
        suspicious = [
            one.id for one in snapshot.containers if one.id in verdicts and verdicts[one.id].name in MISALIGNED
        ]
        chosen = choose(promised, suspicious, [one.id for one in snapshot.containers], WATCHED_AT_MOST, self._turn)
        self._turn = chosen.next_turn
        return chosen
