"""The machine, its nodes and the size of a page as sysfs shows them, and files that are missing or broken."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.engine.collectors.of_host import to_node_memory
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory import physical
from numaudit.kernel.memory.node_cpus import online_nodes, parse_map
from numaudit.kernel.node import (
    NodeCounters,
    parse_distances,
    parse_key_values,
    parse_meminfo,
    read_caches,
    read_counters,
    read_huge_page_pools,
    read_machine,
)
from numaudit.topology.machine import Cache, HugePagePool, HugePages
from numaudit.topology.nodeset import CpuSet, NodeSet

CapturedHost = Callable[[str], Host]
MIB = 1 << 20


def _host(folder: Path, **files: str) -> Host:
    """A host of one node with these files of it; `__` stands for a slash."""
    node = folder / "sys/devices/system/node/node0"
    for name, text in files.items():
        path = node / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(folder)


def test_eight_nodes_have_their_distances_sockets_and_caches(captured: CapturedHost) -> None:
    machine = read_machine(captured("eight-nodes"))
    assert str(machine.online) == "0-7"
    assert list(machine.by_id[0].distances.items()) == list(enumerate([10, 11, 12, 12, 32, 32, 32, 32]))
    assert list(machine.by_id[5].distances.values()) == [32, 32, 32, 32, 11, 10, 12, 12]
    assert [{cpu.socket for cpu in machine.cpus if cpu.node == node} for node in range(8)] == [{0}] * 4 + [{1}] * 4
    cpu = machine.cpus[21]
    assert (cpu.id, cpu.node, cpu.core, cpu.siblings, cpu.l3_cache) == (21, 5, 10, CpuSet.of(20, 21), 5)


def test_shared_caches_are_read_once_with_their_size_where_there_is_one(tmp_path: Path) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text("0-1\n")
    for cpu in (0, 1):
        for index, files in enumerate(
            (
                {"level": "1", "shared_cpu_list": str(cpu), "size": "32K"},
                {"level": "2", "shared_cpu_list": str(cpu)},
                {"level": "3", "shared_cpu_list": "0-1", "size": "32768K"},
                {"level": "3", "shared_cpu_list": "none"},
            )
        ):
            folder = cpus / f"cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(f"{text}\n")
    assert read_caches(Host(tmp_path)) == (
        Cache(3, CpuSet.of(0, 1), 32 * MIB), Cache(2, CpuSet.of(0)), Cache(2, CpuSet.of(1)),
    )  # fmt: skip
    assert read_caches(Host(tmp_path / "nothing")) == ()


def test_four_real_nodes_are_read_as_they_were_set_up(captured: CapturedHost) -> None:
    machine = read_machine(captured("kubernetes-four-nodes"))
    assert [node.memory for node in machine.nodes] == [kib * 1024 for kib in (1030452, 965828, 993836, 1029624)]
    assert machine.nodes_of_cpus(CpuSet.of(1, 6)) == NodeSet.of(0, 3)
    assert machine.by_id[2].huge_pages == (HugePages(2 * MIB, 16, 8, 0), HugePages(1 << 30, 0, 0, 0))


def test_a_node_may_have_no_cpus_or_no_memory_and_ids_may_have_gaps(captured: CapturedHost) -> None:
    machine = read_machine(captured("memory-only-node"))
    assert str(machine.online) == "0,2-3,5"
    assert str(machine.possible) == "0-7"
    assert str(machine.with_cpus) == "0,3,5"
    assert str(machine.with_memory) == "0,2,5"
    assert machine.by_id[3].memory == 0
    assert machine.by_id[2].cpus == CpuSet()


def test_the_pools_of_the_machine_say_what_is_reserved_and_what_may_be_added(captured: CapturedHost) -> None:
    assert read_huge_page_pools(captured("hugepages-short")) == (
        HugePagePool(2 * MIB, reserved=0, overcommit=0),
        HugePagePool(1 << 30, reserved=0, overcommit=0),
    )
    assert read_huge_page_pools(captured("kubernetes-four-nodes")) == ()


def test_a_pool_that_is_half_written_is_not_known_in_part(tmp_path: Path) -> None:
    pools = tmp_path / "sys/kernel/mm/hugepages"
    for name, text in (("2048kB/resv_hugepages", "-1\n"), ("64kB/resv_hugepages", "7\n"), ("xkB/resv_hugepages", "9")):
        file = pools / f"hugepages-{name}"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (pools / "hugepages-64kB/nr_overcommit_hugepages").mkdir()
    assert read_huge_page_pools(Host(tmp_path)) == (HugePagePool(64 << 10, 7, None), HugePagePool(2 * MIB, None, None))


def test_a_kernel_without_numa_is_told_apart_from_one_node(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with pytest.raises(Unavailable, match=r"shows no node.*built without NUMA"):
        read_machine(Host(tmp_path))


def test_the_folders_tell_the_nodes_when_the_list_is_missing_or_broken(tmp_path: Path) -> None:
    host = _host(tmp_path, meminfo="Node 0 MemTotal: 1024 kB\n")
    assert online_nodes(host) == NodeSet.of(0)
    (host.nodes / "online").write_text("zero\n")
    (host.nodes / "node12").mkdir()
    (host.nodes / "node5000").mkdir()
    (host.nodes / "nodes").mkdir()
    assert online_nodes(host) == NodeSet.of(0, 12)


def test_memory_that_cannot_be_read_is_not_known_rather_than_none(tmp_path: Path) -> None:
    host = _host(tmp_path, cpulist="0\n")
    (host.nodes / "node0/meminfo").mkdir()
    machine = read_machine(host)
    assert machine.by_id[0].memory is None
    assert machine.with_memory == NodeSet()
    (counters,) = read_counters(host, machine.online)
    assert counters == NodeCounters(0, None, None, ())


def test_a_broken_file_costs_its_own_fact_only(tmp_path: Path) -> None:
    host = _host(
        tmp_path,
        meminfo="Node 0 MemTotal: 2048 kB\n",
        cpulist="\x00\xff",
        distance="10 20 30\n",
        **{"hugepages__hugepages-2048kB__nr_hugepages": "many\n", "hugepages__hugepages-64kB__nr_hugepages": "4\n"},
    )
    (node,) = read_machine(host).nodes
    assert (node.memory, node.cpus, dict(node.distances)) == (2 * MIB, None, {})
    assert node.huge_pages == (HugePages(64 << 10, 4, None, None),)


def test_an_offline_cpu_is_in_no_list(tmp_path: Path) -> None:
    host = _host(tmp_path, meminfo="Node 0 MemTotal: 2048 kB\n", cpulist="0-1,3\n")
    (tmp_path / "sys/devices/system/cpu").mkdir()
    (host.cpus / "online").write_text("0-1,3\n")
    assert [(cpu.id, cpu.node, cpu.core) for cpu in read_machine(host).cpus] == [
        (0, 0, None),
        (1, 0, None),
        (3, 0, None),
    ]


def test_meminfo_is_in_bytes_and_huge_page_counts_stay_pages(captured: CapturedHost) -> None:
    (first, *_) = read_counters(captured("kubernetes-four-nodes"), NodeSet.of(0))
    assert first.meminfo is not None
    assert first.meminfo["MemTotal"] == 1030452 << 10
    assert first.meminfo["Active(anon)"] == 274860 << 10
    assert first.meminfo["HugePages_Total"] == 16


def test_a_meminfo_line_of_another_form_is_left_out() -> None:
    text = "Node 0 MemTotal: 1 kB\nNode 0 Future: 7 pages\nMemFree: 3 kB\n\nNode 1 Odd\nNode 0 Shmem: -1 kB"
    assert parse_meminfo(text) == {"MemTotal": 1024}


def test_numastat_is_in_pages_and_becomes_bytes_in_the_report(captured: CapturedHost) -> None:
    host = captured("kubernetes-four-nodes")
    (first,) = read_counters(host, NodeSet.of(0))
    assert first.numastat is not None
    assert first.numastat["other_node"] == 5145
    memory = to_node_memory(first, 4096)
    assert memory.numastat is not None
    assert memory.numastat["other_node"] == 5145 * 4096


def test_a_nodes_file_bytes_are_without_its_shared_memory(captured: CapturedHost) -> None:
    (first,) = read_counters(captured("kubernetes-four-nodes"), NodeSet.of(0))
    memory = to_node_memory(first, 4096)
    assert memory.resident.shmem == {0: 3012 << 10}
    assert memory.resident.file == {0: (65140 - 3012) << 10}
    assert memory.resident.kernel == {0: (1700 + 1484 + 0 + 9252) << 10}
    assert memory.resident.hugetlb == {0: 0}


def test_huge_pages_in_use_are_those_that_are_not_free(captured: CapturedHost) -> None:
    zero, one = read_counters(captured("huge-pages"), NodeSet.of(0, 1))
    assert to_node_memory(zero, 4096).resident.hugetlb == {0: 64 * 2 * MIB + (1 << 30)}
    assert to_node_memory(one, 4096).resident.hugetlb == {1: 40 * 2 * MIB}


def test_huge_pages_with_an_unknown_free_count_are_not_counted_as_none() -> None:
    counters = NodeCounters(0, {"MemTotal": 1}, None, (HugePages(2 * MIB, 4, None, None),))
    assert to_node_memory(counters, 4096).resident.hugetlb is None


@given(st.text(max_size=200))
def test_any_meminfo_text_is_read(text: str) -> None:
    assert all(value >= 0 for value in parse_meminfo(text).values())


@given(st.dictionaries(st.from_regex(r"[A-Za-z_()]{1,20}", fullmatch=True), st.integers(0, 1 << 50), max_size=8))
def test_any_meminfo_values_come_back(values: dict[str, int]) -> None:
    text = "".join(f"Node 3 {key + ':':<15} {value:>8} kB\n" for key, value in values.items())
    assert parse_meminfo(text) == {key: value * 1024 for key, value in values.items()}


@given(st.text(max_size=200))
def test_any_counter_text_is_read(text: str) -> None:
    assert all(value >= 0 for value in parse_key_values(text).values())


@given(st.text(alphabet="0123456789 -\n٣x", max_size=60), st.integers(0, 15))
def test_any_distance_text_is_read_or_refused(text: str, mask: int) -> None:
    nodes = NodeSet(mask)
    try:
        distances = parse_distances(text, nodes)
    except ParseError:
        return
    assert list(distances) == list(nodes)


ANON = 1_000_000


def _meminfo(bytes_: int) -> str:
    return f"MemTotal:       65000000 kB\nAnonPages:      {bytes_ // 1024} kB\nMapped:           1000 kB\n"


def _vmstat(pages: int) -> str:
    return f"nr_free_pages 4000\nnr_anon_pages {pages}\nnr_mapped 1000\n"


@pytest.mark.parametrize("size", [4096, 16384, 65536])
def test_the_same_memory_in_bytes_and_in_pages_gives_the_size_of_a_page(size: int) -> None:
    assert physical.parse_page_size(_meminfo(ANON * size), _vmstat(ANON)) == size


def test_memory_that_grew_between_the_two_readings_changes_nothing() -> None:
    assert physical.parse_page_size(_meminfo(ANON * 65536), _vmstat(ANON * 3 // 2)) == 65536


@pytest.mark.parametrize(
    ("meminfo", "vmstat"),
    [("", _vmstat(ANON)), (_meminfo(ANON), ""), (_meminfo(0), _vmstat(0)), ("AnonPages: x kB\n", _vmstat(ANON))],
)
def test_counters_that_say_nothing_are_refused(meminfo: str, vmstat: str) -> None:
    with pytest.raises(ParseError, match=r"nr_anon_pages|AnonPages"):
        physical.parse_page_size(meminfo, vmstat)


def test_this_host_has_the_page_size_of_this_process() -> None:
    assert physical.read_page_size(Host()) == mmap.PAGESIZE


def test_a_captured_machine_has_the_page_size_of_its_own_kernel(tmp_path: Path) -> None:
    for name in ("proc", "sys/devices/system/node/node0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(_meminfo(ANON * 65536))
    (tmp_path / "proc/vmstat").write_text(_vmstat(ANON))
    assert read_machine(Host.under(tmp_path)).page_size == 65536


def test_a_tree_without_counters_has_small_pages(fixtures: Path) -> None:
    assert physical.read_page_size(Host.under(fixtures / "cgroup-v1")) == 4096


@given(meminfo=st.text(max_size=200), vmstat=st.text(max_size=200))
def test_any_text_is_a_page_size_or_refused(meminfo: str, vmstat: str) -> None:
    with suppress(ParseError):
        assert physical.parse_page_size(meminfo, vmstat) in physical.SIZES


def test_a_map_of_cpus_has_as_many_words_as_the_most_cpus_fill() -> None:
    words = CpuSet.limit // 32
    assert parse_map("0," * (words - 1) + "3") == CpuSet.of(0, 1)
    with pytest.raises(ParseError, match="not a bitmask"):
        parse_map("0," * words + "3")
