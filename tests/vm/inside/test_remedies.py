"""Every remedy that docs/verdicts.md names, carried out as it says, and the verdict or cause that turns.

A new remedy is a row of ROWS.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent import ContainerIntent, Intent, KubeletConfig, Promise, PromisedMemory
from numaudit.kernel.host import Host
from numaudit.observer import Observer
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.session import Readings, Session
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet
from samples import balancing
from workload import MIB, PATIENCE, Cgroup, Worker, cgroup, worker

SIZE = 16 * MIB
FILE = Path("/dev/shm/numaudit-held")
SEGMENT = "0x6e75"
PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[3] / "docs/verdicts.md").read_text())
HOLD = """
import mmap, os, sys
file = os.memfd_create("held")
os.write(file, bytes(SIZE))
print("filled", flush=True)
sys.stdin.readline()
held = mmap.mmap(file, SIZE)
sum(held[::4096])
print("mapped", flush=True)
sys.stdin.readline()
""".replace("SIZE", str(SIZE))
"""Shared memory that nothing maps while cpuset.mems changes, so it stays where it is."""
ATTACH = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
ctypes.memset(libc.shmat(libc.shmget({SEGMENT}, {SIZE}, 0o1600), None, 0), 1, {SIZE})
"""


@dataclass(slots=True)
class Stage:
    """One container and its ticks, as the agent takes them."""

    observer: Observer
    session: Session
    stack: contextlib.ExitStack
    mems: str = "0"
    """Promised; empty = nothing was."""
    cpus: str | None = None
    """Promised; None = not known."""
    ticks: int = 0
    running: Worker | None = None
    """The one that the cure needs."""
    group: Cgroup = field(init=False)
    verdict: Verdict = field(init=False)
    _container: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _last: Snapshot | None = None
    _judged: Judgements | None = None

    def create(self, cpus: str = "0", mems: str = "0") -> None:
        """The container, instead of the one before."""
        self._container.close()
        self._container = self.stack.enter_context(contextlib.ExitStack())
        self.group = self._container.enter_context(cgroup("numaudit-remedies/container", cpus, mems))

    def worker(self, size: int = SIZE, policy: str | None = None, file: Path | None = None) -> Worker:
        kind, nodes = ("anon" if file is None else "shmem"), [1] if policy else []
        return self._container.enter_context(worker(self.group, size, kind, policy, nodes, file=file))

    def run(self, *command: str) -> None:
        """In the container's cgroup, to its end."""
        with self.start(*command) as process:
            process.communicate()
            assert process.returncode == 0

    def start(self, *command: str) -> subprocess.Popen[str]:
        joining = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group.path / "cgroup.procs"))
        return subprocess.Popen([*joining, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pids(self) -> list[str]:
        return self.group.read("cgroup.procs").split()

    def tick(self) -> Verdict:
        snapshot = self._promised(self.observer.observe(5.0, Readings(self.session)))
        judged = judge(snapshot, self._last, self._judged)
        self._last, self._judged = snapshot, judged
        self.verdict = judged.verdicts[ContainerId(self.group.id)]
        self.ticks += 1
        return self.verdict

    def until(self, is_so: Callable[[Verdict], bool]) -> None:
        """Take ticks until this holds; `ticks` is then their number."""
        self.ticks, deadline = 0, time.monotonic() + PATIENCE / 10
        while not is_so(self.tick()):
            assert time.monotonic() < deadline, self.verdict
            time.sleep(0.5)

    def _promised(self, snapshot: Snapshot) -> Snapshot:
        key = ContainerId(self.group.id)
        (one,) = [one for one in snapshot.containers if one.id == key]
        if not self.mems:
            return replace(snapshot, containers=(one,))
        memory = (PromisedMemory("memory", SIZE, NodeSet.parse(self.mems)),)
        promise = Promise(memory, None if self.cpus is None else CpuSet.parse(self.cpus))
        own = ContainerIntent("uid", "app", cgroups=(key,), promise=promise)
        pods = replace(one, kind="container", qos="Guaranteed", pod_uid="uid", name="app")
        intent = Intent((own,), config=KubeletConfig(memory_manager_policy="Static"))
        return replace(snapshot, containers=(pods,), intent=intent)


Step = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One remedy."""

    of: str
    """The verdict or cause that must go."""
    remedy: str
    """Words of the remedy in docs/verdicts.md, or in the verdict's own."""
    harm: Step
    """Makes a container of which it holds."""
    cure: Step
    """Does what the remedy says."""
    cured: str = "aligned"
    """The verdict afterwards."""

    def holds(self, verdict: Verdict) -> bool:
        return self.of == verdict.name or any(one.cause == self.of for one in verdict.causes)


def drift(stage: Stage) -> None:
    stage.create()
    stage.worker()
    stage.group.write("cpuset.mems", "1")


def write_nodes_back(stage: Stage) -> None:
    stage.group.write("cpuset.mems", "0")


def create_again(stage: Stage) -> None:
    stage.create()
    stage.worker()


def spill_into_mapped_memory(stage: Stage) -> None:
    stage.create(mems="1")
    holder = stage.stack.enter_context(stage.start(sys.executable, "-I", "-S", "-c", HOLD))
    stage.stack.callback(holder.kill)
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "filled\n"
    stage.group.write("cpuset.mems", "0")
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "mapped\n"


def migrate_pages(stage: Stage) -> None:
    for pid in stage.pids():
        subprocess.run(["migratepages", pid, "all", "0"], check=True)


def spill_into_a_file(stage: Stage) -> None:
    stage.create(mems="1")
    stage.stack.callback(FILE.unlink, missing_ok=True)
    stage.run("dd", "if=/dev/zero", f"of={FILE}", "bs=1M", f"count={SIZE // MIB}", "status=none")
    stage.group.write("cpuset.mems", "0")


def copy_the_file(stage: Stage) -> None:
    stage.run("sh", "-c", f"cp {FILE} {FILE}.new && mv {FILE}.new {FILE}")
    assert FILE.stat().st_size == SIZE


def remove_the_file(stage: Stage) -> None:
    FILE.unlink()


def spill_into_a_segment(stage: Stage) -> None:
    stage.create(mems="1")
    stage.run(sys.executable, "-I", "-S", "-c", ATTACH)
    stage.group.write("cpuset.mems", "0")


def remove_the_segment(stage: Stage) -> None:
    subprocess.run(["ipcrm", "-M", SEGMENT], check=True)


def run_elsewhere(stage: Stage) -> None:
    """For more than a second of CPU time: it is not judged by what it may do."""
    stage.cpus = "0"
    stage.create(cpus="2")
    running = stage.worker(MIB)
    stage.tick()
    running.order("spin")
    stage.until(lambda verdict: "of the CPU time" in verdict.reason)
    stage.running = running


def write_cpus_back(stage: Stage) -> None:
    """After it has used the old ones for another while, which the next tick reads together with the new ones."""
    assert stage.running is not None
    enough = stage.running.cpu_seconds() + 1.5
    while stage.running.cpu_seconds() < enough:
        time.sleep(0.05)
    stage.group.write("cpuset.cpus", "0")


def run_on_all_cpus(stage: Stage) -> None:
    stage.cpus = ""
    stage.create(cpus="0-3")
    stage.worker(MIB)


def ask_for_whole_cpus(stage: Stage) -> None:
    stage.cpus = "0"
    stage.create(cpus="0")
    stage.worker(MIB)


def span_nodes(stage: Stage) -> None:
    stage.mems = "0-1"
    stage.create(cpus="0-1", mems="0-1")
    stage.worker()


def ask_for_less(stage: Stage) -> None:
    stage.mems = "0"
    create_again(stage)


def bind_elsewhere(stage: Stage) -> None:
    stage.mems = ""
    stage.create(mems="0-1")
    stage.worker(policy="bind")


def start_without_a_policy(stage: Stage) -> None:
    stage.create(mems="0-1")
    stage.worker()


def fill_the_node(stage: Stage) -> None:
    """The node has room again at the tick, as after kswapd has freed some. What does not fit goes to node 3."""
    stage.mems = ""
    stage.create(cpus="2", mems="2-3")
    stage.tick()
    meminfo = Path("/sys/devices/system/node/node2/meminfo").read_text()
    free = int(re.findall(r"MemFree: *(\d+) kB", meminfo)[0]) << 10
    with cgroup("numaudit-remedies/hog", cpus="2", mems="2-3") as hog, worker(hog, free):
        stage.worker(4 * SIZE)


def allocate_again(stage: Stage) -> None:
    stage.create(cpus="2", mems="2-3")
    stage.worker(4 * SIZE)


def share(stage: Stage) -> None:
    stage.stack.callback(FILE.unlink, missing_ok=True)
    owner = stage.stack.enter_context(cgroup("numaudit-remedies/owner", cpus="1", mems="1"))
    stage.stack.enter_context(worker(owner, SIZE, "shmem", file=FILE))
    stage.create()
    stage.worker(file=FILE).order("touch")


def move_the_owners_memory(stage: Stage) -> None:
    (stage.group.path.parent / "owner/cpuset.mems").write_text("0")


ROWS = (
    Row("drifted", "Write the promised nodes back to cpuset.mems", drift, write_nodes_back),
    Row("drifted", "delete the pod so that it is created again", drift, create_again),
    Row("spilled", "`migratepages PID all NODES`", spill_into_mapped_memory, migrate_pages),
    Row("spilled", "restart the container", spill_into_mapped_memory, create_again),
    Row("spilled", "`cp FILE NEW && mv NEW FILE`", spill_into_a_file, copy_the_file),
    Row("spilled", "or remove it", spill_into_a_file, remove_the_file),
    Row("spilled", "`ipcrm`", spill_into_a_segment, remove_the_segment),
    Row("cpu-remote", "Write the promised CPUs back to cpuset.cpus", run_elsewhere, write_cpus_back),
    Row("cpu-remote", "Ask for whole CPUs, so that the CPU Manager pins it too", run_on_all_cpus, ask_for_whole_cpus),
    Row("split", "Ask for less", span_nodes, ask_for_less),
    Row("mempolicy", "Change the program or its `numactl`.", bind_elsewhere, start_without_a_policy, "unmanaged"),
    Row("full-node", "Free that node", fill_the_node, allocate_again, "unmanaged"),
    Row("shared-memory", "Move the owner's memory (its `cpuset.mems`", share, move_the_owners_memory),
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.open(Host(), (CPU_TIME, MIGRATIONS), cgroups=500, nodes=16) as session, balancing("0"):
        yield session


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.of}-{row.cure.__name__}")
def test_a_remedy_does_what_it_says(row: Row, session: Session) -> None:
    with contextlib.ExitStack() as stack:
        stage = Stage(Observer.of(Host()), session, stack)
        row.harm(stage)
        stage.until(row.holds)
        assert row.remedy in PAGE or row.remedy in (stage.verdict.remedy or ""), stage.verdict
        if row.of == stage.verdict.name:
            assert row.remedy in (stage.verdict.remedy or ""), stage.verdict
        row.cure(stage)
        stage.until(lambda verdict: not row.holds(verdict) and verdict.name != "unknown")
        assert (stage.verdict.name, stage.verdict.causes) == (row.cured, ())
        if row.of == "cpu-remote":
            assert stage.ticks == 1, "the tick that sees the change counts nothing of before"
