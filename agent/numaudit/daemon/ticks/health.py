"""Do ticks come and succeed, and do all services work? What was published is served only as long as ticks succeed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from numaudit.daemon.web.pages import Health

_MOST = 3
"""This many failed ticks in a row, or intervals since the newest snapshot, and the agent is not healthy."""
_LEAST_SECONDS = 10.0
"""A snapshot may always be this old: ticks of a second may take longer now and then."""
_TO_BEGIN = 60.0
"""Seconds that the first tick may take, if three intervals are less."""


class _Success(NamedTuple):
    """A tick that gave a snapshot."""

    number: int
    observed_at: float
    ended_at: float


@dataclass(slots=True)
class HealthMonitor:
    """Record of the ticker's ticks, and the health that follows from it. Read by other threads."""

    interval: float
    died: Callable[[], Sequence[str]] = tuple
    """Names of services that ended by an error of theirs."""
    now: Callable[[], float] = time.monotonic
    note: Callable[[], str] = str
    """Of what goes on beside the ticks and leaves the agent healthy; "" = nothing."""
    failed: int = 0
    _begun: float = field(init=False)
    _newest: _Success | None = None
    """One value, so that other threads never see half of it."""
    _failed_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._begun = self.now()

    def success(self, observed_at: float) -> None:
        """A tick has ended with a snapshot that was taken at this time, by the clock `now`."""
        self._newest = _Success(self.succeeded + 1, observed_at, self.now())
        self._failed_in_a_row = 0

    def failure(self) -> None:
        """A tick gave none."""
        self.failed += 1
        self._failed_in_a_row += 1

    @property
    def succeeded(self) -> int:
        """Ticks so far that gave a snapshot."""
        return 0 if self._newest is None else self._newest.number

    @property
    def age(self) -> float | None:
        """Seconds since the newest snapshot was taken; None before the first."""
        return None if self._newest is None else self.now() - self._newest.observed_at

    def is_current(self) -> bool:
        """Return True when the newest snapshot may still be served."""
        return self._newest is not None and self._of_ticks().good

    def health(self) -> Health:
        """Return the agent's health: whether it does its work, and a sentence."""
        ticks = self._of_ticks()
        if ticks.good and (died := self.died()):
            return Health(False, f"ended by an internal error: {', '.join(died)}; the log says why")
        note = self.note()
        return Health(True, f"{ticks.text}; {note}") if ticks.good and note else ticks

    def readiness(self) -> Health:
        """Return the agent's readiness: whether there is a snapshot to serve."""
        if self._newest is None:
            return Health(False, "no snapshot yet")
        return Health(True, "ready")

    def _of_ticks(self) -> Health:
        if self._failed_in_a_row >= _MOST:
            return Health(False, f"the newest {self._failed_in_a_row} ticks failed; the log says why")
        newest, limit = self._newest, max(_LEAST_SECONDS, _MOST * self.interval)
        if newest is None:
            silent = self.now() - self._begun
            good = silent < max(_TO_BEGIN, limit)
            return Health(good, "ok: the first tick is under way" if good else f"no tick has ended for {silent:.0f} s")
        age = self.now() - newest.observed_at
        if age > limit:
            return Health(False, f"the newest snapshot is {age:.0f} s old")
        return Health(True, f"ok: {newest.number} ticks, the newest ended {self.now() - newest.ended_at:.2f} s ago")
