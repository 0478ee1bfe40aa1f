"""The observer: what one tick joins."""

from __future__ import annotations

import shutil
from pathlib import Path

from numaudit.kernel.host import Host
from numaudit.observer import Observer
from numaudit.topology.nodeset import CpuSet


def test_huge_pages_that_are_reserved_after_the_first_tick_are_seen(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "huge-pages", tree)
    pools = list(tree.glob("sys/devices/system/node/node*/hugepages/*/nr_hugepages"))
    totals = {pool: pool.read_text() for pool in pools}
    for pool in pools:
        pool.write_text("0\n")
    observer = Observer.of(Host.under(tree))
    before = observer.observe()
    for pool, total in totals.items():
        pool.write_text(total)
    after = observer.observe()
    assert not any(sum((one.hugetlb or {}).values()) for one in before.residency.values())
    assert any(sum((one.hugetlb or {}).values()) for one in after.residency.values())


def test_a_cpu_that_goes_offline_between_two_ticks_is_not_listed_for_its_node(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    observer = Observer.of(Host.under(tree))
    before = observer.observe().machine
    assert observer.observe().machine is before  # not read again without need
    assert before.by_id[3].cpus == CpuSet.of(6, 7)
    (tree / "sys/devices/system/cpu/online").write_text("0-6\n")
    (tree / "sys/devices/system/node/node3/cpulist").write_text("6\n")
    after = observer.observe().machine
    assert after.by_id[3].cpus == CpuSet.of(6)
    assert [one.id for one in after.cpus] == [*range(7)]


def test_a_machine_that_shows_no_nodes_any_more_stays_as_it_was(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    observer = Observer.of(Host.under(tree))
    before = observer.observe().machine
    shutil.rmtree(tree / "sys/devices/system/node")
    assert observer.observe().machine is before


def test_a_capture_without_the_kernels_counters_of_balancing_is_no_failure(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    (tree / "proc/sys/kernel").mkdir(parents=True, exist_ok=True)
    (tree / "proc/sys/kernel/numa_balancing").write_text("1\n")
    (tree / "sys/fs/cgroup/memory.stat").unlink(missing_ok=True)
    states = {one.source: one.state for one in Observer.of(Host.under(tree)).observe().outcomes}
    assert states["numa_balancing"] == "ok"
