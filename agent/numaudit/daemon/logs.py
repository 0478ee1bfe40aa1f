"""The agent's messages on stderr: one line for each change, never the same line without end."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import IO

from msgspec import Struct, field

from numaudit.errors import printable, without_password

log = logging.getLogger("numaudit")
LOGGERS = ("numaudit", "opentelemetry")
SAME_MESSAGE = 5
"""Times that a message may come within a window. Messages that differ only in their values are the same."""
WINDOW = 60.0
_MOST_MESSAGES = 1000


class _Text(logging.Formatter):
    """`2026-01-31T12:00:00Z INFO numaudit.daemon: words`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever names of others and tracebacks are in it."""
        return printable(without_password(super().format(record)))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return datetime.fromtimestamp(record.created, UTC).strftime(datefmt or "%Y-%m-%dT%H:%M:%SZ")


class _Json(logging.Formatter):
    """One object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_password(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = without_password(self.formatException(record.exc_info))
        return json.dumps(line)


class RateLimit(logging.Filter):
    """Lets each message through a few times in a window, and counts the rest.

    `extra={"topic": ...}` keeps messages of the same words apart.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.suppressed = 0
        self._now = now
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = (record.name, f"{record.msg} {getattr(record, 'topic', '')}")
        now = self._now()
        begun, count = self._windows.get(message, (now, 0))
        if now - begun >= WINDOW:
            if count > SAME_MESSAGE:
                record.msg = f"{record.msg} ({count - SAME_MESSAGE} like this were left out)"
            begun, count = now, 0
        if len(self._windows) >= _MOST_MESSAGES:
            self._windows.clear()
        self._windows[message] = (begun, count + 1)
        if count < SAME_MESSAGE:
            return True
        self.suppressed += 1
        return False


def set_up(level: str, format_: str, stream: IO[str] | None = None) -> RateLimit:
    """Send our messages and OpenTelemetry's to stderr. Returns the filter, which counts what it left out."""
    # A message that cannot be written (a full disk) must not stop the agent, nor print a traceback.
    logging.raiseExceptions = False
    handler = logging.StreamHandler(stream or sys.stderr)
    limit = RateLimit()
    handler.addFilter(limit)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    threading.excepthook = _log_uncaught
    use(level, format_)
    return limit


def use(level: str, format_: str) -> None:
    """From now on, write messages of this level and above in this format."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        number = logging.getLevelNamesMapping()[level.upper()]
        logger.setLevel(number if name == "numaudit" else max(logging.WARNING, number))
        for handler in logger.handlers:
            handler.setFormatter(_Json() if format_ == "json" else _Text())


def _log_uncaught(what: threading.ExceptHookArgs) -> None:
    """Log the exception that ends a thread as any other message, on one line."""
    if what.exc_value is not None:
        trace = (what.exc_type, what.exc_value, what.exc_traceback)
        log.error("internal error: a thread has ended", exc_info=trace)


class Changes(Struct):
    """Remembers the state of many things, and says when one changes."""

    _states: dict[Hashable, object] = field(default_factory=dict)

    def is_news(self, topic: Hashable, state: object, usual: object) -> bool:
        """Return True when a thing is in another state than last time; at first, when it is not in the usual one."""
        before = self._states.get(topic, usual)
        self._states[topic] = state
        return before != state
