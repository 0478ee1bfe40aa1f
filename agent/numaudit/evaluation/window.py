"""Recent measurements: amounts that count for less the older they are. No clock: time is a field of a snapshot."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct, field

Key = TypeVar("Key", bound=Hashable)

_HALVINGS = 4
"""Number of times that an amount has been halved when it is as old as the window is long."""
_NEGLIGIBLE = 0.01
"""Less than this of samples or seconds is forgotten."""
_CLEARLY = 0.5
"""A rate that was past its limit is past it until it is below this share of the limit."""


class Window(Struct, Generic[Key], frozen=True):
    """Amounts by key, such as seconds by node; a kind that was not seen is not in it."""

    amounts: Mapping[Key, float] = field(default_factory=dict)
    age: float = 0.0
    """Mean age of the amounts in seconds at the tick that the window was made in."""
    taken_at: float = 0.0
    """Seconds since the epoch of that tick."""

    @property
    def total(self) -> float:
        return sum(self.amounts.values())

    def after(self, added: Mapping[Key, float], taken_at: float, length: float) -> Window[Key]:
        """The window of a tick at `taken_at`, in which `added` was measured. `length` is the window's, in seconds.

        A clock that was set back makes nothing older or newer.
        """
        if not self.amounts:
            return Window(added, 0.0, taken_at) if added else self
        passed = max(0.0, taken_at - self.taken_at)
        weight = 0.5 ** (_HALVINGS * passed / length)
        amounts = {key: amount * weight for key, amount in self.amounts.items()}
        kept = total = sum(amounts.values())
        if kept < _NEGLIGIBLE:
            return Window(added, 0.0, taken_at)
        if added:
            for key, amount in added.items():
                amounts[key] = amounts.get(key, 0) + amount
            total = sum(amounts.values())
        return Window(amounts, (self.age + passed) * kept / total if total else 0.0, taken_at)


def is_past(limit: float, at_least: float, at_most: float, was_past: bool) -> bool:
    """Is a rate past its limit? Once it was, it is until all of its interval is clearly on the other side."""
    return at_least > limit or (was_past and at_most >= ends_at(limit))


def ends_at(limit: float) -> float:
    """A rate that was past its limit is so no longer when it is below this one."""
    return _CLEARLY * limit
