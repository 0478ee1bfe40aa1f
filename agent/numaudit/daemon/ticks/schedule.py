"""Schedule of ticks: at fixed intervals of the monotonic clock, so that nothing drifts and no clock step matters.

Ticks keep away from the moments at which scrapers come. Where a tick falls on a scrape, some scrapes see two ticks
more than the one before and others none, and rate() is wrong by a third, for hours.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

_LEAD = 0.25
"""Share of the interval that a tick comes before the earliest scrape: more than scrapers are early or late."""
_TOO_NEAR = 0.05
"""Share of the interval between a tick and a scrape that makes the schedule move again."""
_RECENT = 4
"""Intervals for which a scrape counts, and between two moves."""
_KNOWN = 3
"""Scrapes from which on the schedule is chosen by them."""


class Schedule(Struct):
    """Ticks are due at `begun + n * interval`. One that would begin when the next is due already is missed."""

    interval: float
    begun: float
    missed: int = 0
    _done: int = 0
    _moved: int = 0
    """Ticks that were done at the newest move; 0 = it was never chosen."""

    def next_due(self, now: float, scrapes: Sequence[float] = ()) -> float:
        """Return the time of the next tick, after one has ended now. `scrapes`: times of scrapes, by the same clock."""
        self._done += 1
        late = int((now - self.begun) / self.interval) - self._done
        if late > 0:
            self.missed += late
            self._done += late
        self._keep_away(now, [at for at in scrapes if now - at < _RECENT * self.interval])
        return self.due

    @property
    def due(self) -> float:
        """Return the time at which the next tick is due."""
        return self.begun + self._done * self.interval

    def begin(self, now: float) -> None:
        """The first tick is due now."""
        self.begun, self._done, self._moved = now, 0, 0

    def restart(self, interval: float, now: float) -> None:
        """Another interval from now on."""
        self.interval, self.begun, self._done, self._moved = interval, now, 1, 0

    def _keep_away(self, now: float, scrapes: Sequence[float]) -> None:
        """Move all further ticks to where they are longest after one scrape and a little before the next.

        A move makes one rate a little wrong, so there is one when scrapers are known, and another only when it must be.
        """
        if len(scrapes) < _KNOWN or self._done - self._moved < _RECENT:
            return
        near, lead = _TOO_NEAR * self.interval, _LEAD * self.interval
        away = [(at - self.begun) % self.interval for at in scrapes]
        if self._moved and all(near <= phase <= self.interval - near for phase in away):
            return
        begin, length = widest_gap(away, self.interval)
        if length < 2 * near:
            return  # scrapers come all the time
        later = (begin + length - min(lead, length / 2)) % self.interval
        earlier = self.begun + self._done * self.interval + later - self.interval > now + near
        self.begun += later - self.interval if earlier else later
        self._moved = self._done


def widest_gap(phases: Sequence[float], interval: float) -> tuple[float, float]:
    """Begin and length of the longest time without any of the phases, on a clock that goes round once an interval."""
    ordered = sorted(phases)
    following = [*ordered[1:], ordered[0] + interval]
    length, begin = max((after - before, before) for before, after in zip(ordered, following, strict=True))
    return begin, length
