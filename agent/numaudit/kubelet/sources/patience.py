"""Deadlines for answers of the kubelet: each answer has a deadline, and all answers of a tick together have one."""

from __future__ import annotations

from time import monotonic

from numaudit.errors import Unavailable


class NoTimeLeft(Unavailable):
    """The answers before this one took all the time that a tick has for the kubelet. The next tick asks again."""


def check_time(until: float) -> None:
    """Raises NoTimeLeft after `until` by the monotonic clock."""
    if monotonic() >= until:
        raise NoTimeLeft("read in part, because the time for this tick was used up; the next tick continues")


def time_left(deadline: float, until: float) -> float:
    """Seconds for one answer: `deadline`, but none after `until` by the monotonic clock. Raises NoTimeLeft."""
    seconds = min(deadline, until - monotonic())
    if seconds <= 0:
        raise NoTimeLeft("not asked, because the kubelet's other answers used up the time for this tick")
    return seconds
