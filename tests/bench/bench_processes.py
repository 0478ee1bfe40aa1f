"""CPU time and memory of `numaudit report NAME --processes` for a container of 1,000 processes.

Run as root: python tests/bench/bench_processes.py [REPETITIONS]. It starts 1,000 processes in a cgroup of its own,
which share their memory as workers forked by one server do, and removes them again.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_start import NUMAUDIT
from goals import at_most, at_most_ms
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from short import pick, repetitions, run

MOST_MS, MOST_MIB = 1000.0, 64.0
SHORT = 400.0
"""In yardsticks, for a tenth of the processes."""


def main() -> None:
    count = pick(1000, 100)
    # The first run writes the bytecode.
    with tempfile.TemporaryDirectory() as bytecode, _container(count) as name:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        command = [NUMAUDIT, "report", name, "--processes", "-o", "json"]
        found = [_run(command, environment, count) for _ in range(1 + repetitions(3))]
    spent, peak = min(ms for ms, _ in found[1:]), max(mib for _, mib in found)
    print(f"{count} processes: {spent:.0f} ms of CPU time, {1000 * spent / count:.0f} us each; peak {peak:.0f} MiB")
    at_most_ms("report of a container by process", spent, MOST_MS, short=SHORT)
    at_most("its peak", peak, MOST_MIB, "MiB", short=MOST_MIB)


@contextmanager
def _container(count: int) -> Iterator[str]:
    """The path of a cgroup with so many sleeping processes."""
    if os.geteuid():
        raise Unavailable("only root may make a cgroup; run it as root")
    name = f"/numaudit-bench-{os.getpid()}"
    folder = Path(f"{find_hierarchies(Host()).memory}{name}")
    folder.mkdir()
    processes = [_sleeping() for _ in range(count)]
    try:
        for pid in processes:
            (folder / "cgroup.procs").write_text(str(pid))
        yield name
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        _remove(folder)


def _sleeping() -> int:
    pid = os.fork()
    if not pid:
        while True:
            signal.pause()
    return pid


def _remove(folder: Path) -> None:
    while True:
        try:
            return folder.rmdir()
        except OSError:  # the kernel takes its time with the last process
            time.sleep(0.05)


def _run(command: list[str], environment: dict[str, str], count: int) -> tuple[float, float]:
    """CPU milliseconds, and the largest resident memory of any run so far in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (one,) = json.loads(answer)["containers"]
    assert len(one["processes"]["items"]) == count
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), after.ru_maxrss / 1024


if __name__ == "__main__":
    run(main)
