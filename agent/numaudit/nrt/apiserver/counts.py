"""Outcomes of publishing the node's NodeResourceTopology, counted by the agent itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct, field


class NrtCounts(Struct, frozen=True):
    """Result of publishing the node's NodeResourceTopology."""

    writes: int
    failures: Mapping[str, int]
    """Reason -> rounds that failed."""
    last_success: float | None = None
    """Time when the object last had all that it should, in seconds since the epoch; None = not yet."""


class PublishCounts(Struct):
    """Written by the thread that publishes, read by others."""

    writes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    last_success: float | None = None
    """Time when the object last had all that it should, in seconds since the epoch."""
    failing: str | None = None
    """Reason of the newest round's failure; None = it was none."""
    clock: Callable[[], float] = time.time

    def now(self) -> NrtCounts:
        """The counts so far."""
        return NrtCounts(self.writes, dict(self.failures), self.last_success)

    def sentence(self) -> str:
        """For people who look at the agent's health."""
        if self.last_success is None:
            since = "not yet published"
        else:
            since = f"up to date {max(0.0, self.clock() - self.last_success):.0f} s ago"
        return f"NodeResourceTopology {since}{f', now failing: {self.failing}' if self.failing else ''}"
