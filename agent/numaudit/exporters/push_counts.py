"""Results of the OTLP pushes, counted by the agent itself. Needs none of the packages that a push needs."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from numaudit.exporters.facts import OtlpCounts


class PushCounts(Struct):
    """Written by the thread that pushes, read by others."""

    deliveries: int = 0
    """Pushes of which every part was delivered."""
    last_success: float | None = None
    """Time when that was last so, in seconds since the epoch."""
    batches: Counter[str] = field(default_factory=lambda: Counter(delivered=0, failed=0))
    points: Counter[str] = field(default_factory=lambda: Counter(delivered=0, rejected=0, failed=0))

    def now(self) -> OtlpCounts:
        """The counts so far."""
        return OtlpCounts(dict(self.batches), dict(self.points), self.last_success)
