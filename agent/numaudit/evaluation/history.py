"""Evidence about one container that verdicts keep from tick to tick.

Rates are made of a window of many ticks, since the kernel samples memory in bursts that are minutes apart and many
containers hardly run in a tick. Where a rate was past its limit stays known until evidence says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from numaudit.evaluation.access import Measured
from numaudit.evaluation.rates import Window, ends_at, is_past, share_outside
from numaudit.evaluation.verdicts import Thresholds
from numaudit.snapshot import Allowed
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet

_NO_SECONDS: Window[int] = Window()
_NO_MOVES: Window[str] = Window()
_NO_COUNTS: Window[bool] = Window()
_MOVES = ("failed", "moved")


class RanElsewhere(Struct, frozen=True):
    """The share of CPU time on other nodes than the promised ones, when it was measured last."""

    share: float
    is_past: bool
    taken_at: float
    """Seconds since the epoch: the newest tick in which it ran."""
    latest: float | None = None
    """The share of this tick's CPU time alone; None = it did not run, or that was not measured."""


class UsedElsewhere(Struct, frozen=True):
    """The newest measurement of the use of other nodes' memory."""

    share: Measured
    taken_at: float
    """Seconds since the epoch."""
    is_past: bool
    ended_at: float | None = None
    """Seconds since the epoch: when it was past its limit last, and then no more; None = it never was so."""
    comes_and_goes: bool = False
    """It was past its limit again soon after that: a worker that runs in bursts. Then it holds for as long."""


class Moves(Struct, frozen=True):
    """Pages that NUMA balancing wanted to bring to the CPUs that use them, lately."""

    amounts: Window[str]
    """`failed` and `moved`."""
    is_past: bool
    """Most of them cannot be moved, and these are many."""


class History(Struct, frozen=True):
    """It holds as long as the container may use the same nodes."""

    allowed: Allowed | None = None
    """The newest that was read."""
    cpu_seconds: Window[int] = _NO_SECONDS
    """By node."""
    counts: Window[bool] = _NO_COUNTS
    """Accesses that the processor counted, by whether they were remote."""
    ran: RanElsewhere | None = None
    used: UsedElsewhere | None = None
    moves: Moves | None = None
    """None = none were tried."""

    @property
    def is_worth_keeping(self) -> bool:
        """False: it says nothing that the next tick does not know by itself."""
        return bool(self.counts.amounts or self.cpu_seconds.amounts or self.ran or self.used or self.moves)

    def moved_to(self, allowed: Allowed | None, machine: Machine) -> History:
        """The same for what is allowed now, empty if these are other nodes. What is not known changes nothing."""
        if allowed is self.allowed or allowed is None or allowed.nodes is None or allowed.cpus is None:
            return self
        if uses_other_nodes(self.allowed, allowed, machine):
            return History(allowed)
        if self.allowed is not None and self.allowed.cpus == allowed.cpus:
            return self
        return replace(self, allowed=allowed)

    def judged(
        self,
        home: NodeSet,
        grown: Mapping[int, float] | None,
        share: Measured | None,
        limit: float,
        taken_at: float,
        thresholds: Thresholds,
        *,
        saw_nothing: bool = False,
    ) -> History:
        """With the CPU seconds by node since the previous tick, and the remote share now. None = not measured.

        `home`: nodes whose CPUs are local to the promised memory. `limit`: of the remote share. `saw_nothing`: of pages
        that were used remotely nothing is left.
        """
        seconds = self.cpu_seconds
        if grown is not None:
            seconds = seconds.after(grown, taken_at, thresholds.window)
        enough = grown is not None and seconds.total >= thresholds.cpu_seconds
        outside = share_outside(seconds.amounts, home) if enough else None
        ran = self.ran
        if outside is not None:
            past = is_past(thresholds.cpu_remote_share, outside, outside, ran is not None and ran.is_past)
            ran_at = taken_at if ran is None or (grown and any(grown.values())) else ran.taken_at
            ran = RanElsewhere(outside, past, ran_at, share_outside(grown or {}, home))
        elif ran is not None:
            ran = replace(ran, latest=None)
        used = _next_use(self.used, share, limit, taken_at, thresholds, saw_nothing=saw_nothing)
        return History(self.allowed, seconds, self.counts, ran, used, self.moves)

    def moved(self, moves: tuple[int, int] | None, taken_at: float, thresholds: Thresholds) -> History:
        """With the pages since the previous tick that could not be moved and that could. None = not measured."""
        known = self.moves
        if known is None and not (moves and any(moves)):
            return self
        window = _NO_MOVES if known is None else known.amounts
        added = {} if moves is None else {kind: pages for kind, pages in zip(_MOVES, moves, strict=True) if pages}
        window = window.after(added, taken_at, thresholds.window)
        failed, done = (window.amounts.get(kind, 0.0) for kind in _MOVES)
        if not window.amounts:
            return self if known is None else replace(self, moves=None)
        was_past = known is not None and known.is_past
        many = failed >= (ends_at(thresholds.failed_moves) if was_past else thresholds.failed_moves)
        most = failed >= (ends_at(1.0) if was_past else 1.0) * done
        return replace(self, moves=Moves(window, many and most))


def _next_use(
    used: UsedElsewhere | None,
    share: Measured | None,
    limit: float,
    taken_at: float,
    thresholds: Thresholds,
    *,
    saw_nothing: bool,
) -> UsedElsewhere | None:
    """Of memory that is used in bursts the verdict holds for as long as the window is after the newest of them."""
    if used is None:
        return (
            None if share is None else UsedElsewhere(share, taken_at, is_past(limit, share.lower, share.lower, False))
        )
    if share is not None and is_past(limit, share.lower, share.lower, used.is_past):
        is_soon = not used.is_past and used.ended_at is not None and taken_at - used.ended_at <= thresholds.window
        return UsedElsewhere(share, taken_at, True, used.ended_at, used.comes_and_goes or is_soon)
    age = taken_at - used.taken_at
    if used.is_past and used.comes_and_goes and age <= thresholds.window:
        return used
    ended_at = taken_at if used.is_past else used.ended_at
    if share is not None:
        return UsedElsewhere(share, taken_at, False, ended_at, used.comes_and_goes)
    if not (saw_nothing and used.share.used_remotely is not None) and age <= thresholds.access_age:
        return used
    is_soon = ended_at is not None and taken_at - ended_at <= thresholds.window
    return replace(used, is_past=False, ended_at=ended_at) if is_soon else None


def remote_limit(thresholds: Thresholds, promised: NodeSet) -> float:
    """A larger remote share is `remote-access`: at least that of one that uses all promised nodes alike from each."""
    return max(thresholds.remote_access_share, 1 - 1 / len(promised))


def uses_other_nodes(then: Allowed | None, now: Allowed | None, machine: Machine) -> bool:
    """May the container use memory or CPUs of other nodes than before? What is not known changes nothing.

    A shared pool of CPUs changes with every pod that comes or goes, and mostly stays on its nodes.
    """
    if then is now or then is None or now is None or now.nodes is None or now.cpus is None:
        return False
    if then.nodes != now.nodes:
        return True
    if then.cpus == now.cpus:
        return False
    before, after = (machine.nodes_of_cpus(one or CpuSet()) for one in (then.cpus, now.cpus))
    return before is not None and after is not None and before != after
