"""Pages when they are first used: where they came into being, which says nothing of later uses."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from msgspec.structs import replace

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.rates import increase
from numaudit.evaluation.sources.base import NO_PAIRS, AccessEvidence, AccessPair, SourceResult, remote_of
from numaudit.evaluation.window import Window
from numaudit.snapshot import Snapshot

_Z = 1.959964
"""Of the normal distribution, for 95 %."""
_DESIGN_EFFECT = 2.0
"""Samples come in bursts: this many weigh as much as one independent sample."""


class FirstTouch:
    """Sampled page faults."""

    name: Source = "first_touch"

    def runs(self, snapshot: Snapshot) -> bool:
        return snapshot.first_touch is not None

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """A tick whose predecessor did not sample adds nothing, and the window goes on."""
        now, before = evidence.snapshot, evidence.before
        added, container = NO_PAIRS, evidence.container
        is_comparable = before is None or before.first_touch is not None
        if is_comparable:
            earlier = None if before is None or before.first_touch is None else before.first_touch.get(container, {})
            added = _pairs((now.first_touch or {}).get(container, {}), earlier)
        window = window.after(added, now.taken_at, evidence.thresholds.window)
        if not is_comparable and not window.amounts:
            return SourceResult(None, window)
        return SourceResult(_share(window, evidence.thresholds.access_samples), window)


def _pairs(
    now: Mapping[tuple[int, int | None], int], before: Mapping[tuple[int, int | None], int] | None
) -> Mapping[AccessPair, float]:
    """Remote are pages on another node than that of the CPU which first used them."""
    known = ((cpu, page, count) for (cpu, page), count in increase(now, before).items() if page is not None)
    return {(cpu, page, cpu != page): count for cpu, page, count in known}


def _share(window: Window[AccessPair], least: int) -> Access:
    total, remote = window.total, remote_of(window.amounts)
    age = window.age if total else None
    if total >= least:
        found = Access("first_touch", "first-uses", remote / total, samples=round(total), remote_samples=round(remote))
        lower, upper = wilson(remote, total)
        return replace(found, lower=lower, upper=upper, age=age)
    reason = f"{int(total)} samples are too few; at least {least} are needed"
    samples, remote_samples = int(total), int(remote)
    return Access(
        "first_touch", "first-uses", None, samples=samples, remote_samples=remote_samples, reason=reason, age=age
    )


def wilson(part: float, whole: float, design_effect: float = _DESIGN_EFFECT) -> tuple[float, float]:
    """95 % confidence interval of a share, from `part` of `whole` samples.

    With `design_effect` 1 the samples are independent. Source: E. B. Wilson, 1927.
    """
    if not whole:
        return 0.0, 1.0
    n, p = whole / design_effect, part / whole
    centre = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z / (1 + _Z * _Z / n) * sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
