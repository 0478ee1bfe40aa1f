"""Remedies for memory that is used from other nodes, as NUMA balancing samples it, carried out as the page says.

A new remedy is a row of ROWS.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.probes.session import Session
from remedies import PARENT, SIZE, Row, Stage, carry_out, opened, parameters
from workload import CGROUPS, cgroup, eventually, worker

FILE = Path("/dev/shm/numaudit-used")
THREADS = 3
"""The kernel samples near memory only of a process with several."""


def use_memory_of_node_1(stage: Stage) -> None:
    """From node 0. Both are promised, and NUMA balancing may not move it."""
    stage.mems = "0-1"
    stage.create(cpus="0-1", mems="0-1")
    stage.running = stage.worker(2 * SIZE, policy="bind-sampled", threads=THREADS)
    bind_threads(stage, "0")
    stage.tick()
    stage.running.order("touch")


def bind_threads(stage: Stage, cpus: str) -> None:
    for pid in stage.pids():
        subprocess.run(["taskset", "-acp", cpus, pid], check=True, capture_output=True)


def bind_threads_to_its_node(stage: Stage) -> None:
    bind_threads(stage, "1")


def migrate_its_pages(stage: Stage) -> None:
    for pid in stage.pids():
        subprocess.run(["migratepages", pid, "1", "0"], check=True)


def use_memory_of_its_owner(stage: Stage) -> None:
    share_with_owner(stage, THREADS)


def use_memory_of_its_owner_in_one_thread(stage: Stage) -> None:
    """The kernel then samples no near memory but what is shared."""
    share_with_owner(stage, 1)


def share_with_owner(stage: Stage, threads: int) -> None:
    """Shared memory of another cgroup on another node, bound there; the container may use node 0 only."""
    stage.stack.callback(FILE.unlink, missing_ok=True)
    node = min((1, 2, 3), key=shared_memory_on)
    owner = stage.stack.enter_context(cgroup(f"{PARENT}/owner", cpus=str(node), mems=str(node)))
    stage.stack.enter_context(worker(owner, 4 * SIZE, "shmem", "bind-sampled", [node], file=FILE))
    stage.create()
    running = stage.worker(4 * SIZE, file=FILE, threads=threads)
    stage.tick()
    running.order("touch")


def shared_memory_on(node: int) -> int:
    """Bytes, of anybody: while there is some, the memory that was seen used may still be among it."""
    meminfo = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text()
    return int(re.findall(r"Shmem: *(\d+) kB", meminfo)[0]) << 10


def move_the_owners_memory(stage: Stage) -> None:
    (CGROUPS / PARENT / "owner/cpuset.mems").write_text("0")


def use_what_cannot_move(stage: Stage) -> None:
    """Its CPUs are on node 0, its memory is on node 1, which is the only one that it may use."""
    stage.mems = ""
    stage.create(cpus="0", mems="1")
    stage.running = stage.worker(threads=THREADS)
    stage.tick()
    stage.running.order("touch")


def allow_the_near_node(stage: Stage) -> None:
    """Then the kernel brings home what is used; of Python's own memory some stays, and nobody watched it come."""
    stage.group.write("cpuset.mems", "0-1")

    def is_home() -> None:
        assert stage.running is not None
        assert stage.running.bytes_by_node().get(0, 0) > 0.95 * SIZE

    eventually(is_home)


def run_it_near_its_memory(stage: Stage) -> None:
    stage.group.write("cpuset.cpus", "1")


ROWS = (
    Row(
        "remote-access",
        "bind its threads to the CPUs of that node (`taskset`)",
        use_memory_of_node_1,
        bind_threads_to_its_node,
        "split",
        balancing="1",
    ),
    Row(
        "remote-access",
        "migrate its pages (`migratepages PID FROM TO`)",
        use_memory_of_node_1,
        migrate_its_pages,
        "split",
        ticks=8,
        balancing="1",
    ),
    Row(
        "remote-access",
        "moves with its owner",
        use_memory_of_its_owner,
        move_the_owners_memory,
        balancing="1",
    ),
    Row(
        "remote-access",
        "moves with its owner",
        use_memory_of_its_owner_in_one_thread,
        move_the_owners_memory,
        ticks=8,
        balancing="1",
    ),
    Row(
        "cannot-heal",
        "let it use the memory of the nodes where its CPUs are",
        use_what_cannot_move,
        allow_the_near_node,
        "unmanaged",
        left=["unknown"],
        ticks=1,
        balancing="1",
    ),
    Row(
        "cannot-heal",
        "or run it on CPUs of the nodes where its memory is",
        use_what_cannot_move,
        run_it_near_its_memory,
        "unmanaged",
        balancing="1",
        ticks=1,
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
