"""Handlers of signals from the first moment on. This imports next to nothing, so that they are in force at once.

The first process of a container gets no signal that it has no handler for, and any other would die of SIGHUP.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

early_hang_ups: list[int] = []
"""Each SIGHUP that came before the agent could reload its settings."""


def while_the_agent_starts() -> None:
    """SIGTERM ends the agent: there is nothing to save yet. SIGHUP is kept for later."""
    signal.signal(signal.SIGTERM, exit_successfully)
    signal.signal(signal.SIGHUP, lambda number, _: early_hang_ups.append(number))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, ignore_signal)


def while_the_agent_ends() -> None:
    """Python resets handlers, but not this, before it has ended: the agent keeps its exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def while_the_first_process() -> None:
    """SIGTERM ends a verb that is the first process of its container, as it ends any other process."""
    signal.signal(signal.SIGTERM, exit_by_signal)


def exit_successfully(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def exit_by_signal(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Not to die of it."""
