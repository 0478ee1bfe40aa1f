"""Accesses that the processor counts: exact but for what is made up for where counters were shared."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.evaluation.access import (
    LEAST_ACCESSES,
    Access,
    Counted,
    CountedNow,
    Source,
    counted_now,
    counted_of_process,
)
from numaudit.evaluation.rates import Window
from numaudit.evaluation.sources.base import NO_PAIRS, AccessEvidence, AccessPair, SourceResult, remote_of
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import ProcessAccesses


class Pmu:
    """The PMU's events that tell local from remote."""

    name: Source = "pmu"

    def runs(self, snapshot: Snapshot) -> bool:
        return snapshot.pmu is not None

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """Nothing where it was not counted in both ticks, or the container has not run."""
        now = _counted_now(evidence)
        if now is None:
            return SourceResult(None, window)
        window = window.after(_pairs(now), evidence.snapshot.taken_at, evidence.thresholds.window)
        return SourceResult(_share(window, now), window)


def _counted_now(evidence: AccessEvidence) -> CountedNow | None:
    snapshot, before = evidence.snapshot, evidence.before
    now = None if snapshot.pmu is None else snapshot.pmu.get(evidence.container)
    if now is None or (before is not None and before.pmu is None):
        return None
    return counted_now(now, None if before is None or before.pmu is None else before.pmu.get(evidence.container))


def _pairs(counted: CountedNow) -> Mapping[AccessPair, float]:
    if counted.missing is not None:
        return NO_PAIRS
    return {(node, None if is_remote else node, is_remote): n for (node, is_remote), n in counted.accesses.items()}


def _share(window: Window[AccessPair], now: CountedNow) -> Access:
    total, remote = window.total, remote_of(window.amounts)
    return _share_of(now, total, remote, window.age if total else None)


def _share_of(now: CountedNow, total: float, remote: float, age: float | None) -> Access:
    """The remote share of counted accesses, or why they say none. `now`: the newest of them."""
    basis = now.basis
    said = Counted(round(total), round(remote), basis.unit, basis.set, basis.includes_prefetch, now.is_multiplexed)
    found = Access("pmu", "accesses", None, age=age, counted=said)
    if total >= LEAST_ACCESSES:
        ratio = remote / total
        return replace(found, remote_ratio=ratio, lower=ratio, upper=ratio)
    few = f"{int(total)} counted accesses are too few; at least {LEAST_ACCESSES} are needed"
    return replace(found, reason=now.missing or few)


def share_of_process(accesses: ProcessAccesses | None, pid: int) -> Access | None:
    """The remote share of a process's counted accesses, or why it is not known; None = it did not run, or nobody
    counted."""
    if accesses is None or accesses.basis is None:
        return None
    found = accesses.counted.get(pid)
    if found is None:
        reason = accesses.uncounted.get(pid)
        return None if reason is None else Access("pmu", "accesses", None, reason=reason)
    now = counted_of_process(accesses.basis, found)
    return None if now.running is None else _share_of(now, found.local + found.remote, found.remote, None)
