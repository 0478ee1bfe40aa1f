"""Values and messages of the screen of `numaudit top`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from numaudit.api.placement_document import Placement
from numaudit.report.values import ContainerReport, Report
from numaudit.views.trends import RowKey, key_of


def find(report: Report, key: RowKey) -> ContainerReport | None:
    """The container of that key, while there is one."""
    return next((one for one in report.containers if key_of(one) == key), None)


class Opened(Struct, frozen=True):
    """Readings of the one container whose page is open."""

    key: RowKey
    placement: Placement | None
    """None = it is of no pod."""


class TickFigures(Struct, frozen=True):
    """One tick."""

    whole: Report
    """Of the host."""
    report: Report
    """The requested report of it."""
    opened: Opened | None = None


class TickBegan(Struct, frozen=True):
    """A tick runs; its figures come next."""


class Failed(Struct, frozen=True):
    """A tick that failed; the next one is tried."""

    reason: str


class FeedEnded(Struct, frozen=True):
    """There will be no more ticks."""

    error: BaseException


News = TickBegan | TickFigures | Failed | FeedEnded


class Feed(Protocol):
    """Source of ticks. It measures in a thread of its own, so that no key has to wait."""

    captured: str | None
    """The captured tree that this is about, which never changes; None = this host."""
    interval: float
    """Seconds."""

    def start(self, tell: Callable[[News], None]) -> None:
        """Begin; `tell` is called in the other thread."""

    def set_interval(self, seconds: float) -> None:
        """From now on."""

    def set_paused(self, paused: bool) -> None:
        """Measure nothing until it goes on, which it does with a tick at once."""

    def open(self, key: RowKey | None) -> None:
        """Read for this container what only its page shows, at once and at every tick; None = for none."""

    def stop(self) -> None:
        """Measure nothing more, and let go of the probes."""
