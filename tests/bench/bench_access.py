"""What watching costs: how much slower a process becomes that does nothing but fault, and what the
probes take of a core while this host does something ordinary.

Run as root: python tests/bench/bench_access.py [REPETITIONS]. It fails when a goal is missed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numaudit
from goals import at_most
from numaudit.engine.overhead.limiter import assumed
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.probes.kinds import KINDS
from numaudit.probes.probe import Reading
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session
from numaudit.snapshot.counted import Cost
from short import pick, repetitions, run

PAGES = pick(8192, short=512)
LARGEST_SLOWDOWN = 0.30
LARGEST_SHARE = 0.05
SECONDS = pick(20, short=2)
TOUCHES = pick(5, short=1)
ORDINARY = (
    (sys.executable, "-m", "compileall", "-q", "-f", str(Path(numaudit.__file__).parent)),
    (sys.executable, "-m", "pytest", str(Path(__file__).parents[1] / "unit/memorymanager/test_static_policy.py")),
)
"""Commands that start processes, read files and use the CPU, each repeated beside the other."""


def main() -> None:
    if os.geteuid() != 0:
        raise Unavailable("run as root: it makes cgroups and loads BPF programs")
    os.nice(-19)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", flush=True)
    runs = repetitions(9)
    _touching(runs)
    _ordinary_load()


def _touching(runs: int) -> None:
    """Fresh pages with every probe that runs here, and without; by turns, so that both see the same neighbours."""
    slowdowns, bare_times = [], []
    for _ in range(runs):
        bare = min(_cpu_time(_touch) for _ in range(TOUCHES))
        with Session.open(Host(), KINDS, cgroups=500, nodes=2) as session:
            running = list(session.running())
            watched = min(_cpu_time(_touch) for _ in range(TOUCHES))
        slowdowns.append(watched / bare - 1)
        bare_times.append(bare)
    middle = statistics.median(slowdowns)
    print(
        f"a loop of page faults, {1e9 * min(bare_times) / PAGES:.0f} ns for each page, with {', '.join(running)}: "
        f"{middle:+.1%} in the middle of {runs} runs ({min(slowdowns):+.1%} to {max(slowdowns):+.1%}), "
        f"goal at most {LARGEST_SLOWDOWN:.0%}"
    )
    at_most("page faults with every probe, longer by", middle, LARGEST_SLOWDOWN)


def _ordinary_load() -> None:
    """The events of each probe while a compiler and a test run are at work, x what each costs here."""
    with Session.open(Host(), KINDS, cgroups=1000, nodes=2) as session:
        before, begin = _read(session), time.monotonic()
        with ExitStack() as stack:
            stack.enter_context(os.fdopen(bpf.count_run_time()))
            ran = _run_times(session)
            bytecode = stack.enter_context(tempfile.TemporaryDirectory())
            for command in ORDINARY:
                stack.enter_context(_repeated(command, stack.enter_context(_group(command[2])), bytecode))
            while time.monotonic() < begin + SECONDS:
                time.sleep(1)
            ended = _run_times(session)
        newest, seconds = _read(session), time.monotonic() - begin
        total = 0.0
        for kind in KINDS:
            name, probe = kind.name, session.probe(kind)
            if isinstance(probe, ProbeRefusal):
                print(f"{name:12} does not run here: {probe.text}")
                continue
            events = newest[name].since(before[name]).events or 0
            spent = ended[name] - ran[name] if name in ran else RunTime()
            cost = Cost(spent.nanoseconds / spent.runs, "measured") if spent.runs else assumed(kind)
            share = events * cost.ns / 1e9 / seconds
            total += share
            print(
                f"{name:12} {events / seconds:10,.0f} events/s x {cost.ns:5.0f} ns {cost.basis} = {share:.2%} of a core"
            )
    print(f"an ordinary load, {seconds:.0f} s: {total:.2%} of a core, goal at most {LARGEST_SHARE:.0%}")
    at_most("every probe under an ordinary load, of a core", total, LARGEST_SHARE)


def _read(session: Session) -> dict[str, Reading]:
    """Of each probe that runs."""
    return {name: probe.read() for name, probe in session.running().items()}


def _run_times(session: Session) -> dict[str, RunTime]:
    found = {name: probe.run_time() for name, probe in session.running().items()}
    return {name: spent for name, spent in found.items() if spent is not None}


@contextmanager
def _group(name: str) -> Iterator[Path]:
    """A cgroup, for a switch inside of one is no event."""
    unified = find_hierarchies(Host()).unified
    if unified is None:
        raise Unavailable("it needs cgroup version 2")
    group = unified / f"numaudit-bench-{os.getpid()}-{name}"
    group.mkdir()
    yield group
    while "populated 1" in (group / "cgroup.events").read_text():
        time.sleep(0.01)
    group.rmdir()


@contextmanager
def _repeated(command: Sequence[str], group: Path, bytecode: str) -> Iterator[None]:
    """Over and over, until the block ends. `bytecode`: a folder for it, for guests may read that of the checkout."""
    shell = 'echo $$ >"$0" && while :; do "$@"; done'
    running = subprocess.Popen(
        ["/bin/sh", "-c", shell, str(group / "cgroup.procs"), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPYCACHEPREFIX": bytecode},
    )
    try:
        yield
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _touch() -> None:
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.c_char.from_buffer(pages)
        ctypes.memset(ctypes.addressof(start), 1, len(pages))
        del start


def _cpu_time(work: Callable[[], None]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


if __name__ == "__main__":
    run(main)
