"""One source that is polled: its newest value, and its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Generic, Literal, TypeVar

from numaudit.errors import ParseError, Unavailable, to_keep
from numaudit.intent.kubelet import SourceName, SourceState
from numaudit.kernel.host import explain
from numaudit.kubelet.sources.patience import NoTimeLeft

RETRY_AFTER = 30.0
"""Seconds before a source that did not answer is asked again."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Polled(Generic[Value]):
    """Keeps the last good value when a later call fails, and does not ask a silent source all the time."""

    name: SourceName
    every: float = 0.0
    """Seconds before it is asked again; 0 = each time."""
    reasons_are_gaps: bool = False
    """A reason beside its value says what of it was not understood."""
    value: Value | None = None
    error: Exception | None = None
    """Of the newest call; None = it gave a value, or there was none yet."""
    state: SourceState = field(init=False)
    _not_before: float = 0.0

    def __post_init__(self) -> None:
        self.state = SourceState(self.name, "missing", "not asked yet")

    @property
    def is_current(self) -> bool:
        return self.state.state in {"ok", "partial"}

    def ask(self, fetch: Callable[[], tuple[Value, str | None]]) -> None:
        """Ask, unless it is too early; `fetch` gives the value and what of it is missing."""
        clock = monotonic()
        if clock < self._not_before:
            return
        try:
            self.value, reason = fetch()
            self.error = None
            is_partial = reason is not None and self.reasons_are_gaps
            self.state = SourceState(self.name, "partial" if is_partial else "ok", reason, time())
            self._not_before = clock + self.every
        except (Unavailable, ParseError, OSError) as error:
            self.error = to_keep(error)
            state: Literal["missing", "old"] = "missing" if self.value is None else "old"
            self.state = SourceState(self.name, state, explain(error), self.state.read_at)
            if not isinstance(error, NoTimeLeft):
                self._not_before = clock + RETRY_AFTER

    def expire(self, now: float, max_age: float) -> None:
        """Forget a value that was read longer ago (in seconds; `now` since the epoch) than the source may be silent."""
        read_at = self.state.read_at
        if self.state.state == "old" and read_at is not None and now - read_at > max_age:
            self.value = None
            self.state = SourceState(self.name, "missing", f"{self.state.reason}; its last values are too old", read_at)

    def again(self) -> None:
        """The source itself is another one: ask at the next opportunity."""
        self._not_before = 0.0

    def hurry(self) -> None:
        """The answer may have changed: do not wait longer, unless for a source that does not answer."""
        if self.is_current:
            self._not_before = 0.0
