"""Which processes of a container used the CPU since the previous tick, and how many threads have they?

Source: fields 3, 14, 15, 20 and 22 of /proc/PID/stat (proc_pid_stat(5)): state, utime, stime, num_threads, starttime.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from numaudit.kernel.host import Host, read_bytes

_LITTLE = 0.05
"""The kernel scans a process by the CPU time that it uses, so this share of it gives about this share of samples."""


class Process(NamedTuple):
    """What one process has used since its start."""

    pid: int
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    threads: int
    used: int
    """Clock ticks of CPU time, those of its ended threads included."""
    state: str
    """The kernel's letter: R runs or wants to, S sleeps, D waits for a disk, Z has ended and is not waited for, ..."""


@dataclass(slots=True)
class ProcessTimes:
    """Remembers from tick to tick how much CPU time the processes had used that were read in it."""

    _before: dict[tuple[int, int], int] = field(default_factory=dict)
    _now: dict[tuple[int, int], int] = field(default_factory=dict)

    def begin_tick(self) -> None:
        """Compare with what was read since the last call; processes that are read no more are forgotten."""
        self._before, self._now = self._now, {}

    def is_single_threaded(self, host: Host, pids: Iterable[int]) -> bool | None:
        """Did processes with one thread take more than a little of the CPU time since the previous tick?

        Of a process that is new all its time counts. Where none ran, have all one thread? None = none could be read.
        """
        proc, processes = str(host.proc), []
        for pid in pids:
            try:
                process = parse(pid, read_bytes(f"{proc}/{pid}/stat"))
            except (OSError, IndexError, ValueError):  # it has ended
                continue
            key = process.pid, process.started
            self._now[key] = process.used
            processes.append((process.threads, max(0, process.used - self._before.get(key, 0))))
        if not processes:
            return None
        total = sum(used for _, used in processes)
        if not total:
            return all(threads == 1 for threads, _ in processes)
        return sum(used for threads, used in processes if threads == 1) > _LITTLE * total


def parse(pid: int, stat: bytes) -> Process:
    """A line of /proc/PID/stat. The name in it may hold any character.

    Raises IndexError and ValueError for what is no such line.
    """
    fields = stat.rpartition(b")")[2].split(None, 20)
    used = int(fields[11]) + int(fields[12])
    return Process(pid, int(fields[19]), int(fields[17]), used, fields[0].decode("ascii", "replace"))


def name_of(stat: bytes) -> bytes:
    """The name in a line of /proc/PID/stat: whatever is between the first and the last bracket."""
    return stat[stat.find(b"(") + 1 : stat.rfind(b")")]
