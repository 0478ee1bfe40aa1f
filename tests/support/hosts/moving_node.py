"""The captured node `misaligned-node` at two times: its clock moves, and so does one of its processes."""

from __future__ import annotations

import re
from pathlib import Path

CONTAINER = "default/gu-small-numanode"
CGROUP = "225353116384a087f041195e1a02163669b3ccd59e23405bb85322b175597970"
PID, STARTED = 437, 2123
"""The only process of that container, and when it has begun (clock ticks since boot)."""
UPTIME = 100.0
APART = 10.0


def stat(thread: int, ticks: int, cpu: int, started: int = STARTED) -> str:
    """A line of /proc/PID/stat. Source: proc_pid_stat(5), fields 14 (utime), 22 (starttime), 39 (processor)."""
    return f"{thread} (memhog) S 392 {'0 ' * 9}{ticks} 0 0 0 20 0 1 0 {started} {'0 ' * 16}{cpu} 0 0\n"


def begin(root: Path, cpu: int) -> None:
    """The process has used 100 ticks of CPU time and runs on `cpu`."""
    (root / "proc/uptime").write_text(f"{UPTIME:.2f} 12.00\n")
    (root / f"proc/{PID}/stat").write_text(stat(PID, 100, cpu))


def later(root: Path, cpu: int = 7) -> None:
    """Ten seconds of a process that used 400 ticks of CPU time and now runs on `cpu`, and of its host."""
    (root / "proc/uptime").write_text(f"{UPTIME + APART:.2f} 12.00\n")
    (root / f"proc/{PID}/stat").write_text(stat(PID, 500, cpu))
    _grow(root / "proc/vmstat", numa_hint_faults=4000, numa_hint_faults_local=1000, numa_pages_migrated=500)
    _grow(root / "sys/devices/system/node/node1/numastat", numa_miss=30)


def _grow(file: Path, **amounts: int) -> None:
    """Add to lines `name value`."""
    text = file.read_text()
    for name, amount in amounts.items():
        text = re.sub(rf"^{name} (\d+)$", lambda found: f"{name} {int(found[1]) + amount}", text, flags=re.M)  # noqa: B023
    file.write_text(text)
