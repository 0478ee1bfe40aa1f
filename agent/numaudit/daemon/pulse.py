"""Do ticks come and succeed? What was published is served only as long as they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from numaudit.web.pages import Health

_MOST = 3
"""This many failed ticks in a row, or intervals since the newest snapshot, and the agent is not healthy."""
_LEAST_SECONDS = 10.0
"""A snapshot may always be this old: ticks of a second may take longer now and then."""
_TO_BEGIN = 60.0
"""Seconds that the first tick may take, if three intervals are less."""


@dataclass(slots=True)
class Pulse:
    """What the loop notes of its ticks, and what follows for health. Read by other threads."""

    interval: float
    now: Callable[[], float] = time.monotonic
    succeeded: int = 0
    failed: int = 0
    observed_at: float | None = None
    """When the newest snapshot was taken, by the clock `now`; None before the first."""
    _begun: float = field(init=False)
    _failed_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._begun = self.now()

    def success(self, observed_at: float) -> None:
        """A tick gave a snapshot, taken at this time."""
        self.observed_at = observed_at
        self.succeeded += 1
        self._failed_in_a_row = 0

    def failure(self) -> None:
        """A tick gave none."""
        self.failed += 1
        self._failed_in_a_row += 1

    @property
    def age(self) -> float | None:
        """Seconds since the newest snapshot was taken; None before the first."""
        return None if self.observed_at is None else self.now() - self.observed_at

    def is_current(self) -> bool:
        """Whether the newest snapshot may still be served."""
        return self.observed_at is not None and self.health().good

    def health(self) -> Health:
        """Whether the agent does its work, and the words for it."""
        if self._failed_in_a_row >= _MOST:
            return Health(False, f"the newest {self._failed_in_a_row} ticks failed; the log says why")
        age, limit = self.age, max(_LEAST_SECONDS, _MOST * self.interval)
        if age is None:
            silent = self.now() - self._begun
            good = silent < max(_TO_BEGIN, limit)
            return Health(good, "ok: the first tick is under way" if good else f"no tick has ended for {silent:.0f} s")
        if age > limit:
            return Health(False, f"the newest snapshot is {age:.0f} s old")
        return Health(True, f"ok: {self.succeeded} ticks, the newest snapshot is {age:.2f} s old")

    def readiness(self) -> Health:
        """Whether there is a snapshot to serve."""
        if self.observed_at is None:
            return Health(False, "no snapshot yet")
        return Health(True, "ready")
