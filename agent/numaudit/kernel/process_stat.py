"""/proc/PID/stat and /proc/PID/task/TID/stat: when a process or thread started, its name, and where it runs.

Source: proc_pid_stat(5), fields 2 (comm), 3 (state), 4 (ppid), 14 (utime), 15 (stime), 22 (starttime), 39 (processor).
"""

from __future__ import annotations

from typing import NamedTuple

from numaudit.kernel.host import Host, read_text


class Process(NamedTuple):
    """One process."""

    pid: int
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    state: str
    """The kernel's letter: R runs or wants to, S sleeps, D waits for a disk, Z has ended and is not waited for, ..."""


class Task(NamedTuple):
    """A process or one of its threads."""

    name: bytes
    state: str
    """The kernel's letter, as in `Process`."""
    parent: int
    """Id of the parent process; 0 = it is in another PID namespace, or there is none."""
    ticks: int
    """CPU time in clock ticks: that of a thread, or of all threads of a process, those that have ended included."""
    started: int
    """Clock ticks since boot."""
    last_cpu: int
    """CPU that it ran on last; of a process, its main thread."""


def parse_task(stat: bytes) -> Task:
    """Raises IndexError and ValueError for what is no such line."""
    fields = stat.rpartition(b")")[2].split(None, 37)
    return Task(
        name=name_of(stat),
        state=fields[0].decode("ascii", "replace"),
        parent=int(fields[1]),
        ticks=int(fields[11]) + int(fields[12]),
        started=int(fields[19]),
        last_cpu=int(fields[36]),
    )


def parse(pid: int, stat: bytes) -> Process:
    """A line of /proc/PID/stat. The name in it may hold any character.

    Raises IndexError and ValueError for what is no such line.
    """
    fields = stat.rpartition(b")")[2].split(None, 20)
    return Process(pid, int(fields[19]), fields[0].decode("ascii", "replace"))


def name_of(stat: bytes) -> bytes:
    """The name in a line of /proc/PID/stat: whatever is between the first and the last bracket."""
    return stat[stat.find(b"(") + 1 : stat.rfind(b")")]


def booted_at(host: Host) -> float | None:
    """Seconds since the epoch, by /proc/stat; None = not known."""
    try:
        words = read_text(host.proc / "stat").split()
        return float(words[words.index("btime") + 1])
    except (OSError, ValueError, IndexError):
        return None
