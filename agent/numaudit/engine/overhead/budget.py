"""Budget of measuring: which step to take when the probes take more than their share, and when to take it back.

Pure: the driver is engine/overhead/limiter.py. A share is of the CPU time of all online CPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import ProbeKind

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
    shares: Mapping[int, float] = field(default_factory=dict)
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
