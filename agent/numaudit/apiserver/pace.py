"""Times of rounds: soon after success, ever later after failures, and never together with other nodes."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

LONGEST = 600.0
"""Seconds between two rounds while they fail, but for a server that asks for more."""
LEAST = 10.0
"""Seconds between two rounds while what is published changes."""
_MOST_DOUBLINGS = 10


class Pace(Struct):
    """Times of rounds, by the monotonic clock, so that no step of the host's clock matters."""

    interval: float
    """Seconds between two looks at the object."""
    chance: Callable[[float, float], float] = random.uniform
    """A number between two."""
    due: float = float("-inf")
    """Time of the next round."""
    earliest: float = float("-inf")
    """Time from which a change of what is published makes it due."""
    failed: int = 0
    """Failures in a row."""

    def succeeded(self, now: float, contested: int = 0) -> None:
        """`contested`: rounds in a row in which somebody else had written what is ours."""
        self.failed = 0
        wait = min(self.interval * 2.0 ** min(contested, _MOST_DOUBLINGS), max(LONGEST, self.interval))
        self.due = now + wait * self.chance(0.9, 1.1)
        self.earliest = self.due if contested else min(self.due, now + LEAST)

    def failure(self, now: float, wait: float | None = None) -> None:
        """`wait`: seconds for which the server wants no request."""
        doubled = min(self.interval, LEAST) * 2.0 ** min(self.failed, _MOST_DOUBLINGS)
        self.failed += 1
        delay = min(doubled, max(LONGEST, self.interval)) * self.chance(0.5, 1.0)
        self.due = self.earliest = now + max(delay, (wait or 0.0) * self.chance(1.0, 1.1))
