"""Requests of other threads and signals to the agent's main thread, between two ticks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue

from numaudit.errors import Unavailable

Task = Callable[[], None]
_log = logging.getLogger(__name__)


class Inbox:
    """Only the main thread changes the agent's state, so nothing needs a lock. `put` may interrupt `work`."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Task] = SimpleQueue()

    def put(self, work: Task) -> None:
        self._queue.put(work)

    def ask(self, work: Task, seconds: float) -> None:
        """Have it done while this thread waits. Raises what it raises, and Unavailable when that takes longer."""
        outcome: SimpleQueue[Exception | None] = SimpleQueue()

        def done() -> None:
            try:
                work()
            except Exception as error:
                outcome.put(error)
            else:
                outcome.put(None)

        self.put(done)
        try:
            error = outcome.get(timeout=seconds)
        except Empty:
            raise Unavailable(
                "the agent is still busy with a tick; it will do this afterwards, and its log reports the result"
            ) from None
        if error is not None:
            raise error

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
