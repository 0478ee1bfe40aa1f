"""Remedies for memory and CPUs that are elsewhere, carried out as docs/verdicts.md says: the verdict must turn.

A new remedy is a row of ROWS.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.containermanager.memory.state import MemoryTable, NUMANodeState
from numaudit.engine.overhead import Limiter
from numaudit.probes.session import Session
from remedies import PARENT, SIZE, Row, Stage, carry_out, opened, parameters, run_the_commands
from samples import BALANCING
from workload import CGROUPS, MIB, cgroup, eventually, worker

FILE = Path("/dev/shm/numaudit-held")
SEGMENT = "0x6e75"
POOL = Path("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages")
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
    stage.until(lambda: "of the CPU time" in stage.verdict.reason)
    stage.running = running


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


def free_on(node: int) -> int:
    """Bytes."""
    meminfo = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text()
    return int(re.findall(r"MemFree: *(\d+) kB", meminfo)[0]) << 10


def fill_the_node(stage: Stage) -> None:
    """The node has room again at the tick, as after kswapd has freed some. What does not fit goes to node 3."""
    stage.mems = ""
    stage.create(cpus="2", mems="2-3")
    stage.tick()
    with cgroup(f"{PARENT}/hog", cpus="2", mems="2-3") as hog, worker(hog, free_on(2)):
        stage.worker(4 * SIZE)


def allocate_again(stage: Stage) -> None:
    stage.create(cpus="2", mems="2-3")
    stage.worker(4 * SIZE)


def exclude_the_near_node(stage: Stage) -> None:
    stage.mems = ""
    stage.create(mems="1")
    stage.worker()


def move_its_own_pages(stage: Stage) -> None:
    """Between two ticks, by a task of the container: the kernel charges a move to whoever carries it out."""
    stage.mems = ""
    stage.create(mems="0-1")
    stage.running = stage.worker()
    stage.tick()
    stage.run("migratepages", str(stage.running.pid), "0", "1")


def have_balancing_move_pages(stage: Stage) -> None:
    """From the promised node to the one that it runs on, which its cpuset should not allow."""
    stage.create(cpus="1", mems="0")
    stage.running = stage.worker(threads=2)
    stage.tick()
    stage.group.write("cpuset.mems", "0-1")
    stage.tick()
    stage.running.order("touch")
    eventually(lambda: mostly_on(stage, 1))
    stage.running.order("sleep")


def mostly_on(stage: Stage, node: int) -> None:
    assert stage.running is not None
    assert stage.running.bytes_by_node().get(node, 0) > 0.9 * SIZE


def switch_balancing_off(stage: Stage) -> None:
    """Then what is migrated back stays, though it is used from the other node for seconds."""
    assert stage.running is not None
    BALANCING.write_text("0")
    migrate_pages(stage)
    stage.running.order("touch")
    enough = stage.running.cpu_seconds() + 3
    while stage.running.cpu_seconds() < enough:
        time.sleep(0.05)
    mostly_on(stage, 0)


def share(stage: Stage) -> None:
    share_memory_of_node_1(stage, "1")


def share_what_a_policy_put_there(stage: Stage) -> None:
    share_memory_of_node_1(stage, "0-1", "bind")


def share_memory_of_node_1(stage: Stage, mems: str, policy: str | None = None) -> None:
    """The owner's, which may use these nodes."""
    stage.stack.callback(FILE.unlink, missing_ok=True)
    owner = stage.ill.enter_context(cgroup(f"{PARENT}/owner", cpus="1", mems=mems))
    stage.ill.enter_context(worker(owner, SIZE, "shmem", policy, [1] if policy else [], file=FILE))
    stage.create()
    stage.worker(file=FILE).order("touch")


def move_the_owners_memory(stage: Stage) -> None:
    (CGROUPS / PARENT / "owner/cpuset.mems").write_text("0")


def change_the_owners_policy(stage: Stage) -> None:
    """A policy is of the memory that comes: both begin again, with another file."""
    stage.ill.close()
    FILE.unlink()
    owner = stage.stack.enter_context(cgroup(f"{PARENT}/owner", cpus="1", mems="0-1"))
    stage.stack.enter_context(worker(owner, SIZE, "shmem", "bind", [0], file=FILE))
    stage.create()
    stage.worker(file=FILE).order("touch")


def run_it_where_that_memory_is(stage: Stage) -> None:
    stage.mems = "1"
    stage.create(cpus="1", mems="1")
    stage.worker(file=FILE).order("touch")


def hide_the_huge_pages(stage: Stage) -> None:
    """Where the machine has none, the container has none."""
    POOL.write_text("1")
    stage.stack.callback(POOL.write_text, "0")
    stage.huge = 2 * MIB
    stage.create()
    (CGROUPS / PARENT / "cgroup.subtree_control").write_text("-hugetlb")
    stage.worker()


def show_the_huge_pages(stage: Stage) -> None:
    assert "no hugetlb controller counts them by node" in stage.verdict.reason
    (CGROUPS / PARENT / "cgroup.subtree_control").write_text("+hugetlb")


def use_memory_that_is_promised(stage: Stage) -> None:
    """A pod that is not Guaranteed holds most of the node, and the promise wants most of it as well."""
    stage.mems, free = "2", free_on(2)
    stage.size = int(0.9 * free)
    hog = stage.ill.enter_context(cgroup(f"{PARENT}/hog", cpus="2", mems="2"))
    stage.ill.enter_context(worker(hog, int(0.8 * free)))
    stage.create(cpus="2", mems="2")
    stage.worker()


