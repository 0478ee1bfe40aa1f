"""The OTLP push: when it is due, and how it went."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct, field
from opentelemetry.sdk.resources import Resource

from numaudit.exporters import otel
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import PushCounts
from numaudit.exporters.otlp_delivery import Receiver

_LAST_PUSH = 1.5
"""Seconds for the last push when the agent ends."""
_log = logging.getLogger(__name__)


class OtlpPusher(Struct):
    """A service: pushes from a thread of its own, and counts the outcomes."""

    name: ClassVar[str] = "otlp"

    receiver: Receiver
    of: Resource
    current: Callable[[], Sequence[Exposition]]
    """Source of what is sent; called once for each push."""
    interval: float = 60.0
    counts: PushCounts = field(default_factory=PushCounts)
    _news: object = ()
    """State that was logged last: None = delivered, else the problem."""
    _not_before: float = 0.0
    _first_tick: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Push at the first tick, and then every `interval`."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def there_is_a_tick(self) -> None:
        """From now on there is something to push."""
        self._first_tick.set()

    def stop(self, seconds: float) -> None:
        """Push once more if the receiver answered last time, and end; not longer than `seconds`, nor `_LAST_PUSH`."""
        seconds = min(seconds, _LAST_PUSH)
        self._stop.set()
        self._first_tick.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(seconds * 0.75)
            self.receiver.close()
            self._thread.join(seconds * 0.25)

    def has_died(self) -> bool:
        """True when its thread ended without being stopped."""
        thread = self._thread
        started = thread is not None and thread.ident is not None
        return started and not self._stop.is_set() and not (thread and thread.is_alive())

    def push(self) -> bool:
        """Send the newest values; True when every part was delivered."""
        expositions, now = self.current(), time.time()
        points = otel.points(expositions)
        found = self.receiver.deliver(otel.requests(expositions, self.of, now))
        delivered = found.problem is None
        counts = self.counts
        counts.batches["delivered" if delivered else "failed"] += 1
        counts.points["delivered"] += found.delivered
        counts.points["rejected"] += found.rejected
        counts.points["failed"] += points - found.delivered - found.rejected
        self._not_before = time.monotonic() + found.wait
        if delivered:
            counts.deliveries += 1
            counts.last_success = time.time()
        self._log(found.problem)
        return delivered

    def _log(self, problem: str | None) -> None:
        """Each change once."""
        if problem == self._news:
            return
        self._news = problem
        if problem is None:
            _log.info("OTLP push to %s: delivered", self.receiver.target)
        else:
            _log.error("OTLP push to %s: failed; the agent keeps trying: %s", self.receiver.target, problem)

    def _run(self) -> None:
        self._first_tick.wait()
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self.push()
            except Exception:
                self.counts.batches["failed"] += 1
                self._news = ()
                _log.exception("internal error in the OTLP push")
            due = max(due + self.interval, self._not_before, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                break
        if self._news is None:
            self.push()
