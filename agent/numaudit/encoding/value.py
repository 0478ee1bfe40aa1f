"""Common parts of the values of JSON documents: one spelling of keys and of times, and an origin. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from msgspec import Struct


class Value(Struct, frozen=True, rename="camel"):
    """A value that documents show as it is: `numa_node` in Python is `numaNode` in JSON."""


class Timestamp(float):
    """A point of time: seconds since the epoch, as `time.time()` has them. Documents show it by RFC 3339, in UTC."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """By RFC 3339, with a zone. Raises ValueError."""
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError(f"a time needs a zone, such as 2026-11-23T02:20:05Z: {text[:60]!r}")
        return cls(found.timestamp())

    def __str__(self) -> str:
        """To the millisecond, such as 2026-11-23T02:20:05.123Z."""
        shown = datetime.fromtimestamp(round(self, 3), UTC).isoformat(timespec="milliseconds")
        return shown.removesuffix("+00:00") + "Z"


def timestamp(seconds: float | None) -> Timestamp | None:
    """None = not known."""
    return None if seconds is None else Timestamp(seconds)


class Origin(Value, frozen=True):
    """Host and time of a document's values. A document's header says what None means."""

    host: str | None
    taken_at: Timestamp | None
