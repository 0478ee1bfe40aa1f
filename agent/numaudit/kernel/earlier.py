"""A capture's first reading of counters, some seconds before all its files: a small tree within it.

Paths in it are those of the host. Source: proc_uptime(5), proc_pid_stat(5), Documentation/admin-guide/numastat.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from numaudit.errors import ParseError
from numaudit.kernel import files, tasks
from numaudit.kernel.host import Host, read_bytes, read_text
from numaudit.kernel.memory.numa_balancing import parse_vmstat
from numaudit.kernel.node import parse_key_values

FOLDER = "earlier"
COUNTERS = (
    "proc/uptime",
    "proc/vmstat",
    "sys/devices/system/node/node[0-9]*/numastat",
    "proc/[0-9]*/stat",
)
"""Patterns below the root of a host; the `stat` of each thread comes to them where a process has several."""

ThreadTimes = Mapping[tuple[int, int], int]
"""Id and start of a thread (clock ticks since boot) -> its CPU time in clock ticks."""


class Earlier(Struct, frozen=True):
    """What grows. None = the capture has not that file."""

    folder: Path
    uptime: float
    """Seconds since boot."""
    vmstat: Mapping[str, int] | None
    """Counters of NUMA balancing, as `numa_balancing.read_vmstat` has them."""
    numastat: Mapping[int, Mapping[str, int]]
    """Node -> event -> pages."""

    @property
    def ticks(self) -> float:
        """Its time in clock ticks since boot: a thread that started later is none that was overlooked."""
        return self.uptime * os.sysconf("SC_CLK_TCK")

    def times(self, processes: Iterable[int]) -> dict[tuple[int, int], int]:
        """CPU times of the threads of these processes; of one with a single thread, those of the process."""
        found: dict[tuple[int, int], int] = {}
        for pid in processes:
            folder = self.folder / f"proc/{pid}"
            stats = [(pid, folder / "stat")]
            stats += [(int(one.parent.name), one) for one in files.glob(folder, "task/[0-9]*/stat")]
            for thread, path in stats:
                try:
                    task = tasks.parse_task(read_bytes(path))
                except (OSError, ValueError, IndexError):  # not there, or cut short: as one that was left out
                    continue
                found[thread, task.started] = task.ticks
        return found


def is_there(host: Host) -> bool:
    """Has this capture two readings?"""
    return not host.is_live and files.is_folder(host.root / FOLDER)


def read(host: Host) -> Earlier:
    """The first reading. Raises OSError, ParseError."""
    folder = host.root / FOLDER
    try:
        vmstat = parse_vmstat(read_text(folder / "proc/vmstat"))
    except FileNotFoundError:
        vmstat = None
    nodes = {}
    for path in files.glob(folder, "sys/devices/system/node/node[0-9]*/numastat"):
        number = path.parent.name.removeprefix("node")
        if number.isascii() and number.isdigit() and len(number) < 6:
            nodes[int(number)] = parse_key_values(read_text(path))
    return Earlier(folder, _uptime(folder / "proc/uptime"), vmstat, nodes)


def uptime(host: Host) -> float:
    """Seconds since boot. Raises OSError, ParseError."""
    return _uptime(host.proc / "uptime")


def _uptime(path: Path) -> float:
    text = read_text(path)
    first = text.split(" ")[0]
    if not first.replace(".", "", 1).isdecimal() or not first.isascii() or len(first) > 20:
        raise ParseError(f"{path.name} is {text.strip()[:40]!r}, and no time")
    return float(first)
