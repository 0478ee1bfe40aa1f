"""What the BPF programs count: map entries into values, the table of memory blocks, and scan passes that make room."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up.plans import faults_and_time
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory import physical
from numaudit.kernel.memory.physical import MemoryBlocks
from numaudit.kernel.tracing.bpf_map import MapEntries
from numaudit.probes import cpu_time, page_alloc
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.probes.cpu_time import CpuTimes
from numaudit.probes.hint_faults import HintFaultCounts, PassUse, ScanPass, passes_to_evict
from numaudit.probes.migrations import MigrationCounts
from numaudit.probes.page_alloc import Allocations
from numaudit.probes.probe import Reading
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.snapshot.counted import HintFault, TaskMove
from numaudit.topology.nodeset import NodeSet

KIB = 1024
MIB = 1024 * KIB
WEB, DATABASE = 4711, (7 << 32) + 12


def _allocations(*rows: tuple[int, int, int, int, tuple[int, ...]]) -> MapEntries:
    """Rows of cgroup, CPU's node, page's node, order, bytes of each CPU."""
    keys = b"".join(struct.pack("=QHHI", *row[:4]) for row in rows)
    values = b"".join(struct.pack(f"={len(row[4])}Q", *row[4]) for row in rows)
    return MapEntries(keys, values)


def test_bytes_are_summed_over_orders_and_cpus_by_the_pair_of_nodes() -> None:
    chunks = [
        _allocations((WEB, 0, 0, 0, (4096, 8192)), (WEB, 0, 0, 9, (2 * MIB, 0))),
        _allocations((WEB, 0, 1, 0, (0, 4096)), (DATABASE, 1, 1, 0, (0, 40960))),
    ]
    found = page_alloc.decode(chunks, [], cpus=2)
    assert found.by_node == {WEB: {(0, 0): 2 * MIB + 12288, (0, 1): 4096}, DATABASE: {(1, 1): 40960}}
    assert found.by_order == {WEB: {0: 16384, 9: 2 * MIB}, DATABASE: {0: 40960}}


def test_a_page_of_no_or_of_two_nodes_is_of_unknown_node() -> None:
    chunk = _allocations((WEB, 0, 0xFFFF, 0, (4096,)), (WEB, 0, 0xFFFE, 0, (8192,)))
    assert page_alloc.decode([chunk], [], cpus=1).by_node == {WEB: {(0, None): 12288}}


def test_failed_allocations_are_counted_by_cgroup() -> None:
    failed = MapEntries(struct.pack("=QQ", WEB, DATABASE), struct.pack("=4Q", 1, 2, 3, 4))
    assert page_alloc.decode([], [failed], cpus=2).failed == {WEB: 3, DATABASE: 7}


def test_two_reads_of_allocations_give_what_came_between() -> None:
    earlier = Allocations({WEB: {(0, 0): 10, (0, 1): 5}}, {WEB: {0: 15}}, {WEB: 1}, lost={"map-full": 2, "busy": 1})
    later = Allocations(
        {WEB: {(0, 0): 30, (0, 1): 5}, DATABASE: {(1, 1): 7}},
        {WEB: {0: 35}, DATABASE: {3: 7}},
        {WEB: 4},
        lost={"map-full": 5, "busy": 1},
    )
    assert later.since(earlier) == Allocations(
        {WEB: {(0, 0): 20}, DATABASE: {(1, 1): 7}},
        {WEB: {0: 20}, DATABASE: {3: 7}},
        {WEB: 3},
        lost={"map-full": 3, "busy": 0},
    )


def test_cpu_time_is_summed_over_cpus_by_node() -> None:
    keys = struct.pack("=6Q", WEB, 0, WEB, 1, DATABASE, 1)
    values = struct.pack("=6Q", 100, 23, 5, 0, 0, 9)
    assert cpu_time.decode([MapEntries(keys, values)], cpus=2).by_node == {WEB: {0: 123, 1: 5}, DATABASE: {1: 9}}


def test_two_reads_of_cpu_time_give_what_came_between() -> None:
    earlier = CpuTimes({WEB: {0: 100, 1: 1}})
    later = CpuTimes({WEB: {0: 150, 1: 1}, DATABASE: {1: 8}}, lost={"map-full": 1})
    assert later.since(earlier) == CpuTimes({WEB: {0: 50}, DATABASE: {1: 8}}, lost={"map-full": 1})


def test_a_counter_that_fell_was_started_again() -> None:
    assert CpuTimes({WEB: {0: 30}}).since(CpuTimes({WEB: {0: 100}})).by_node == {WEB: {0: 30}}


rows = st.dictionaries(st.integers(0, 3), st.dictionaries(st.integers(0, 3), st.integers(1, 1 << 50), min_size=1))


@given(rows, rows)
def test_earlier_plus_added_is_later(earlier: dict[int, dict[int, int]], more: dict[int, dict[int, int]]) -> None:
    later = {cgroup: dict(row) for cgroup, row in earlier.items()}
    for cgroup, row in more.items():
        for key, value in row.items():
            mine = later.setdefault(cgroup, {})
            mine[key] = mine.get(key, 0) + value
    assert CpuTimes(later).since(CpuTimes(earlier)).by_node == more


MOVE = TaskMove("balancer", 0, 1)
FAULT = HintFault(0, 1, 0)


@pytest.mark.parametrize(
    ("earlier", "later", "events"),
    [
        (
            Allocations({WEB: {(0, 0): 8192}}, {WEB: {0: 8192}}, {WEB: 1}),
            Allocations({WEB: {(0, 0): 8192 + 3 * MIB}}, {WEB: {0: 8192 + MIB, 9: 2 * MIB}}, {WEB: 4}),
            MIB // os.sysconf("SC_PAGE_SIZE") + 2 * MIB // (os.sysconf("SC_PAGE_SIZE") << 9) + 3,
        ),
        (CpuTimes({WEB: {0: 5}}, 100, lost={"busy": 1}), CpuTimes({WEB: {0: 9}}, 130, lost={"busy": 9}), 30),
        (AccessCounts(faults_and_time(), switches=7), AccessCounts(faults_and_time(), switches=9), 2),
        (AccessCounts(faults_and_time()), AccessCounts(faults_and_time()), None),
        (
            HintFaultCounts({WEB: {FAULT: 10}}, {WEB: {FAULT: 20}}, lost={"map-full": 1}),
            HintFaultCounts({WEB: {FAULT: 12}}, {WEB: {FAULT: 1044}}, lost={"map-full": 4}),
            5,
        ),
        (
            MigrationCounts({WEB: {"damon": 1}}, {WEB: {"damon": 2}}, {WEB: {MOVE: 3}}),
            MigrationCounts({WEB: {"damon": 11}}, {WEB: {"damon": 102}}, {WEB: {MOVE: 1003}}, {WEB: {(0, 1): 9}}),
            1110,
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_events_between_two_reads_are_counted_without_the_other_tables(
    earlier: Reading, later: Reading, events: int | None
) -> None:
    assert later.events_since(earlier) == later.since(earlier).events == events


def _tree(root: Path, **nodes: str) -> Host:
    """A sysfs with memory blocks of 128 MiB: node -> block numbers."""
    memory = root / "sys/devices/system/memory"
    memory.mkdir(parents=True)
    (memory / "block_size_bytes").write_text("8000000\n")
    for node, blocks in nodes.items():
        folder = root / "sys/devices/system/node" / node
        folder.mkdir(parents=True)
        for block in blocks.split():
            (memory / f"memory{block}").mkdir(exist_ok=True)
            (folder / f"memory{block}").symlink_to(f"../../memory/memory{block}")
        (folder / "memory_failure").mkdir()
    return Host.under(root)


def test_memory_blocks_are_read_from_the_nodes_links(tmp_path: Path) -> None:
    blocks = physical.read(_tree(tmp_path, node0="0 1 2", node2="2 3 40"))
    assert blocks.block_size == 128 * MIB
    assert blocks.count == 41
    assert blocks.nodes_of_block[0] == NodeSet.of(0)
    assert blocks.nodes_of_block[2] == NodeSet.of(0, 2)
    assert 4 not in blocks.nodes_of_block


def test_the_table_marks_blocks_of_two_nodes_and_of_none(tmp_path: Path) -> None:
    blocks = physical.read(_tree(tmp_path, node0="0 1", node1="1 3"))
    assert page_alloc.node_table(blocks, 6) == [0, 0xFFFE, 0xFFFF, 1, 0xFFFF, 0xFFFF]


def test_blocks_beyond_the_table_are_left_out(tmp_path: Path) -> None:
    blocks = physical.read(_tree(tmp_path, node0="0 7"))
    assert page_alloc.node_table(blocks, 2) == [0, 0xFFFF]


def test_maps_are_sized_by_cgroups_and_nodes_and_the_table_leaves_room_to_plug_in(tmp_path: Path) -> None:
    request = page_alloc.request(_tree(tmp_path, node0="0 1", node1="2 3"), cgroups=100, nodes=2)
    assert request.entries == {"page_alloc_bytes": 800, "page_alloc_failed": 100, "page_alloc_node_of_block": 8}
    assert request.numbers["PAGE_ALLOC_BLOCK_SHIFT"] == 15  # 128 MiB are 2^15 pages
    assert cpu_time.request(Host(), cgroups=100, nodes=2).entries == {"cpu_time_ns": 200}


def test_a_kernel_without_memory_blocks_is_a_refusal_that_says_so(tmp_path: Path) -> None:
    host = _tree(tmp_path, node0="0")
    (tmp_path / "sys/devices/system/memory/block_size_bytes").unlink()
    with pytest.raises(ProbeRefusal, match="CONFIG_MEMORY_HOTPLUG") as refusal:
        page_alloc.request(host, cgroups=1, nodes=1)
    assert refusal.value.reason is Reason.NO_MEMORY_BLOCKS


def test_nodes_without_any_block_are_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no memory block"):
        physical.read(_tree(tmp_path, node0=""))


@pytest.mark.parametrize("text", ["", "0", "0x8000000", "8000001", "-8", "80 00"])
def test_another_block_size_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="power of two"):
        physical.parse_block_size(text)


def test_a_huge_block_is_two_gigabytes() -> None:
    assert physical.parse_block_size("80000000\n") == 2048 * MIB
    assert MemoryBlocks(2048 * MIB, {}).count == 0


LOCAL = HintFault(0, 0, 8)
Counts = Mapping[tuple[int, int], int] | Mapping[tuple[int, ...], int]


def leaving(before: Counts, now: Counts, ended: Collection[int] = (), is_full: bool = False) -> set[tuple[int, ...]]:
    """Pages by process, its image where it is not the first, and pass, at two readings."""
    then, this = (
        {
            ScanPass(one[0], one[1] if len(one) == 3 else 1, one[-1]): PassUse({LOCAL: pages})
            for one, pages in reading.items()
        }
        for reading in (before, now)
    )
    found = passes_to_evict(this, then, lambda process: process in ended, is_full)
    return {(process, number) if image == 1 else (process, image, number) for process, image, number in found}


def test_only_the_newest_pass_of_each_process_stays_in_the_map() -> None:
    now = {(100, 4): 9, (100, 5): 9, (100, 6): 1, (101, 2): 9}
    assert leaving({(100, 4): 9}, now) == {(100, 4), (100, 5)}


def test_passes_of_a_process_that_has_ended_leave_once_nothing_is_added() -> None:
    assert leaving({(100, 4): 8}, {(100, 4): 9}, ended=[100]) == set()
    assert leaving({(100, 4): 9}, {(100, 4): 9}, ended=[100]) == {(100, 4)}
    assert leaving({(100, 4): 9}, {(100, 4): 9}) == set(), "its pass goes on"


def test_a_full_map_makes_room_by_passes_of_which_nothing_new_was_seen() -> None:
    before, now = {(100, 4): 9, (101, 4): 8}, {(100, 4): 9, (101, 4): 9, (102, 4): 9}
    assert leaving(before, now, is_full=True) == {(100, 4)}


def test_passes_of_a_program_that_a_process_has_left_behind_make_room_for_those_of_the_next() -> None:
    assert leaving({(100, 8): 9}, {(100, 8): 9, (100, 2, 0): 5, (100, 2, 1): 2}) == {(100, 8), (100, 2, 0)}


def test_passes_of_an_older_process_make_room_for_those_of_the_next_one_of_its_id() -> None:
    before, now = {(100, 7): 9, (100, 8): 9}, {(100, 8): 9, (100, 0): 5, (100, 1): 2}
    assert leaving(before, now) == {(100, 8), (100, 0)}


def test_a_late_fault_of_the_pass_before_takes_nothing_from_the_one_that_goes_on() -> None:
    assert leaving({(100, 8): 9}, {(100, 8): 9, (100, 7): 1}) == {(100, 7)}
