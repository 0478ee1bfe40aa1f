"""Near and far memory accesses of each cgroup, from counted events; they only grow.

The kernel shares the counters of a CPU among all events that are asked for. So each event says for how long it was
asked for (enabled), and for how long it counted (running).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec import Struct, field

from numaudit.pmu.choose import Accesses, Plan, scaled
from numaudit.probes.probe import Reading
from numaudit.snapshot.counted import Locality

OfNode = tuple[int, Locality]
"""The CPU's node, and whether the memory was its own."""
TimeKind = Literal["enabled", "running"]
Times = dict[TimeKind, int]
Words = tuple[int, ...]
"""Of each event of a plan in turn: its count, and the nanoseconds for which it was enabled and running."""
WORDS = 3


@dataclass(frozen=True, slots=True)
class AccessCounts(Reading):
    """Accesses of the tasks in each cgroup since load, in the unit of the plan's set."""

    plan: Plan
    accesses: Mapping[int, Mapping[OfNode, int]] = dataclasses.field(default_factory=dict)
    """A cgroup none of whose events ran has no row, however long they were enabled."""
    times: Mapping[int, Mapping[TimeKind, int]] = dataclasses.field(default_factory=dict)
    """Nanoseconds: the tasks' CPU time, and that of it in which the events of the plan that ran least were counted."""
    switches: int | None = None
    """Number of times that the program ran, at switches and a few times for readings; None where there is none."""
    counted_by = ("switches",)

    @property
    def events(self) -> int | None:
        return self.switches


class _Place(NamedTuple):
    node: int
    cpu: int


class _Sums(Struct):
    """Of one cgroup."""

    accesses: dict[OfNode, int] = field(default_factory=dict)
    times: Times = field(default_factory=lambda: {"enabled": 0, "running": 0})
    seen: dict[_Place, Words] = field(default_factory=dict)
    """At the last reading."""
    used: dict[_Place, Words] = field(default_factory=dict)
    """Counts from which `accesses` was computed: not the same where an event has not run since."""


class AccessSums(Struct):
    """Adds up what the events of a plan counted, by cgroup, node and CPU, from one reading to the next."""

    plan: Plan
    _by_cgroup: dict[int, _Sums] = field(default_factory=dict)

    @property
    def accesses(self) -> dict[int, dict[OfNode, int]]:
        return {cgroup: dict(sums.accesses) for cgroup, sums in self._by_cgroup.items() if sums.accesses}

    @property
    def times(self) -> dict[int, Times]:
        return {cgroup: dict(sums.times) for cgroup, sums in self._by_cgroup.items()}

    def add(self, cgroup: int, place: tuple[int, int], words: Words) -> None:
        """The newest reading of the counts of one CPU, (node, CPU). Smaller ones than before began again at 0."""
        sums, where = self._by_cgroup.setdefault(cgroup, _Sums()), _Place(*place)
        seen = sums.seen.get(where)
        if seen == words:
            return
        if seen is not None and any(map(operator.lt, words, seen)):
            seen = None
            sums.used.pop(where, None)
        sums.seen[where] = words
        grown = _grown(words, seen)
        enabled, running = times_of(grown)
        sums.times["enabled"] += enabled
        sums.times["running"] += running
        grown = _grown(words, sums.used.get(where))
        found = accesses_of(self.plan, grown)
        if found is None:  # what an event did not count is made up for when it has run
            return
        sums.used[where] = words
        for key, count in zip(_keys(where.node), found, strict=True):
            sums.accesses[key] = sums.accesses.get(key, 0) + round(count)

    def cgroups(self) -> set[int]:
        return {*self._by_cgroup}

    def forget(self, cgroups: Collection[int]) -> int:
        """Forget these cgroups and return the number of those that were known."""
        return sum(self._by_cgroup.pop(cgroup, None) is not None for cgroup in cgroups)

    def begin_again(self, cgroup: int) -> None:
        """Its events are closed; those that are opened for it later count from 0. The sums stay."""
        sums = self._by_cgroup.get(cgroup)
        if sums is not None:
            sums.seen.clear()
            sums.used.clear()


def accesses_of(plan: Plan, words: Words) -> Accesses | None:
    """Accesses computed from the counts of a plan's events; None = one of them did not run."""
    return plan.accesses([scaled(*words[at : at + WORDS]) for at in range(0, len(words), WORDS)])


def times_of(words: Words) -> tuple[int, int]:
    """Nanoseconds for which the event of a plan that ran least was enabled and running."""
    return max(zip(words[1::WORDS], words[2::WORDS], strict=True), key=_not_running)


def _not_running(times: tuple[int, int]) -> int:
    enabled, running = times
    return enabled - running


def _keys(node: int) -> tuple[OfNode, OfNode]:
    return (node, "local"), (node, "remote")


def _grown(words: Words, before: Words | None) -> Words:
    return words if before is None else tuple(map(operator.sub, words, before))
