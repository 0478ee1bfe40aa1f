"""Ends as tidily on a signal as on Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, so that temporary files go. One that is ignored stays so (nohup)."""
    ended_by = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in ended_by:
        signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one in ended_by:
            signal.signal(one, signal.SIG_DFL)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
