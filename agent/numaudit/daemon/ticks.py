"""When to tick: on a fixed beat of the monotonic clock, so that nothing drifts and no clock step matters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Beat:
    """Ticks are due at `begun + n * interval`. One that would begin when the next is due already is missed."""

    interval: float
    begun: float
    missed: int = 0
    _done: int = 0

    def next_due(self, now: float) -> float:
        """When the next tick is due, after one has ended now."""
        self._done += 1
        late = int((now - self.begun) / self.interval) - self._done
        if late > 0:
            self.missed += late
            self._done += late
        return self.begun + self._done * self.interval
