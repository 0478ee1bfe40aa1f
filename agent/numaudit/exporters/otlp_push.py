"""The OTLP push: when it is due, and how it went."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource

from numaudit.exporters import otel
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.facts import OtlpCounts
from numaudit.exporters.otlp_delivery import Receiver

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Push:
    """Pushes from a thread of its own, and counts the outcomes."""

    receiver: Receiver
    of: Resource
    current: Callable[[], Sequence[Exposition]]
    """What to send; called once for each push."""
    interval: float = 60.0
    deliveries: int = 0
    """Pushes of which every part was delivered."""
    last_success: float | None = None
    """When that was last so, in seconds since the epoch."""
    _batches: Counter[str] = field(default_factory=lambda: Counter(delivered=0, failed=0))
    _points: Counter[str] = field(default_factory=lambda: Counter(delivered=0, rejected=0, failed=0))
    _news: object = ()
    """What was logged last: None = delivered, else the problem."""
    _not_before: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Push now and then every `interval`."""
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Push once more if the receiver answered last time, and end; not longer than `seconds`."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds * 0.75)
            self.receiver.close()
            self._thread.join(seconds * 0.25)

    def counts(self) -> OtlpCounts:
        return OtlpCounts(dict(self._batches), dict(self._points), self.last_success)

    def push(self) -> bool:
        """Send the newest values; True when every part was delivered."""
        expositions, now = self.current(), time.time()
        points = otel.points(expositions)
        found = self.receiver.deliver(otel.requests(expositions, self.of, now))
        delivered = found.problem is None
        self._batches["delivered" if delivered else "failed"] += 1
        self._points["delivered"] += found.delivered
        self._points["rejected"] += found.rejected
        self._points["failed"] += points - found.delivered - found.rejected
        self._not_before = time.monotonic() + found.wait
        if delivered:
            self.deliveries += 1
            self.last_success = time.time()
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
        due = time.monotonic()
        while True:
            try:
                self.push()
            except Exception:
                self._batches["failed"] += 1
                self._news = ()
                _log.exception("internal error in the OTLP push")
            due = max(due + self.interval, self._not_before, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                break
        if self._news is None:
            self.push()