def move_the_others_off_the_node(stage: Stage) -> None:
    stage.ill.close()


def use_huge_pages_that_the_map_offers(stage: Stage) -> None:
    """A pod that is not Guaranteed uses five of node 2's eight pages, which are all free by the memory map."""
    pool = POOL.parents[3] / "node2/hugepages/hugepages-2048kB/nr_hugepages"
    pool.write_text("8")
    stage.stack.callback(pool.write_text, "0")
    stage.mems, size = "2", 16 * MIB
    memory, pages = MemoryTable(SIZE, 0, SIZE, SIZE, 0), MemoryTable(size, 0, size, 0, size)
    stage.machine = {2: NUMANodeState(1, {"memory": memory, "hugepages-2Mi": pages}, (2,))}
    hog = stage.ill.enter_context(cgroup(f"{PARENT}/hog", cpus="2", mems="2"))
    stage.ill.enter_context(worker(hog, 10 * MIB, kind="hugetlb"))
    stage.create(cpus="2", mems="2")
    stage.worker()


def measure_more_than_the_budget_allows(stage: Stage) -> None:
    """One step is taken: the budget of the two ticks is nothing, and something has happened between them."""
    stage.mems = ""
    stage.create()
    stage.limiter = Limiter(stage.session, 1e-12, stage.observer.inventory)
    stage.stack.callback(stage.limiter.close)
    running = stage.worker()
    stage.tick()
    running.order("touch")


def raise_the_budget(stage: Stage) -> None:
    """As the agent does when it is started with another setting."""
    assert stage.limiter is not None
    stage.limiter.close()
    stage.limiter = Limiter(stage.session, 0.5, stage.observer.inventory)
    stage.stack.callback(stage.limiter.close)


ROWS = (
    Row("drifted", "Write the promised nodes back to cpuset.mems", drift, run_the_commands),
    Row("drifted", "delete the pod so that it is created again", drift, create_again, one_kernel=True),
    Row("spilled", "`migratepages PID all NODES`", spill_into_mapped_memory, run_the_commands),
    Row("spilled", "restart the container", spill_into_mapped_memory, create_again, one_kernel=True),
    Row("spilled", "`cp FILE NEW && mv NEW FILE`", spill_into_a_file, copy_the_file),
    Row("spilled", "or remove it", spill_into_a_file, remove_the_file),
    Row("spilled", "`ipcrm`", spill_into_a_segment, remove_the_segment),
    Row("cpu-remote", "Write the promised CPUs back to cpuset.cpus", run_elsewhere, run_the_commands, ticks=1),
    Row(
        "cpu-remote",
        "Request whole CPUs, so that the CPU Manager pins it too",
        run_on_all_cpus,
        ask_for_whole_cpus,
        ticks=1,
        one_kernel=True,
    ),
    Row("split", "Request less memory", span_nodes, ask_for_less, one_kernel=True),
    Row(
        "unknown",
        "Give numaudit the source that is named",
        hide_the_huge_pages,
        show_the_huge_pages,
        one_kernel=True,
    ),
    Row(
        "mempolicy",
        "Change the program or its `numactl`.",
        bind_elsewhere,
        start_without_a_policy,
        "unmanaged",
        one_kernel=True,
    ),
    Row("cpuset", "As for `drifted`.", exclude_the_near_node, write_nodes_back, "unmanaged", one_kernel=True),
    Row("full-node", "Free that node", fill_the_node, allocate_again, "unmanaged"),
    Row("migration", "its own calls of `move_pages`", move_its_own_pages, migrate_pages, "unmanaged"),
    Row(
        "migration",
        "NUMA balancing (`kernel.numa_balancing`)",
        have_balancing_move_pages,
        switch_balancing_off,
        "drifted",
        left=["cpuset"],
        balancing="1",
        one_kernel=True,
    ),
    Row("shared-memory", "Move the owner's memory (its `cpuset.mems`", share, move_the_owners_memory),
    Row(
        "shared-memory",
        "or memory policy)",
        share_what_a_policy_put_there,
        change_the_owners_policy,
        one_kernel=True,
    ),
    Row(
        "shared-memory",
        "run both on the nodes of that memory",
        share,
        run_it_where_that_memory_is,
        one_kernel=True,
    ),
    Row(
        "oom-risk",
        "Move pods that are not Guaranteed off the node",
        use_memory_that_is_promised,
        move_the_others_off_the_node,
        one_kernel=True,
    ),
    Row(
        "hugepages-short",
        "Stop or move the pods that use the pages without a promise",
        use_huge_pages_that_the_map_offers,
        move_the_others_off_the_node,
        one_kernel=True,
    ),
    Row(
        "over-budget",
        "raise the agent's setting overhead.max_cpu_percent",
        measure_more_than_the_budget_allows,
        raise_the_budget,
        "unmanaged",
        balancing="1",
        one_kernel=True,
    ),
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as session:
        yield session


@pytest.mark.parametrize("row", parameters(ROWS))
def test_a_remedy_does_what_it_says(row: Row, session: Session) -> None:
    carry_out(row, session)
