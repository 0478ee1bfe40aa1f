"""Ends as tidily on a signal as on Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from numaudit.daemon.signals import exit_by_signal, exit_successfully

_ENDING_AT_ONCE = (signal.SIG_DFL, signal.default_int_handler, exit_by_signal, exit_successfully)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, so that temporary files go; the first of them alone.

    One that is ignored stays so (nohup), and one that is handled otherwise in the meantime, as the agent does, too.
    """
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    ended_by = {one: handler for one, handler in before.items() if handler in _ENDING_AT_ONCE}
    for one in ended_by:
        signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one, handler in ended_by.items():
            if signal.getsignal(one) is _interrupt:
                signal.signal(one, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)  # until the process has ended, or a second one would keep files from going
    raise KeyboardInterrupt
