"""Samples of memory accesses in the guest: how many to wait for, and for how long.

The kernel scans a new process twice as soon as it has used some CPU time, and then whenever it likes: every second on
Linux 6.1, on 6.12 perhaps never again. So a test that needs samples starts a new worker, and one that needs several
scans says how often (`scans_every`). One scan makes each page of a worker fault once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.kernel.host import Host
from numaudit.kernel.memory.numa_balancing import read_vmstat
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultCounts
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import HintFault
from numaudit.topology.nodeset import NodeSet
from workload import MIB, PAGE, Cgroup, Worker, eventually

SIZE = 8 * MIB
PAGES = SIZE // PAGE
ENOUGH = 1200
"""Samples: fewer than one scan brings, and 1000 are needed for a share."""
PATIENCE = 180.0
"""Seconds for a scan; on an idle machine it takes two or three."""
BALANCING = Path("/proc/sys/kernel/numa_balancing")
_SCANS = Path("/sys/kernel/debug/sched/numa_balancing")
_SMALL = 16
"""MiB that are scanned at once, for the kernel scans less often what it scans in larger parts (task_scan_min)."""
Faults = dict[HintFault, int]


@contextlib.contextmanager
def balancing(value: str) -> Iterator[None]:
    """kernel.numa_balancing has this value for as long as the block lasts."""
    before = BALANCING.read_text()
    BALANCING.write_text(value)
    try:
        yield
    finally:
        BALANCING.write_text(before)


@contextlib.contextmanager
def scans_every(milliseconds: int) -> Iterator[None]:
    """The kernel scans a process again when it has run for this long, whatever it found."""
    every = ("scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms")
    wanted = {"scan_size_mb": _SMALL, **dict.fromkeys(every, milliseconds)}
    before = {name: (_SCANS / name).read_text() for name in wanted}
    try:
        for name, value in wanted.items():
            (_SCANS / name).write_text(str(value))
        yield
    finally:
        for name, text in before.items():
            (_SCANS / name).write_text(text)


def faults_of(session: Session, group: Cgroup, before: HintFaultCounts) -> Faults:
    return dict(session.read(HINT_FAULTS).since(before).faults.get(group.id, {}))


def seen(session: Session, group: Cgroup, before: HintFaultCounts, at_least: int) -> Faults:
    """The cgroup's faults once there are this many."""
    return seen_by(partial(session.read, HINT_FAULTS), group, before, at_least)


def seen_by(
    read: Callable[[], HintFaultCounts], group: Cgroup, before: HintFaultCounts, at_least: int = ENOUGH
) -> Faults:
    def enough() -> Faults:
        faults = dict(read().since(before).faults.get(group.id, {}))
        assert sum(faults.values()) >= at_least, faults
        return faults

    return eventually(enough, PATIENCE)


def settled(read: Callable[[], object], still_for: float = 1) -> None:
    """Wait until a figure stays as it is for some seconds."""
    last = read()

    def is_still() -> None:
        nonlocal last
        time.sleep(still_for)
        earlier, last = last, read()
        assert last == earlier

    eventually(is_still, PATIENCE)


def cpu_seconds(group: Cgroup) -> float:
    """CPU time that the cgroup has used, by cpu.stat."""
    words = group.read("cpu.stat").split()
    return int(words[words.index("usage_usec") + 1]) / 1e6


def share(faults: Faults, of: Callable[[HintFault], bool]) -> float:
    return sum(count for fault, count in faults.items() if of(fault)) / sum(faults.values())


def kernel_count() -> int:
    """Hint faults of the whole machine since boot, by the kernel's own count."""
    return read_vmstat(Host())["numa_hint_faults"]


def wait_for_kernel(before: int, at_least: int = ENOUGH) -> None:
    """Until the kernel itself has counted this many."""

    def enough() -> None:
        assert kernel_count() - before >= at_least

    eventually(enough, PATIENCE)


def scans(running: Worker) -> int:
    """How often NUMA balancing has gone through a process's memory: mm->numa_scan_seq of kernel/sched/debug.c."""
    lines = Path(f"/proc/{running.pid}/sched").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("mm->numa_scan_seq")]
    return int(line.rpartition(":")[2])


def promised(snapshot: Snapshot, key: ContainerId, nodes: str) -> Snapshot:
    """As if this container had been promised memory of these nodes."""
    promise = Promise(memory=(Block.of("memory", SIZE, NodeSet.parse(nodes)),))
    intent = Intent(containers=(ContainerIntent("uid", "app", cgroups=(key,), promise=promise),))
    one = next(one for one in snapshot.containers if one.id == key)
    judged = replace(one, kind="container", qos="Guaranteed", pod_uid="uid", name="app")
    return replace(snapshot, containers=(judged,), intent=intent)
