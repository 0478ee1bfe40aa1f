"""Ends as tidily on a signal as on Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from numaudit.daemon.signals import end_by, end_well

_ENDING_AT_ONCE = (signal.SIG_DFL, end_by, end_well)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, so that temporary files go. One that is ignored stays so (nohup)."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    ended_by = {one: handler for one, handler in before.items() if handler in _ENDING_AT_ONCE}
    for one in ended_by:
        signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one, handler in ended_by.items():
            signal.signal(one, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
