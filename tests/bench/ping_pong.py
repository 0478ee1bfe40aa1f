"""Two processes that pass a byte back and forth on one CPU, and the cost of a program that runs meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goals import pick
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import Command
from numaudit.probes.loading.loader import LoadedProbe

SWITCHES = pick(50_000, short=500)
JOIN = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"']


def copy(probe: LoadedProbe) -> LoadedProbe:
    """Descriptors of its own, for a probe that closes them."""
    programs = {name: os.dup(descriptor) for name, descriptor in probe.programs.items()}
    maps = {name: os.dup(descriptor) for name, descriptor in probe.maps.items()}
    return LoadedProbe(probe.name, programs, maps, probe.tracepoint_ids)


@dataclass(slots=True)
class Spent:
    """What a program used: nanoseconds for each run, and runs."""

    nanoseconds: float = 0
    runs: int = 0


@contextmanager
def statistics(program: int) -> Iterator[Spent]:
    """Filled in at the end of the block. The kernel measures for as long as the descriptor is open."""
    with os.fdopen(bpf.command(Command.ENABLE_STATS, bytearray(4))):
        spent = Spent()
        before = bpf.read_program_info(program)
        yield spent
        after = bpf.read_program_info(program)
    spent.runs = after.run_count - before.run_count
    spent.nanoseconds = (after.run_time_ns - before.run_time_ns) / max(1, spent.runs)


@contextmanager
def group(name: str) -> Iterator[Path]:
    unified = find_hierarchies(Host()).unified
    if unified is None:
        raise Unavailable("it needs cgroup version 2")
    folder = unified / f"numaudit-bench-{os.getpid()}-{name}"
    folder.mkdir()
    yield folder
    while "populated 1" in (folder / "cgroup.events").read_text():
        time.sleep(0.01)
    folder.rmdir()


def ping_pong(one: Path, other: Path) -> int:
    """Two `cat` in a ring on one CPU pass a byte back and forth, until they made enough switches. How many."""
    cat = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), "cat"]
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    ring = [
        subprocess.Popen([*JOIN, str(folder / "cgroup.procs"), *cat], stdin=read, stdout=write)
        for folder, read, write in ((one, read_a, write_b), (other, read_b, write_a))
    ]
    os.write(write_a, b"x")
    while (switches := sum(_switches(process.pid) for process in ring)) < SWITCHES:
        assert all(process.poll() is None for process in ring)
        time.sleep(0.01)
    for process in ring:
        process.kill()
        process.wait()
    for end in (read_a, write_a, read_b, write_b):
        os.close(end)
    return switches


def _switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if "voluntary_ctxt_switches" in line)
