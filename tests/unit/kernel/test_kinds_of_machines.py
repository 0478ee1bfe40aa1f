"""Every kind of machine that sysfs shows, hostile and half-written ones too: what is read, and what is said."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from hosts.sysfs_tree import SysfsTree
from hosts.tree_copies import lent
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory import tiers
from numaudit.kernel.node import read_counters, read_huge_page_pools, read_machine
from numaudit.kubelet.sources.polled import read_whole_machine
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.topology.nodeset import CpuSet, NodeSet


@dataclass(frozen=True)
class Kind:
    """Files of a machine, as its kernel writes them, and what a reader of them must say."""

    nodes: Mapping[int, Mapping[str, str]]
    cpus: Mapping[int, str | None]
    """Node -> its CPUs; None = not known."""
    online: str | None = None
    """Text of cpu/online; None = there is no such file."""
    node_list: str | None = None
    cpu_files: Mapping[str, str] = field(default_factory=dict)
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    problem: str | None = None
    """Of the CPUs."""
    distance_problem: str | None = None


_GPUS = {250 + one: {"cpulist": "\n", "distance": f"80 80 {'80 ' * one}10 {'80 ' * (5 - one)}\n"} for one in range(6)}
KINDS = {
    "lists": Kind(
        {0: {"cpulist": "0-1\n", "distance": "10 21\n"}, 1: {"cpulist": "2-3\n", "distance": "21 10\n"}},
        {0: "0-1", 1: "2-3"}, "0-3\n", "0-1\n", distances={0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}},
    ),
    "only maps, as before Linux 2.6.26": Kind(
        {0: {"cpumap": "00000000,0000000f\n"}, 1: {"cpumap": "00000001,000000f0\n"}}, {0: "0-3", 1: "4-7,32"},
    ),
    "lists that end with a NUL byte, as of Linux 5.15-rc1": Kind(
        {0: {"cpulist": "0-31\n\0"}, 1: {"cpulist": "32-63\n\0"}, 2: {"cpulist": "\n\0"}},
        {0: "0-31", 1: "32-63", 2: ""}, "0-63\n",
    ),
    "lists that were cut short to nothing, beside maps": Kind(
        {0: {"cpulist": "", "cpumap": "3\n"}, 1: {"cpulist": "", "cpumap": "c\n"}}, {0: "0-1", 1: "2-3"}, "0-3\n",
    ),
    "only links below the nodes": Kind({0: {"cpu0/": "", "cpu2/": ""}, 1: {"cpu1/": ""}}, {0: "0,2", 1: "1"}, "0-2\n"),
    "only links below the CPUs": Kind(
        {0: {}, 1: {}}, {0: "0", 1: "1"}, "0-1\n", cpu_files={"cpu0/node0/": "", "cpu1/node1/": ""},
    ),
    "an unreadable node beside nodes with every online CPU": Kind(
        {0: {"cpulist": "0-3\n"}, 1: {"cpulist": ""}}, {0: "0-3", 1: ""}, "0-3\n",
    ),
    "an unreadable node of a machine with more CPUs": Kind(
        {0: {"cpulist": "0-3\n"}, 1: {"cpulist": "all\n", "cpumap": "0x0f\n"}}, {0: "0-3", 1: None}, "0-7\n",
        problem="the CPUs of node 1 cannot be read (cpulist, cpumap, links); CPUs 4-7 are on no node",
    ),
    "no list at all": Kind(
        {0: {}, 1: {}}, {0: None, 1: None}, problem="the CPUs of nodes 0-1 cannot be read (cpulist, cpumap, links)",
    ),
    "a list that was cut short": Kind(
        {0: {"cpulist": "0-3"}, 1: {"cpulist": "4-"}, 2: {"cpulist": "8-11\n"}}, {0: "0-3", 1: None, 2: "8-11"},
        problem="the CPUs of node 1 cannot be read (cpulist, cpumap, links)",
    ),
    "a CPU that no node lists": Kind(
        {0: {"cpulist": "0-3\n"}}, {0: "0-3"}, "0-4\n", problem="CPU 4 is on no node",
    ),
    "offline CPUs in the lists, as before Linux 4.15": Kind(
        {0: {"cpulist": "0-87\n"}, 8: {"cpulist": "88-175\n"}}, {0: "0-15", 8: "88-103"}, "0-15,88-103\n", "0,8\n",
    ),
    "offline CPUs by the file of each, as before Linux 2.6.29": Kind(
        {0: {"cpulist": "0-3\n"}}, {0: "0,2-3"},
        cpu_files={"cpu0/": "", "cpu1/online": "0\n", "cpu2/online": "1\n", "cpu3/online": "1\n"},
    ),
    "a list of online CPUs that was cut short to nothing": Kind({0: {"cpulist": "0-3\n"}}, {0: "0-3"}, ""),
    "ids with gaps and nodes of memory only": Kind(
        {0: {"cpulist": "0-1\n", "distance": "10 28 40\n"}, 2: {"cpulist": "\n", "distance": "28 10 35\n"},
         5: {"cpulist": "2-3\n", "distance": "40 35 10\n"}},
        {0: "0-1", 2: "", 5: "2-3"}, "0-3\n", "0,2,5\n",
        distances={0: {0: 10, 2: 28, 5: 40}, 2: {0: 28, 2: 10, 5: 35}, 5: {0: 40, 2: 35, 5: 10}},
    ),
    "holes in the numbers of CPUs": Kind({0: {"cpulist": "0,4,8\n"}, 1: {"cpulist": "2,6\n"}}, {0: "0,4,8", 1: "2,6"}),
    "a row with a distance to a node that is offline": Kind(
        {1: {"cpulist": "0\n", "distance": "21 10\n"}}, {1: "0"}, "0\n", "1\n",
        distance_problem="the distances from node 1 cannot be used: 1 node is online, but a row is '21 10'",
    ),
    "eight nodes that all list all CPUs": Kind(
        {one: {"cpulist": "0-7\n"} for one in range(8)}, dict.fromkeys(range(8), "0-7"), "0-7\n",
        problem="CPUs 0-7 are on several nodes at once",
    ),
    "34 nodes of which two have CPUs": Kind(
        {one: {"cpulist": {0: "0-71\n", 1: "72-143\n"}.get(one, "\n")} for one in range(34)},
        {0: "0-71", 1: "72-143"} | dict.fromkeys(range(2, 34), ""), "0-143\n", "0-33\n",
    ),
    "a POWER9 with memory of its GPUs": Kind(
        {0: {"cpulist": "0-87\n", "distance": f"10 40 {'80 ' * 6}\n"},
         8: {"cpulist": "88-175\n", "distance": f"40 10 {'80 ' * 6}\n"}, **_GPUS},
        {0: "0-87", 8: "88-175"} | dict.fromkeys(_GPUS, ""), "0-175\n", "0,8,250-255\n",
        distances={251: {0: 80, 8: 80, 250: 80, 251: 10, 252: 80, 253: 80, 254: 80, 255: 80}},
    ),
}  # fmt: skip


def _host(kind: Kind, root: Path) -> Host:
    tree = SysfsTree(root)
    for node, files in kind.nodes.items():
        tree.system(f"node/node{node}", {"meminfo": f"Node {node} MemTotal: {1024 + node} kB\n", **files})
    tree.system("cpu", kind.cpu_files)
    for folder, text in (("cpu", kind.online), ("node", kind.node_list)):
        if text is not None:
            tree.system(folder, {"online": text})
    return Host(root)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_machine_is_read_as_its_kernel_shows_it(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    machine = read_machine(_host(kind, tmp_path))
    assert {node.id: node.cpus for node in machine.nodes} == {
        node: None if cpus is None else CpuSet.parse(cpus) for node, cpus in kind.cpus.items()
    }
    assert {node.id: node.memory for node in machine.nodes} == {node: (1024 + node) << 10 for node in kind.nodes}
    assert {node: dict(machine.by_id[node].distances) for node in kind.distances} == kind.distances
    assert (machine.cpu_problem, machine.distance_problem) == (kind.problem, kind.distance_problem)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.problem])
def test_a_machine_with_cpus_on_unknown_nodes_is_compared_with_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="so nothing can be compared with this machine"):
        read_whole_machine(_host(KINDS[name], tmp_path))


def test_the_nodes_of_cpus_are_unknown_as_soon_as_one_of_them_may_be_anywhere(tmp_path: Path) -> None:
    machine = read_machine(_host(KINDS["an unreadable node of a machine with more CPUs"], tmp_path))
    assert machine.nodes_of_cpus(CpuSet.parse("0-3")) == NodeSet.of(0)
    assert machine.nodes_of_cpus(CpuSet.parse("3-4")) is None
    assert machine.nodes_of_cpus(CpuSet.of(99)) is None
    assert machine.nodes_of_cpus(CpuSet()) == NodeSet()


def test_the_nodes_of_cpus_that_several_nodes_list_are_unknown(tmp_path: Path) -> None:
    machine = read_machine(_host(KINDS["eight nodes that all list all CPUs"], tmp_path))
    assert machine.nodes_of_cpus(CpuSet.of(0)) is None
    assert machine.node_of_cpu == {}


def test_a_kernel_without_numa_is_refused_as_nothing_can_be_misplaced_there(tmp_path: Path) -> None:
    SysfsTree(tmp_path).system("cpu", {"online": "0-3\n"})
    with pytest.raises(Unavailable, match="built without NUMA"):
        read_machine(Host(tmp_path))


MIB = 1 << 20
_NODE = "sys/devices/system/node/node1"
_POOL = f"{_NODE}/hugepages/hugepages-2048kB"


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


BROKEN = [os.unlink, _directory, _loop, *map(_text, ("", "-1\n", "16 17\n"))]


@pytest.mark.parametrize("name", ["hugepages-0kB", "hugepages-02048kB", "hugepages--4kB", "hugepages-2MB"])
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
