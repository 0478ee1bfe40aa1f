"""The guest is the machine we asked for, and memory in it goes where it is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from container import container
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report import cells
from workload import MIB, PAGE, Cgroup, Worker, cgroup, eventually, worker

NODES = Path("/sys/devices/system/node")
SIZE = 32 * MIB
PYTHON = 16 * MIB
"""More than the worker's interpreter holds beside its `SIZE` bytes."""


@pytest.fixture
def group_on_node_0() -> Iterator[Cgroup]:
    """CPUs of node 0, memory of any node."""
    with cgroup("numaudit-lab/one", cpus="0") as group:
        yield group


def test_the_kernel_is_the_one_asked_for() -> None:
    assert os.uname().release.startswith(os.environ["NUMAUDIT_GUEST"] + ".")


def test_the_guest_has_four_nodes_with_unequal_distances() -> None:
    distances = [(NODES / f"node{node}/distance").read_text().split() for node in range(4)]
    assert distances == [
        ["10", "12", "20", "32"],
        ["12", "10", "32", "20"],
        ["20", "32", "10", "12"],
        ["32", "20", "12", "10"],
    ]


def test_each_node_has_one_cpu_and_about_512_megabytes() -> None:
    for node in range(4):
        assert (NODES / f"node{node}/cpulist").read_text().strip() == str(node)
        total = (NODES / f"node{node}/meminfo").read_text().splitlines()[0].split()
        assert 440 << 10 < int(total[3]) <= 512 << 10


@pytest.mark.parametrize(("mems", "node"), [("0", 0), ("1", 1), ("3", 3)])
def test_a_pinned_workers_memory_is_on_the_node_of_its_cpuset(mems: str, node: int) -> None:
    with cgroup("numaudit-lab/pinned", cpus="0", mems=mems) as group, worker(group, SIZE) as running:
        assert running.bytes_by_node() == {node: SIZE}

        def reported() -> None:
            anon = group.numa_stat("anon")
            assert SIZE <= anon.pop(node) < SIZE + PYTHON
            assert not any(anon.values())

        eventually(reported)


def test_bound_memory_is_remote_in_a_cgroup_that_allows_every_node(group_on_node_0: Cgroup) -> None:
    with worker(group_on_node_0, SIZE, policy="bind", nodes=[2]) as running:
        assert running.bytes_by_node() == {2: SIZE}

        def reported() -> None:
            anon = group_on_node_0.numa_stat("anon")
            assert anon[2] == SIZE
            assert 0 < anon[0] < PYTHON

        eventually(reported)


