"""Documents of a tick for programs and people: each is made once, when it is first asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from uuid import uuid4

from isal import isal_zlib
from msgspec import Struct, field

from numaudit.api import document
from numaudit.encoding.value import Origin
from numaudit.report.values import Report
from numaudit.views.page.own_page import find
from numaudit.views.page.report_page import Tick, live_container_page, live_page
from numaudit.views.trends import Trends

_GZIP = 16 + isal_zlib.MAX_WBITS


class TickDocument(Struct):
    """The bytes of one tick's document. Safe to use from many threads: whoever comes meanwhile waits for the first."""

    make: Callable[[], bytes]
    _plain: bytes | None = None
    _packed: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, gzip: bool) -> bytes:
        found = self._packed if gzip else self._plain
        if found is not None:
            return found
        with self._lock:
            if self._plain is None:
                self._plain = self.make()
            if gzip and self._packed is None:
                self._packed = isal_zlib.compress(self._plain, 1, wbits=_GZIP)
            return (self._packed if gzip else None) or self._plain


class TickDocuments(Struct, frozen=True):
    """One tick as documents."""

    tag: str
    """Their ETag, which no other tick of any agent has; weak, since packed and plain bytes share it (RFC 9110, 8.8)."""
    observed_at: float
    """By the monotonic clock."""
    interval: float
    """Seconds between ticks."""
    report: TickDocument
    page: TickDocument
    stale_page: TickDocument
    """The page while the ticks after this one fail or are late."""
    container_page: Callable[[str, bool], bytes | None]
    """Page of the container with this key, and whether it is stale; None = no container has the key."""

    @classmethod
    def of(
        cls,
        report: Report,
        observed_at: float,
        interval: float,
        links: Mapping[str, str],
        origin: Origin,
        trends: Trends | None = None,
    ) -> TickDocuments:
        """`links`: path -> what it has, of the agent's other pages. `origin`: host and time of the report.

        `trends`: what is kept of the ticks until this one.
        """
        tick = Tick(report, origin, f'W/"{uuid4().hex}"', links, trends)

        def page(stale: bool) -> bytes:
            return live_page(tick, stale).encode()

        def container_page(name: str, stale: bool) -> bytes | None:
            one = find(report, name)
            return None if one is None else live_container_page(tick, one, stale).encode()

        return cls(
            tick.tag,
            observed_at,
            interval,
            TickDocument(partial(document.encode, "Report", report, origin)),
            TickDocument(partial(page, stale=False)),
            TickDocument(partial(page, stale=True)),
            container_page,
        )

    @property
    def age(self) -> float:
        """Seconds since the tick."""
        return time.monotonic() - self.observed_at
