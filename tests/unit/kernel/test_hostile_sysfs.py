"""Hostile and half-written sysfs trees of huge pages, memory tiers and HMAT: a report is made of each of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.kernel.memory import tiers
from numaudit.kernel.node import read_counters, read_huge_page_pools, read_machine
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.topology.nodeset import NodeSet

MIB = 1 << 20
_NODE = "sys/devices/system/node/node1"
_POOL = f"{_NODE}/hugepages/hugepages-2048kB"
_TIERS = "sys/devices/virtual/memory_tiering"


def _report(tree: Path) -> Report:
    return build(Observer.of(Host.under(tree)).observe())


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def _text(text: str) -> Callable[[Path], None]:
    return lambda file: _write(file, text)


@pytest.fixture
def tree() -> Iterator[Path]:
    with lent(FIXTURES / "hugepages-short") as copy:
        yield copy


@pytest.fixture
def tiered() -> Iterator[Path]:
    with lent(FIXTURES / "tiered") as copy:
        yield copy


BROKEN = [os.unlink, _directory, _loop, *map(_text, ("", "\n", "-1\n", "0x10\n", "١٦\n", "9" * 400, "16 17\n"))]


@pytest.mark.parametrize(
    "name", ["hugepages-0kB", "hugepages-02048kB", "hugepages-kB", "hugepages--4kB", "hugepages-2MB"]
)
def test_a_folder_of_no_page_size_is_no_pool(tree: Path, name: str) -> None:
    for folder in (f"{_NODE}/hugepages", "sys/kernel/mm/hugepages"):
        for figure in ("nr_hugepages", "free_hugepages", "resv_hugepages"):
            _write(tree / folder / name / figure, "7\n")
    host = Host.under(tree)
    sizes = {2 * MIB, 1024 * MIB}
    assert {pages.page_size for one in read_counters(host, NodeSet.of(1)) for pages in one.huge_pages} == sizes
    assert [pool.page_size for pool in read_huge_page_pools(host)] == sorted(sizes)
    assert [one.name for one in _report(tree).findings] == ["hugepages-short"]


@pytest.mark.parametrize("figure", ["nr_hugepages", "free_hugepages", "surplus_hugepages"])
@pytest.mark.parametrize("damage", BROKEN)
def test_a_pool_with_a_broken_figure_costs_that_figure_only(
    tree: Path, figure: str, damage: Callable[[Path], None]
) -> None:
    damage(tree / _POOL / figure)
    report = _report(tree)
    assert report.memory_manager is not None
    (of_size,) = [one for one in report.memory_manager.huge_pages if one.type == "hugepages-2Mi"]
    pools = {pool.numa_node: pool for pool in of_size.pools}
    assert [pools[node].free_bytes for node in (0, 2, 3)] == [32 * MIB, 16 * MIB, 32 * MIB]
    if figure != "surplus_hugepages":
        assert pools[1].free_bytes is None or not pools[1].total_bytes
        assert "hugepages-short" not in [one.name for one in report.findings]
    else:
        assert pools[1].surplus_bytes is None
        assert [one.name for one in report.findings] == ["hugepages-short"]


def test_more_free_pages_than_there_are_leave_nothing_used_and_nothing_below_0(tree: Path) -> None:
    (tree / _POOL / "free_hugepages").write_text("99\n")
    manager = _report(tree).memory_manager
    assert manager is not None
    assert min(row.others or 0 for row in manager.huge_page_rows()) == 0


@pytest.mark.parametrize("file", ["access1/initiators/read_latency", "access1/initiators/read_bandwidth"])
@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_figure_of_the_firmware_is_not_known(tiered: Path, file: str, damage: Callable[[Path], None]) -> None:
    damage(tiered / _NODE / file)
    speeds = {one.numa_node: one.memory_speed for one in _report(tiered).nodes}
    assert speeds[0] is not None and speeds[0].read_latency_nanoseconds == 100
    own = speeds[1]
    assert own is not None and own.write_latency_nanoseconds == 100
    assert (own.read_latency_nanoseconds is None) == ("latency" in file)
    assert (own.read_bytes_per_second is None) == ("bandwidth" in file)


@pytest.mark.parametrize("damage", BROKEN)
def test_a_tree_with_a_broken_tier_has_unknown_tiers_and_a_report(tiered: Path, damage: Callable[[Path], None]) -> None:
    damage(tiered / _TIERS / "memory_tier135/nodelist")
    report = _report(tiered)
    assert [one.name for one in report.findings if one.name in ("demoted", "demotable")] == []
    assert report.tiering is None or len(report.tiering.tiers) == 1


_TEXTS = st.one_of(st.none(), st.text("0123456789-,x \n", max_size=12), st.integers(0, 1 << 70).map(str))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(
    pages=st.dictionaries(st.from_regex(r"hugepages-[0-9]{0,14}(kB|MB)?", fullmatch=True), _TEXTS, max_size=3),
    speeds=st.dictionaries(st.sampled_from(("read_latency", "write_latency", "read_bandwidth")), _TEXTS, max_size=3),
    access=st.sampled_from(("access0", "access1", "access2")),
)
def test_any_tree_of_huge_pages_and_of_hmat_is_read(
    pages: dict[str, str | None], speeds: dict[str, str | None], access: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Path(folder) / "sys/devices/system/node/node0"
        _write(node / "cpulist", "0-3\n")
        for name, text in pages.items():
            for figure in ("nr_hugepages", "free_hugepages"):
                _write(node / "hugepages" / name / figure, text or "") if text is not None else None
        for name, text in speeds.items():
            _write(node / access / "initiators" / name, text or "")
        host = Host(Path(folder))
        (counters,) = read_counters(host, NodeSet.of(0))
        assert all(one.page_size > 0 and one.total >= 0 for one in counters.huge_pages)
        assert len({one.page_size for one in counters.huge_pages}) == len(counters.huge_pages)
        found = tiers.read_speed(node)
        assert found is None or access != "access2"
        assert read_machine(host).nodes[0].cpus
        shutil.rmtree(node)
