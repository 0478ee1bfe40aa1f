"""Page allocations and CPU time by node, as BPF programs count them on a machine with four nodes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from numaudit.doctor.checks import probe_checks
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME, CpuTimes
from numaudit.probes.kinds import KINDS
from numaudit.probes.page_alloc import PAGE_ALLOC, Allocations
from numaudit.probes.session import Session
from workload import MIB, Cgroup, Worker, cgroup, eventually, worker

SIZE = 32 * MIB
REST = MIB
"""What the worker and the kernel for it allocate beside `SIZE` bytes: page tables and Python's own objects."""

MOVES = """
import sys, time
groups = [open(path, "w", buffering=1) for path in sys.argv[1:]]
print("0", file=groups[0])
print("ready", flush=True)
sys.stdin.readline()
begin = time.thread_time()
for move in range(1, 201):
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        pass
    print("0", file=groups[move % 2])
print(time.thread_time() - begin, flush=True)
sys.stdin.readline()
"""
"""Joins the first group, and on a word moves back and forth every 5 ms of its own clock; says what that took by it."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.open(Host(), KINDS, cgroups=500, nodes=16) as opened:
        yield opened


def test_both_probes_run_here(session: Session) -> None:
    fared = {one.name: one.detail for one in probe_checks(session)}
    assert (fared["bpf page_alloc"], fared["bpf cpu_time"]) == ("runs", "runs")


def test_memory_bound_to_another_node_is_given_from_there(session: Session) -> None:
    with cgroup("numaudit-lab/bound", cpus="0") as group, worker(group, SIZE, policy="bind", nodes=[1]) as running:
        added = dict(_allocated(session, lambda: running.order("refill")).by_node[group.id])
    assert SIZE <= added.pop((0, 1)) < SIZE + REST
    assert sum(added.values()) < REST


def test_cpu_time_is_on_the_node_where_the_task_ran(session: Session) -> None:
    with cgroup("numaudit-lab/moving", cpus="0") as group, worker(group, MIB) as running:
        before = session.read(CPU_TIME)
        running.order("spin")
        _wait_for_use(group, seconds=0.5)
        group.write("cpuset.cpus", "2")
        _wait_for_use(group, seconds=0.5)
        added = session.read(CPU_TIME).since(before).by_node[group.id]
    assert added[0] > 0.2e9
    assert added[2] > 0.2e9
    assert not {1, 3} & set(added)


def test_a_task_that_moves_itself_again_and_again_loses_no_time(session: Session) -> None:
    """It never gets too little. On a crowded host, which takes the CPU away between two clocks, it may get too much."""
    surplus = []
    for _ in range(3):
        truth, counted = _moves_to_and_fro(session)
        assert counted > truth * 0.99
        surplus.append(counted / truth)
        if surplus[-1] < 1.05:
            return
    pytest.fail(f"counted by its own clock: {surplus}")


def _moves_to_and_fro(session: Session) -> tuple[float, float]:
    """Its CPU seconds by its own clock, and those counted.

    Between two cgroups that are never empty, so that only the move itself says that it happens.
    """
    with (
        cgroup("numaudit-lab/here", cpus="3") as here,
        cgroup("numaudit-lab/there", cpus="3") as there,
        worker(here, MIB),
        worker(there, MIB),
    ):
        command = [sys.executable, "-I", "-S", "-c", MOVES, *(str(one.path / "cgroup.procs") for one in (there, here))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as moving:
            assert moving.stdin and moving.stdout
            moving.stdout.readline()
            before = session.read(CPU_TIME)
            moving.stdin.write("go\n")
            moving.stdin.flush()
            truth = float(moving.stdout.readline())
            added = session.read(CPU_TIME).since(before).by_node
            moving.stdin.close()
        return truth, sum(added[one.id][3] for one in (here, there)) / 1e9


def test_migrations_that_cannot_succeed_are_failed_allocations_and_no_bytes(session: Session) -> None:
    """The CPUs are on node 0 and only node 1 may be used: NUMA balancing tries to move the pages, in vain."""
    with cgroup("numaudit-lab/stuck", cpus="0", mems="1") as group, worker(group, SIZE) as running:
        before = session.read(PAGE_ALLOC)
        running.order("touch")

        def many_failed() -> Allocations:
            added = session.read(PAGE_ALLOC).since(before)
            assert added.failed.get(group.id, 0) > 100
            return added

        added = eventually(many_failed).by_node.get(group.id, {})
    assert sum(added.values()) < REST


def test_a_cpu_that_was_offline_is_counted_again_and_its_absence_is_not(session: Session) -> None:
    online = Path("/sys/devices/system/cpu/cpu3/online")
    online.write_text("0")
    try:
        session.read(CPU_TIME)
        time.sleep(2)
    finally:
        online.write_text("1")
    with cgroup("numaudit-lab/back", cpus="3") as group, worker(group, MIB) as running:
        started = session.read(CPU_TIME).by_node.get(group.id, {})  # watched from this read on
        assert sum(started.values()) / 1e9 < _usage([group])[group.id] * 1.1 + 0.05
        running.order("spin")
        (added,) = _held_against_the_kernel(partial(session.read, CPU_TIME), [group], seconds=1)
    assert set(added) == {3}


def test_a_report_over_time_loses_nothing_when_a_cpu_is_off_for_a_moment() -> None:
    """Two spinners share the CPU. The truth is their own clocks."""
    switch = Path("/sys/devices/system/cpu/cpu3/online")
    with (
        cgroup("numaudit-lab/one", cpus="3") as one,
        cgroup("numaudit-lab/other", cpus="3") as other,
        worker(one, MIB) as first,
        worker(other, MIB) as second,
    ):
        workers = first, second
        terminal, theirs = pty.openpty()
        with os.fdopen(terminal, "rb", buffering=0) as shown, _reporting("5s", theirs) as reporting:
            os.close(theirs)
            _wait_for_words(shown, b"measuring")
            begin = _clocks(workers)
            for spinner in workers:
                spinner.order("spin")
            switch.write_text("0")
            switch.write_text("1")
            _wait_for_words(shown, b"\33[K")
            truth = [now - then for now, then in zip(_clocks(workers), begin, strict=True)]
            for spinner in workers:
                spinner.order("sleep")
            report = json.loads(reporting.communicate()[0])
    seconds = {row["path"]: sum(node["seconds"] for node in row["cpuSeconds"] or ()) for row in report["containers"]}
    counted = [seconds[f"/numaudit-lab/{group}"] for group in ("one", "other")]
    # A busy host lets the measurement begin before, and end after, the words on its terminal.
    for ours, its in zip(counted, truth, strict=True):
        assert ours > its * 0.9 - 0.2
        assert ours / sum(counted) == pytest.approx(its / sum(truth), abs=0.1)


def test_no_event_was_lost_in_all_of_this(session: Session) -> None:
    allocations, times = session.read(PAGE_ALLOC), session.read(CPU_TIME)
    assert (allocations.all_lost, times.all_lost) == (0, 0)


@contextlib.contextmanager
def _reporting(duration: str, terminal: int) -> Iterator[subprocess.Popen[bytes]]:
    """`numaudit report --duration` as a process whose standard error is a terminal."""
    command = [
        sys.executable,
        "-c",
        "from numaudit.cli.start import run; run()",
        "report",
        "--duration",
        duration,
        "-o",
        "json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_words(terminal: IO[bytes], words: bytes) -> None:
    said = b""
    while words not in said:
        try:
            said += terminal.read(100)
        except OSError as error:  # the process has ended
            raise AssertionError(f"it never said {words!r}, but {said!r}") from error


def _clocks(workers: Sequence[Worker]) -> list[float]:
    """CPU seconds of each process by its own clock."""
    return [one.cpu_seconds() for one in workers]


def _allocated(session: Session, act: Callable[[], None]) -> Allocations:
    before = session.read(PAGE_ALLOC)
    act()
    return session.read(PAGE_ALLOC).since(before)


def _held_against_the_kernel(
    read: Callable[[], CpuTimes], groups: list[Cgroup], seconds: float
) -> list[Mapping[int, int]]:
    """Time of each group over some seconds, which must agree with its cpu.stat read just outside and just inside."""
    outside, first, inside = _usage(groups), read(), _usage(groups)
    time.sleep(seconds)
    for group in groups:
        _wait_for_use(group, seconds=0.15 - (_usage([group])[group.id] - inside[group.id]))
    inside_end, second, outside_end = _usage(groups), read(), _usage(groups)
    added: CpuTimes = second.since(first)
    for group in groups:
        least, most = inside_end[group.id] - inside[group.id], outside_end[group.id] - outside[group.id]
        assert least > 0.1
        assert least * 0.9 < sum(added.by_node[group.id].values()) / 1e9 < most * 1.1
    return [added.by_node[group.id] for group in groups]


def _wait_for_use(group: Cgroup, seconds: float) -> None:
    """Until its tasks have used so much more CPU time: the guest may get little of a busy host."""
    before = _usage([group])[group.id]

    def has_used() -> None:
        assert _usage([group])[group.id] - before >= seconds

    eventually(has_used)


def _usage(groups: list[Cgroup]) -> dict[int, float]:
    """cpu.stat, usage_usec, in seconds."""
    found = {}
    for group in groups:
        words = group.read("cpu.stat").split()
        found[group.id] = int(words[words.index("usage_usec") + 1]) / 1e6
    return found
