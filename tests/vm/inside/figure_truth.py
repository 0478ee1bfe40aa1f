"""How far are the figures of a report from the truth? The work itself knows its bytes, its CPU time and its pages.

    figure_truth.py ROUNDS

Each trial prints a record for docs/truth.md: the figure beside the truth. A worker does not know what its interpreter
holds, so sizes are differences of two workers. Exit status 1: a figure is further off than the trial allows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.kinds import KINDS
from numaudit.probes.migrations import MIGRATIONS, NUMA_MISPLACED
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.session import ProbeReadings, Session
from numaudit.report.build import build
from numaudit.report.values import ContainerReport
from numaudit.snapshot import ContainerId
from page_truth import Part, Process, Thread, _ask, _started
from samples import kernel_count, promised, settled
from truth_records import Comparison, write
from workload import MIB, PAGE, Cgroup, Worker, cgroup, worker

SMALL, LARGE = 16 * MIB, 80 * MIB
NEAR = 50 * MIB
"""Of the large one, where the rest is on another node."""
SETTLED = 3.0
"""Seconds; memory.numa_stat is added up every two (mm/memcontrol.c, flush_memcg_stats_dwork)."""
SPIN = 2.0
"""Seconds of CPU time."""
PATIENCE = 180.0
POOL = Path("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages")

Trial = Callable[[Observer, Session], Iterator[str]]
"""Prints its record, and yields what is further off than it may be."""


def residence(kind: str, *, interleaved: bool = False) -> Trial:
    """Bytes by node: one worker has 64 MiB more than another."""
    policy, nodes, mems = ("interleave", (0, 1), "0-1") if interleaved else (None, (), "0")

    def trial(observer: Observer, session: Session) -> Iterator[str]:
        with ExitStack() as stack:
            groups = [stack.enter_context(cgroup(f"numaudit-truth/{size}", cpus="0", mems=mems)) for size in "ab"]
            small, large = (
                stack.enter_context(worker(group, size, kind=kind, policy=policy, nodes=nodes))
                for group, size in zip(groups, (SMALL, LARGE), strict=True)
            )
            time.sleep(SETTLED)
            one, other = (_bytes(_container(observer, group), kind) for group in groups)
            truth, reported = _less(large.bytes_by_node(), small.bytes_by_node()), _less(other, one)
        found = [Comparison(truth.get(node, 0), reported.get(node, 0)) for node in sorted({*truth, *reported})]
        name = f"{kind}, over two nodes" if interleaved else kind
        yield from _ended("resident", name, "bytes", found, 2 * MIB)

    return trial


def _container(observer: Observer, group: Cgroup) -> ContainerReport:
    (one,) = [one for one in build(observer.observe()).containers if one.id == group.id]
    return one


def _bytes(container: ContainerReport, kind: str) -> dict[int, int]:
    return {row.numa_node: int(getattr(row, kind) or 0) for row in container.resident or ()}


def _less(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {node: one.get(node, 0) - other.get(node, 0) for node in {*one, *other}}


def share(observer: Observer, session: Session) -> Iterator[str]:
    """The share of its bytes that is on another node than its CPUs; the truth is numa_maps of the whole process."""
    with (
        cgroup("numaudit-truth/share", cpus="0", mems="0-1") as group,
        worker(group, LARGE, policy="bind", nodes=[1], policy_from=NEAR) as running,
    ):
        time.sleep(SETTLED)
        one = _container(observer, group)
        by_node = _anonymous(running)
    assert one.remote_bytes is not None and one.judged_bytes
    truth = by_node.get(1, 0) / sum(by_node.values())
    aligned = sum(size for node, size in _judged(one).items() if node != 0) / one.judged_bytes
    yield from _ended("share", "bytes on another node", "share", [Comparison(truth, aligned)], 0.05)


def _judged(one: ContainerReport) -> dict[int, int]:
    return {row.numa_node: (row.anon or 0) + (row.shmem or 0) + (row.hugetlb or 0) for row in one.resident or ()}


def _anonymous(running: Worker) -> dict[int, int]:
    """Bytes by node of all its mappings that are anonymous."""
    found: dict[int, int] = {}
    for line in Path(f"/proc/{running.pid}/numa_maps").read_text().splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "anon" in words and "file" not in words:
            for name, pages in words.items():
                if name[0] == "N" and name[1:].isdecimal():
                    found[int(name[1:])] = found.get(int(name[1:]), 0) + int(pages) * PAGE
    return found


def spilled(observer: Observer, session: Session) -> Iterator[str]:
    """Bytes outside the promised nodes."""
    with (
        cgroup("numaudit-truth/spilled", cpus="0", mems="0-1") as group,
        worker(group, LARGE, policy="bind", nodes=[1], policy_from=NEAR),
    ):
        time.sleep(SETTLED)
        snapshot = promised(observer.observe(), ContainerId(group.id), "0")
        (one,) = [one for one in build(snapshot).containers if one.id == group.id]
    assert one.judged_bytes is not None and one.aligned_bytes is not None and one.verdict is not None
    yield from _ended(
        "spilled", "anon", "bytes", [Comparison(LARGE - NEAR, one.judged_bytes - one.aligned_bytes)], 2 * MIB
    )


def cpu_time(observer: Observer, session: Session) -> Iterator[str]:
    """Seconds by node of a process that uses a CPU of node 0, then one of node 2; its own clock is the truth."""
    with cgroup("numaudit-truth/cpu", cpus="0", mems="0") as group, worker(group, MIB) as running:
        before, begin = session.read(CPU_TIME), running.cpu_seconds()
        running.order("spin")
        _spins(running, begin)
        running.order("sleep")
        middle = running.cpu_seconds()
        group.write("cpuset.cpus", "2")
        running.order("spin")
        _spins(running, middle)
        running.order("sleep")
        end = running.cpu_seconds()
        row = session.read(CPU_TIME).since(before).by_node.get(group.id, {})
    found = [Comparison(middle - begin, row.get(0, 0) / 1e9), Comparison(end - middle, row.get(2, 0) / 1e9)]
    yield from _ended("cpu_time", "two nodes, one after the other", "seconds", found, 0.2)


def _spins(running: Worker, begin: float) -> None:
    deadline = time.monotonic() + PATIENCE
    while running.cpu_seconds() - begin < SPIN and time.monotonic() < deadline:
        time.sleep(0.05)


def allocated(observer: Observer, session: Session) -> Iterator[str]:
    """Bytes that the kernel gave, by the node of the page: all pages are given back and used again."""
    with cgroup("numaudit-truth/alloc", cpus="0", mems="1") as group, worker(group, LARGE) as running:
        before = session.read(PAGE_ALLOC)
        running.order("refill")
        row = session.read(PAGE_ALLOC).since(before).by_node.get(group.id, {})
    reported = sum(size for (_, node), size in row.items() if node == 1)
    yield from _ended("page_alloc", "anon", "bytes", [Comparison(LARGE, reported)], 2 * MIB)


def hint_faults_counted(observer: Observer, session: Session) -> Iterator[str]:
    """Hint faults of the machine, beside the kernel's own count (numa_hint_faults of /proc/vmstat)."""
    with (
        cgroup("numaudit-truth/faults", cpus="0", mems="0-1") as group,
        worker(group, SMALL, policy="bind-sampled", nodes=[1], threads=2) as running,
    ):
        before, kernel = session.read(HINT_FAULTS), kernel_count()
        running.order("touch")
        deadline = time.monotonic() + PATIENCE
        while kernel_count() - kernel < SMALL // PAGE and time.monotonic() < deadline:
            time.sleep(0.5)
        running.order("sleep")
        settled(kernel_count)
        truth, reported = kernel_count() - kernel, session.read(HINT_FAULTS).since(before).events or 0
    yield from _ended("hint_faults_counted", "all faults", "faults", [Comparison(truth, reported)], 0.05 * truth + 10)