def test_interleaved_memory_is_split_evenly(group_on_node_0: Cgroup) -> None:
    with worker(group_on_node_0, SIZE, policy="interleave", nodes=[0, 1]) as running:
        assert running.bytes_by_node() == {0: SIZE // 2, 1: SIZE // 2}


def test_shared_memory_is_shmem_and_not_anon(group_on_node_0: Cgroup) -> None:
    with worker(group_on_node_0, SIZE, kind="shmem", policy="bind", nodes=[1]) as running:
        assert running.bytes_by_node() == {1: SIZE}

        def reported() -> None:
            assert group_on_node_0.numa_stat("shmem")[1] == SIZE
            assert group_on_node_0.numa_stat("anon")[1] == 0

        eventually(reported)


def test_huge_pages_come_from_the_nodes_pool(group_on_node_0: Cgroup) -> None:
    pool = NODES / "node1/hugepages/hugepages-2048kB"
    (pool / "nr_hugepages").write_text("4")
    try:
        with worker(group_on_node_0, 4 * MIB, kind="hugetlb", policy="bind", nodes=[1]) as running:
            assert running.bytes_by_node() == {1: 4 * MIB}
            assert (pool / "free_hugepages").read_text() == "2\n"
    finally:
        (pool / "nr_hugepages").write_text("0")


def test_a_refill_allocates_the_same_bytes_again(group_on_node_0: Cgroup) -> None:
    with worker(group_on_node_0, SIZE, policy="bind", nodes=[3]) as running:
        before = _allocations(3)
        running.order("refill")
        assert running.bytes_by_node() == {3: SIZE}
        assert _allocations(3) - before >= SIZE // PAGE


def test_balancing_brings_memory_home_once_the_cpuset_lets_it() -> None:
    with cgroup("numaudit-lab/away", cpus="0", mems="1") as group, worker(group, SIZE) as running:
        assert running.bytes_by_node() == {1: SIZE}
        group.write("cpuset.mems", "0-1")
        running.order("touch")

        def is_home() -> None:
            assert running.bytes_by_node().get(0, 0) > SIZE * 0.9

        eventually(is_home)


def test_a_worker_with_threads_uses_its_cpu_only_when_ordered(group_on_node_0: Cgroup) -> None:
    with worker(group_on_node_0, SIZE, threads=3) as running:
        assert len(list(Path(f"/proc/{running.pid}/task").iterdir())) == 3
        asleep = _cpu_seconds(group_on_node_0)

        def has_worked() -> None:
            assert _cpu_seconds(group_on_node_0) - asleep > 0.3

        for state in ("touch", "spin"):
            running.order(state)
            eventually(has_worked)
            running.order("sleep")
            asleep = _cpu_seconds(group_on_node_0)
        assert running.bytes_by_node() == {0: SIZE}


def test_runc_starts_a_container_in_a_pods_cgroup() -> None:
    uid = "0f5c8f0e-1a5b-4c0e-9a52-1f3f5e3d7c11"
    with container(uid, "web", ["sleep", "1000"], cpus="0", mems="1", memory_max=64 * MIB) as running:
        assert Path(f"/proc/{running.pid}/cgroup").read_text() == (
            f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{running.id}.scope\n"
        )
        assert running.cgroup.read("cpuset.mems.effective") == "1\n"
        assert running.cgroup.read("cpuset.cpus.effective") == "0\n"
        assert running.cgroup.read("memory.max") == f"{64 * MIB}\n"
        mounts = Path(f"/proc/{running.pid}/mountinfo").read_text()
        assert f"/pods/{uid}/containers/web/" in mounts
    assert not running.cgroup.path.parent.parent.exists()


def _allocations(node: int) -> int:
    words = (NODES / f"node{node}/numastat").read_text().split()
    return int(words[words.index("numa_hit") + 1])


def _cpu_seconds(group: Cgroup) -> float:
    words = group.read("cpu.stat").split()
    return int(words[words.index("usage_usec") + 1]) / 1e6


POLICIES: dict[str, tuple[str | None, tuple[int, ...], str]] = {
    "plain": (None, (), "default"),
    "bound": ("bind", (1,), "bind:1"),
    "preferring": ("preferred", (2,), "prefer:2"),
    "preferring-many": ("preferred-many", (0, 2), "prefer (many):0,2"),
    "interleaved": ("interleave", (0, 1, 2, 3), "interleave:0-3"),
    "weighted": ("weighted-interleave", (0, 2), "weighted interleave:0,2"),
    "local": ("local", (), "local"),
}
"""Name -> policy and nodes of the worker, and the column POLICY."""


@pytest.mark.one_kernel
def test_the_policy_of_each_process_is_what_the_kernel_prints() -> None:
    """Weighted interleave, which Linux has since 6.9, with its weights; the pages are spread by them."""
    weight = Path("/sys/kernel/mm/mempolicy/weighted_interleave/node0")
    weight.write_text("3")
    try:
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for name, (policy, nodes, _) in POLICIES.items():
                group = stack.enter_context(cgroup(f"numaudit-lab/{name}", cpus="0"))
                workers[name] = stack.enter_context(worker(group, 4 * MIB, policy=policy, nodes=nodes))
            spread = workers["weighted"].bytes_by_node()
            assert spread == {0: 3 * MIB, 2: MIB}
            printed = {name: one.policy() for name, one in workers.items()}
            report = Engine(Observer.of(Host())).tick(numa_maps_budget=60).report
        shown = {one.path: cells.policy(one) for one in report.containers}
    finally:
        weight.write_text("0")
    assert printed == {name: said for name, (_, _, said) in POLICIES.items()}
    weighted = f"{printed['weighted']} 3:1"
    assert {name: shown[f"/numaudit-lab/{name}"] for name in POLICIES} == {**printed, "weighted": weighted}
