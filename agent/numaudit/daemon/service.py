"""The agent's services, started one after the other and stopped in the reverse order, and what they and signals ask of
its main thread between two ticks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Protocol

from msgspec import Struct, field

from numaudit.errors import Unavailable

Task = Callable[[], None]
_log = logging.getLogger(__name__)


class Service(Protocol):
    """A part of the agent that works beside its main thread."""

    @property
    def name(self) -> str:
        """For messages."""

    def start(self) -> None:
        """Raises NumauditError, OSError and RuntimeError when it cannot."""

    def stop(self, seconds: float) -> None:
        """End, in this time if it can. A signal may have it called before `start` has ended, or begun."""

    def has_died(self) -> bool:
        """True when it was started and ended without being stopped. Asked by any thread."""


class Services(Struct):
    """Those that were started, in this order."""

    _started: list[Service] = field(default_factory=list)
    _end: float = 0.0
    """Time by which the last one has to be stopped, by the monotonic clock."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self, service: Service) -> None:
        """Raises NumauditError, which names the service."""
        self._stack.callback(self._stop, service)  # first, for a signal may interrupt the start
        try:
            service.start()
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"the agent's service {service.name!r} does not start: {error}") from error
        self._started.append(service)

    def stop(self, seconds: float) -> None:
        """Stop what was started, in the reverse order; all of it together has this time.

        Each is stopped whatever happens to the others; then this raises what the last of these failures was.
        """
        self._end = time.monotonic() + seconds
        self._stack.close()

    def died(self) -> tuple[str, ...]:
        """Names of those that ended by an error of theirs."""
        return tuple(one.name for one in self._started if one.has_died())

    def _stop(self, service: Service) -> None:
        service.stop(max(0.0, self._end - time.monotonic()))


class Inbox:
    """Only the main thread changes the agent's state, so nothing needs a lock. `put` may interrupt `work`."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Task] = SimpleQueue()

    def put(self, work: Task) -> None:
        self._queue.put(work)

    def work(self, seconds: float) -> None:
        """Wait this long at most for something to do, and do all there is; what goes wrong in it stops nothing."""
        try:
            work = self._queue.get(timeout=seconds)
            while True:
                self._do(work)
                work = self._queue.get_nowait()
        except Empty:
            return

    def _do(self, work: Task) -> None:
        try:
            work()
        except Exception:
            _log.exception("internal error between two ticks")
