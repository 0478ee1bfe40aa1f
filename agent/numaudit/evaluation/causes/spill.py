"""Are bytes outside the promised nodes to stay, or are they on their way home?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from numaudit.evaluation.by_page_size import HugePagesOfContainer
from numaudit.evaluation.causes.placement import bytes_outside, unmapped_bytes_outside
from numaudit.evaluation.rates import ends_at
from numaudit.evaluation.thresholds import Thresholds
from numaudit.snapshot import Resident
from numaudit.topology.nodeset import NodeSet


class Spill(Struct, frozen=True):
    """Bytes of one container that are outside the promised nodes, past the limits."""

    outside: int
    seen_since: float
    """Seconds since the epoch of the first tick that counts."""
    ticks: int
    """Number of successive ticks that count; 0 = its cpuset allows other nodes, so this is no spill yet."""
    unmapped: int
    """Of these, bytes in files in memory that no process maps, at least: the kernel never moves them."""
    settling: bool
    """Its cpuset was put right since they came there. The kernel then moves them, and memory.numa_stat lags behind."""
    huge_pages: tuple[HugePagesOfContainer, ...] = ()
    """The sizes of which some are outside."""
    unread: bool = False
    """As of the tick before: now its memory cannot be read."""

    def is_certain(self, now: float, thresholds: Thresholds) -> bool:
        """Is it no passing thing?"""
        if self.ticks < thresholds.spilled_ticks:
            return False
        # A clock that was set back says nothing.
        return not (self.settling and 0 <= now - self.seen_since < thresholds.settling_seconds)


def next_spill(
    resident: Resident,
    intended: NodeSet,
    drifted: bool,
    earlier: Spill | None,
    now: float,
    thresholds: Thresholds,
    huge_pages: Sequence[HugePagesOfContainer] = (),
) -> Spill | None:
    """The spill as of this tick; None = hardly any bytes are outside. `drifted`: the cpuset allows other nodes.

    Huge pages of each size are also judged alone: one page of 1 GiB is a small share of a large container, but all of
    what it was promised.
    """
    # What was seen before is not over until it is clearly less.
    factor = ends_at(1.0) if earlier is not None and earlier.ticks else 1.0
    outside = bytes_outside(resident.judged, intended)
    sizes = tuple([one for one in huge_pages if one.misplaced_bytes])
    if outside <= factor * thresholds.spilled_bytes and not sizes:
        return None
    if not _is_past(outside, sum(resident.judged.values()), thresholds, factor) and not any(
        _is_past(one.misplaced_bytes or 0, one.held, thresholds, factor) for one in sizes
    ):
        return None
    outside = max(outside, sum(one.misplaced_bytes or 0 for one in sizes))
    unmapped = unmapped_bytes_outside(resident, intended)
    if drifted:
        return Spill(outside, now, 0, unmapped, True, sizes)
    if earlier is None:
        return Spill(outside, now, 1, unmapped, False, sizes)
    moving = earlier.settling and outside < earlier.outside - thresholds.spilled_bytes
    if moving or not earlier.ticks:
        return Spill(outside, now, 1, unmapped, True, sizes)
    return Spill(outside, earlier.seen_since, earlier.ticks + 1, unmapped, earlier.settling, sizes)


def _is_past(outside: int, of: int, thresholds: Thresholds, factor: float) -> bool:
    return outside > factor * thresholds.spilled_bytes and outside > factor * thresholds.spilled_share * of
