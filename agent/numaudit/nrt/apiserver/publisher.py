"""Publishes from a thread of its own: when something changed, and now and then to see that it is still there."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from numaudit.errors import InputError, Unavailable
from numaudit.nrt.apiserver import PublishCounts
from numaudit.nrt.apiserver.client import KIND, ApiServer
from numaudit.nrt.apiserver.failures import ApiFailure, Reason
from numaudit.nrt.apiserver.publishing import Describe, Round, Wanted, publish

LONGEST = 600.0
"""Seconds between two rounds while they fail, but for a server that asks for more."""
LEAST = 10.0
"""Seconds between two rounds while what is published changes."""
_MOST_DOUBLINGS = 10
_STOP = 1.0
"""Seconds that a request under way has when the agent ends."""


class Pace(Struct):
    """Times of rounds, by the monotonic clock, so that no step of the host's clock matters."""

    interval: float
    """Seconds between two looks at the object."""
    chance: Callable[[float, float], float] = random.uniform
    """A number between two."""
    due: float = float("-inf")
    """Time of the next round."""
    earliest: float = float("-inf")
    """Time from which a change of what is published makes it due."""
    failed: int = 0
    """Failures in a row."""

    def succeeded(self, now: float, contested: int = 0) -> None:
        """`contested`: rounds in a row in which somebody else had written what is ours."""
        self.failed = 0
        wait = min(self.interval * 2.0 ** min(contested, _MOST_DOUBLINGS), max(LONGEST, self.interval))
        self.due = now + wait * self.chance(0.9, 1.1)
        self.earliest = self.due if contested else min(self.due, now + LEAST)

    def failure(self, now: float, wait: float | None = None) -> None:
        """`wait`: seconds for which the server wants no request."""
        doubled = min(self.interval, LEAST) * 2.0 ** min(self.failed, _MOST_DOUBLINGS)
        self.failed += 1
        delay = min(doubled, max(LONGEST, self.interval)) * self.chance(0.5, 1.0)
        self.due = self.earliest = now + max(delay, (wait or 0.0) * self.chance(1.0, 1.1))


_log = logging.getLogger(__name__)


class NrtPublisher(Struct):
    """A service. Only its thread, or who calls `step` instead, changes it."""

    connect: Callable[[], ApiServer]
    """Reads the credentials and makes a client for one round. Raises InputError and ApiFailure."""
    node: Callable[[], str]
    """Raises ApiFailure where the name is not known."""
    describe: Describe
    """Raises Unavailable while nothing is known."""
    counts: PublishCounts
    pace: Pace
    clock: Callable[[], float] = time.monotonic
    name: str = "nrt"
    _left: Mapping[str, str] | None = None
    """Our annotations as the last round left them; None = it is not known."""
    _whole: Mapping[str, object] | None = None
    """The whole object as that round wanted it."""
    _contested: int = 0
    _news: object = ()
    """State that was logged last: None = published, else the reason."""
    _wake: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Publish from the next tick on."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def there_is_a_tick(self) -> None:
        """Something may have changed."""
        self._wake.set()

    def stop(self, seconds: float) -> None:
        """End, without waiting for a silent server. What was published stays there."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(min(seconds, _STOP))

    def has_died(self) -> bool:
        """True when its thread ended without being stopped."""
        thread = self._thread
        started = thread is not None and thread.ident is not None
        return started and not self._stop.is_set() and not (thread and thread.is_alive())

    def step(self) -> None:
        """A round, if one is due. Whatever goes wrong in it, the next one comes."""
        now = self.clock()
        if now < self.pace.due and (now < self.pace.earliest or not self._has_changed()):
            return
        try:
            found = self._round()
        except Exception as error:
            failure = _failure_of(error)
            self._count(failure)
            self.pace.failure(self.clock(), failure.wait)
        else:
            self._take(found)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stop.is_set():
                return
            self.step()

    def _has_changed(self) -> bool:
        if self._left is None:
            return False
        try:
            wanted = self.describe(self._left)
        except Unavailable:
            return False  # the next round says so
        return wanted.annotations != self._left or wanted.whole != self._whole

    def _round(self) -> Round:
        node = self.node()
        wanted: list[Wanted] = []

        def describe(published: Mapping[str, str]) -> Wanted:
            try:
                wanted.append(self.describe(published))
            except Unavailable as error:
                raise ApiFailure(Reason.NO_STATE, str(error)) from error
            return wanted[-1]

        server = self.connect()
        try:
            found = publish(server, node, describe)
        finally:
            server.close()
        self._whole = wanted[-1].whole
        return found

    def _take(self, found: Round) -> None:
        is_contested = self._left is not None and found.before not in (None, {}, self._left)
        self._contested = self._contested + 1 if is_contested else 0
        if self._contested == 1:
            _log.warning("%s: another writer changed our annotations; is there a second agent on this node?", KIND)
        self._left = found.annotations
        self.counts.writes += len(found.written)
        self.pace.succeeded(self.clock(), self._contested)
        if found.refusal is not None:
            self._count(found.refusal)
            return
        self.counts.failing, self.counts.last_success = None, self.counts.clock()
        if self._news is not None:
            self._news = None
            _log.info("%s: published (%s)", KIND, ", ".join(found.written) or "nothing had changed")

    def _count(self, failure: ApiFailure) -> None:
        self.counts.failures[failure.reason.value] += 1
        self.counts.failing = failure.reason.value
        if self._news != failure.reason and not self._stop.is_set():
            self._news = failure.reason
            _log.warning("%s: not published (%s); the agent keeps trying: %s", KIND, failure.reason.value, failure)


def _failure_of(error: Exception) -> ApiFailure:
    if isinstance(error, ApiFailure):
        return error
    if isinstance(error, InputError):  # a kubeconfig that may be written right now
        return ApiFailure(Reason.CREDENTIALS, str(error))
    _log.error("internal error while publishing the %s", KIND, exc_info=error)
    return ApiFailure(Reason.INTERNAL, str(error))
