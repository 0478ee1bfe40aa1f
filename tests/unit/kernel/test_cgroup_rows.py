"""What a walk writes of each cgroup is decoded to what its files would say."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

import pytest

from made_btf import btf_of, described
from made_rows import BOTH, made_row
from numaudit.kernel.memory.cgroup_layout import cgroup_layout
from numaudit.kernel.memory.cgroup_rows import AllowedSets, CgroupRows, Residents, RowDecoding, RowLayout
from numaudit.kernel.memory.numa_stat import MOVE_ROWS, resident_v2
from numaudit.kernel.tracing.btf import Btf
from numaudit.probes import residency
from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet

NODES = (0, 1, 3)
MASKS = (0b1011, -1, 0b1)
Counters = Mapping[int, Mapping[str, list[int]]]
"""Cgroup id -> row -> counters by node."""


def _layout(kernel: str = "6.12", is_tiered: bool = False) -> RowLayout:
    return RowLayout.of(cgroup_layout(Btf(btf_of(described(kernel))), 4096, is_tiered), nodes=4, cpus=70)


def _walked(
    layout: RowLayout, counters: Counters, found: int = BOTH, unused: Collection[str] = (), masks: Sequence[int] = MASKS
) -> CgroupRows:
    words = array("q")
    for id_, rows in counters.items():
        words.extend(made_row(layout, id_, rows, masks=masks, found=found, unused=unused))
    return CgroupRows(words.tobytes(), layout)


def _how(rows: Iterable[str], hugetlb: BytesByNode | None = None, zeros: Collection[str] = ()) -> RowDecoding:
    return RowDecoding(tuple(rows), NODES, frozenset(zeros), hugetlb)


def _decoded(walked: CgroupRows, how: RowDecoding) -> Mapping[int, Resident]:
    return Residents().decode(walked, how)


def _text(layout: RowLayout, rows: Mapping[str, list[int]]) -> bytes:
    """memory.numa_stat of these counters."""
    lines = []
    for name, values in rows.items():
        unit = 1 if name in MOVE_ROWS else layout.kernel.rows[name].unit
        lines.append(f"{name} " + " ".join(f"N{node}={max(0, values[node]) * unit}" for node in NODES) + "\n")
    return "".join(lines).encode()


def _made_up(layout: RowLayout, random: Random, cgroups: int) -> dict[int, dict[str, list[int]]]:
    names = list(layout.kernel.rows)
    return {id_: {name: [random.randrange(-5, 9999) for _ in range(4)] for name in names} for id_ in range(1, cgroups)}


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.18"])
def test_a_row_is_decoded_to_what_the_file_says(kernel: str) -> None:
    layout = _layout(kernel)
    counters = _made_up(layout, Random(kernel), 50)
    found = _decoded(_walked(layout, counters), _how(layout.kernel.rows))
    assert found == {id_: resident_v2(_text(layout, rows), None) for id_, rows in counters.items()}
    assert all(one.demoted is one.promoted is None for one in found.values())


@pytest.mark.parametrize("kernel", ["6.12", "6.12-arm64", "6.18"])
def test_moves_between_memory_tiers_are_decoded_to_what_the_file_says_in_bytes(kernel: str) -> None:
    layout = _layout(kernel, is_tiered=True)
    assert len(layout.kernel.rows) <= residency.MOST_COLUMNS
    counters = _made_up(layout, Random(kernel), 50)
    found = _decoded(_walked(layout, counters), _how(layout.kernel.rows))
    assert found == {id_: resident_v2(_text(layout, rows), None, 4096) for id_, rows in counters.items()}
    moved = {row: counters[7][row][3] for row in MOVE_ROWS if row in counters[7]}
    assert (found[7].promoted or {})[3] == 4096 * max(0, moved.pop("pgpromote_success"))
    assert (found[7].demoted or {})[3] == 4096 * sum(max(0, pages) for pages in moved.values())
    assert len(moved) == (4 if kernel == "6.18" else 3)


def test_where_nothing_was_moved_yet_the_columns_are_zeros_and_of_an_old_kernel_there_are_none() -> None:
    layout = _layout(is_tiered=True)
    counters = {7: {row: [1, 1, 1, 1] for row in layout.kernel.rows}}
    walked = _walked(layout, counters, unused=MOVE_ROWS)
    zeros = dict.fromkeys(NODES, 0)
    found = _decoded(walked, _how(layout.kernel.rows, zeros=MOVE_ROWS))[7]
    assert (found.demoted, found.promoted) == (zeros, zeros)
    found = _decoded(walked, _how(layout.kernel.rows, zeros=set(MOVE_ROWS) - {"pgdemote_direct"}))[7]
    assert (found.demoted, found.promoted) == (dict.fromkeys(NODES, 4096), zeros)
    found = _decoded(walked, _how(set(layout.kernel.rows) - set(MOVE_ROWS)))[7]
    assert (found.demoted, found.promoted) == (None, None)


def test_what_the_kernel_does_not_count_is_none_and_what_is_0_everywhere_is_0() -> None:
    layout = _layout()
    counters = {7: {"anon": [1, 2, 3, 4], "shmem": [9, 9, 9, 9], "file": [5, 5, 5, 5]}}
    found = _decoded(_walked(layout, counters, unused=["shmem"]), _how(["anon", "shmem", "file"], {}, ["shmem"]))[7]
    assert (found.kernel, found.mapped, found.hugetlb) == (None, None, {})
    assert (found.anon, found.shmem) == ({0: 4096, 1: 8192, 3: 16384}, {0: 0, 1: 0, 3: 0})
    assert found.file == {0: 20480, 1: 20480, 3: 20480}


def test_a_cgroup_without_the_controllers_has_neither_memory_nor_a_cpuset() -> None:
    layout = _layout()
    rows = _walked(layout, {7: {"anon": [1, 1, 1, 1]}}, found=0).rows + _walked(layout, {8: {}}, found=2).rows
    walked = CgroupRows(rows, layout)
    assert _decoded(walked, _how(["anon", "shmem", "file"])) == {}
    assert not walked.has_memory(0)
    assert AllowedSets().decode(walked) == {8: Allowed(NodeSet.parse("0-1,3"), CpuSet.parse("0-64"))}


def test_a_kernel_that_does_not_say_where_its_cpusets_are_shows_none() -> None:
    types = described("6.12")
    del types["structs"]["cpuset"]["members"]["css"]
    layout = RowLayout.of(cgroup_layout(Btf(btf_of(types)), 4096), nodes=4, cpus=70)
    assert (layout.node_words, layout.cpu_words) == (0, 0)
    assert AllowedSets().decode(_walked(layout, {7: {}}, found=1, masks=())) == {}


def test_walk_after_walk_gives_what_each_alone_gives_and_the_same_values_for_unchanged_rows() -> None:
    layout, random, decode = _layout(), Random(1), Residents()
    how = _how(layout.kernel.rows)
    counters = _made_up(layout, random, 40)
    for step in range(60):
        found = BOTH if step % 7 else 0
        walked = _walked(layout, counters, found)
        before = decode.decode(walked, how)
        assert before == _decoded(walked, how)
        assert decode.decode(_walked(layout, counters, found), how) is before
        changed = random.sample(sorted(counters), 3)
        for id_ in changed:
            counters[id_]["anon"] = [random.randrange(999) for _ in range(4)]
        again = decode.decode(_walked(layout, counters, found), how)
        assert all(again[id_] is one for id_, one in before.items() if id_ not in changed)
        if step % 3:
            del counters[random.choice(sorted(counters))]
        if step % 4:
            counters[1000 + step] = {"file": [step] * 4}


def test_cpusets_of_walk_after_walk_are_those_of_the_newest() -> None:
    layout, decode = _layout(), AllowedSets()
    first = decode.decode(_walked(layout, {7: {}, 8: {}}))
    assert decode.decode(_walked(layout, {7: {"anon": [1, 1, 1, 1]}, 8: {}})) is first
    narrow = decode.decode(_walked(layout, {7: {}, 8: {}}, masks=(0b1, 0b1, 0)))
    assert narrow[8] == Allowed(NodeSet.of(0), CpuSet.of(0))
    assert decode.decode(_walked(layout, {8: {}})).keys() == {8}
    assert decode.decode(_walked(layout, {8: {}}, found=1)) == {}


def test_zeros_that_are_proven_meanwhile_are_decoded_again() -> None:
    layout, decode = _layout(), Residents()
    counters = {7: {"shmem": [1, 1, 1, 1], "file": [1, 1, 1, 1]}}
    rows = ("anon", "shmem", "file")
    unproven = decode.decode(_walked(layout, counters, unused=["shmem"]), _how(rows, zeros=["shmem"]))
    assert unproven[7].shmem == dict.fromkeys(NODES, 0)
    assert decode.decode(_walked(layout, counters), _how(rows))[7].shmem == dict.fromkeys(NODES, 4096)
