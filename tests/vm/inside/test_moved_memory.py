"""Memory that a change of cpuset.mems moved: what is said while the kernel's counters are wrong or late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.values import ContainerReport
from workload import MIB, Cgroup, cgroup, eventually, worker

NODES = Path("/sys/devices/system/node")
PAGES = 5
HELD = PAGES * 2 * MIB


@pytest.fixture
def pools() -> Iterator[None]:
    """Five huge pages on node 0 and as many on node 1."""
    files = [NODES / f"node{node}/hugepages/hugepages-2048kB/nr_hugepages" for node in (0, 1)]
    for file in files:
        file.write_text(str(PAGES))
    try:
        assert [file.read_text() for file in files] == [f"{PAGES}\n"] * 2
        yield
    finally:
        for file in files:
            file.write_text("0")


def of(group: Cgroup) -> ContainerReport:
    report = observe_whole(Observer.of(Host()), 20.0, None).report
    (one,) = [one for one in report.containers if one.id == group.id]
    return one


def huge(container: ContainerReport) -> dict[int, int] | None:
    """By node; None = not known."""
    rows = container.resident or ()
    if any(row.hugetlb is None for row in rows):
        return None
    return {row.numa_node: row.hugetlb for row in rows if row.hugetlb}


def test_huge_pages_that_moved_are_where_they_are_or_not_known(pools: None) -> None:
    """Linux 6.1 keeps counting them on the node they left, and goes below zero on the other when they are unmapped."""
    with cgroup("numaudit-moved/huge", cpus="0", mems="0") as group:
        with worker(group, HELD, kind="hugetlb") as running:
            assert running.bytes_by_node() == {0: HELD}
            assert huge(of(group)) == {0: HELD}
            group.write("cpuset.mems", "1")

            def has_moved() -> None:
                assert running.bytes_by_node() == {1: HELD}

            eventually(has_moved)
            said = of(group)
            assert huge(said) in ({1: HELD}, None), (group.read("hugetlb.2MB.numa_stat"), said.mappings)
        after = of(group)
        assert huge(after) in ({}, None), group.read("hugetlb.2MB.numa_stat")
        if huge(after) is None:
            assert [unknown.what for unknown in after.unknown if unknown.what == "hugetlb"] == ["hugetlb"]
