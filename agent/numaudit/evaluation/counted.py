"""Counted accesses of a container: what they amount to lately, and when they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from numaudit.counted import CountBasis, CountedAccesses, CountedOfProcess
from numaudit.evaluation.rates import increase
from numaudit.value import Value

LEAST_ACCESSES = 10_000
"""With fewer no share is made of them: they are those of a program that hardly uses memory."""
_MOSTLY = 0.9
"""Counters that ran for less of the time were shared with others, and the rest of the count is made up for."""
_HELD = "the counters never ran while it did: others hold them, such as the NMI watchdog or a profiler"


class Counted(Value, frozen=True):
    """The processor's counts lately, and their basis. Older counts weigh less."""

    accesses: int
    """All that were counted."""
    remote_accesses: int
    """Those to another node's memory."""
    unit: Literal["lines", "loads"]
    """lines of the cache, or load instructions."""
    basis: str
    """The set of events, by its name in docs/measuring.md."""
    includes_prefetch: bool | None
    """null = on some CPUs of this kind."""
    multiplexed: bool
    """The counters were shared with others since the previous tick, so a part of the count is made up for."""


class CountedNow(NamedTuple):
    """Counts since the previous tick."""

    basis: CountBasis
    accesses: Mapping[tuple[int, bool], int]
    """By the CPU's node, and whether the memory was another node's."""
    running: float | None
    """Share of its CPU time in which the counters ran; None = it did not run."""
    missing: str | None
    """Reason why it says nothing; None = it does."""

    @property
    def is_multiplexed(self) -> bool:
        return self.running is not None and self.running < _MOSTLY


def counted_now(now: CountedAccesses, before: CountedAccesses | None) -> CountedNow:
    """Gains of a container's counters. A counter that fell started again from 0."""
    gained = increase(now.by_node, None if before is None else before.by_node)
    accesses = {(node, locality == "remote"): count for (node, locality), count in gained.items()}
    times = increase(_times(now), None if before is None else _times(before))
    running = times["running"] / times["enabled"] if times["enabled"] else None
    missing = None
    if not now.is_watched:
        missing = "it is not on the watch list now, which keeps the probes within their budget"
    elif running == 0:
        missing = _HELD
    return CountedNow(now.basis, accesses, running, missing)


def counted_of_process(basis: CountBasis, counted: CountedOfProcess) -> CountedNow:
    """Counts of one process; its node is not known, so they are not by node."""
    running = counted.running_ns / counted.enabled_ns if counted.enabled_ns else None
    return CountedNow(basis, {}, running, _HELD if running == 0 else None)


def _times(counted: CountedAccesses) -> dict[str, int]:
    return {"enabled": counted.enabled_ns, "running": counted.running_ns}
