"""/proc/PID/stat: when a process started, whether it has ended, and what it is called.

Source: fields 2, 3 and 22 of proc_pid_stat(5): comm, state, starttime.
"""

from __future__ import annotations

from typing import NamedTuple


class Process(NamedTuple):
    """One process."""

    pid: int
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    state: str
    """The kernel's letter: R runs or wants to, S sleeps, D waits for a disk, Z has ended and is not waited for, ..."""


def parse(pid: int, stat: bytes) -> Process:
    """A line of /proc/PID/stat. The name in it may hold any character.

    Raises IndexError and ValueError for what is no such line.
    """
    fields = stat.rpartition(b")")[2].split(None, 20)
    return Process(pid, int(fields[19]), fields[0].decode("ascii", "replace"))


def name_of(stat: bytes) -> bytes:
    """The name in a line of /proc/PID/stat: whatever is between the first and the last bracket."""
    return stat[stat.find(b"(") + 1 : stat.rfind(b")")]