def migrated(observer: Observer, session: Session) -> Iterator[str]:
    """Bytes that NUMA balancing moved: the process knows where its pages were and where they are."""
    size = 16
    plan = Process([Part(4), Part(size, (3,), policy="none")], [Thread([0], [(0, 1), (1, 1)])] * 2)
    with cgroup("numaudit-truth/moved", cpus="0-3", mems="0-3") as group, _started(plan, group) as process:
        before = session.read(MIGRATIONS)
        _ask(process, "go")
        deadline = time.monotonic() + PATIENCE
        while _on_node_3(_ask(process, "pages")) > 0 and time.monotonic() < deadline:
            time.sleep(1)
        truth = size * MIB - _on_node_3(_ask(process, "pages"))
        reported = session.read(MIGRATIONS).since(before).succeeded.get(group.id, {}).get(NUMA_MISPLACED, 0) * PAGE
    yield from _ended("migrated", "anon", "bytes", [Comparison(truth, reported)], 2 * MIB)


def _on_node_3(pages: list[dict[str, int]]) -> int:
    return pages[1].get("3", 0) * PAGE


def expected(observer: Observer, session: Session) -> Iterator[str]:
    """The expected remote share of a process that uses all its bytes equally: half of them are remote."""
    with (
        cgroup("numaudit-truth/half", cpus="0", mems="0-1") as group,
        worker(group, LARGE, policy="bind", nodes=[1], policy_from=LARGE // 2) as running,
    ):
        running.order("touch")
        before = observer.observe(readings=ProbeReadings(session))
        time.sleep(SETTLED)
        (one,) = [
            one
            for one in build(observer.observe(readings=ProbeReadings(session)), before=before).containers
            if one.id == group.id
        ]
        by_node = _anonymous(running)
    assert one.expected_remote_ratio is not None
    truth = by_node.get(1, 0) / sum(by_node.values())
    yield from _ended("expected", "half of the bytes", "share", [Comparison(truth, one.expected_remote_ratio)], 0.05)


def _ended(figure: str, workload: str, unit: str, found: list[Comparison], slack: float) -> Iterator[str]:
    off = [
        f"{figure}, {workload}: {one.reported:g} is reported, and {one.truth:g} is true"
        for one in found
        if abs(one.reported - one.truth) > slack
    ]
    write(figure, workload, unit, found, off)
    yield from off


TRIALS: tuple[Trial, ...] = (
    residence("anon"),
    residence("anon", interleaved=True),
    residence("shmem"),
    residence("hugetlb"),
    share,
    spilled,
    cpu_time,
    allocated,
    migrated,
    hint_faults_counted,
    expected,
)


def main() -> int:
    rounds, observer, off = int(sys.argv[1]), Observer.of(Host()), list[str]()
    POOL.write_text("64")
    with Session.open(Host(), KINDS, cgroups=100, nodes=16, deadline=600) as session:
        for _ in range(rounds):
            for trial in TRIALS:
                off += trial(observer, session)
    print("\n".join(off) or "every figure is as near as it may be", flush=True)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
