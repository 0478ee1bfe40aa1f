"""The observer: what one tick joins."""

from __future__ import annotations

import shutil
from pathlib import Path

from numaudit.kernel.host import Host
from numaudit.observer import Observer


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


def test_a_capture_without_the_kernels_counters_of_balancing_is_no_failure(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    (tree / "proc/sys/kernel").mkdir(parents=True, exist_ok=True)
    (tree / "proc/sys/kernel/numa_balancing").write_text("1\n")
    (tree / "sys/fs/cgroup/memory.stat").unlink(missing_ok=True)
    states = {one.source: one.state for one in Observer.of(Host.under(tree)).observe().outcomes}
    assert states["numa_balancing"] == "ok"
