"""What a walk writes of each cgroup is decoded to what its files would say."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from random import Random

import pytest

from made_btf import btf_of, described
from numaudit.kernel.memory.cgroup_layout import cgroup_layout
from numaudit.kernel.memory.cgroup_rows import Residents, RowLayout, Walked
from numaudit.kernel.memory.numa_stat import resident_v2
from numaudit.kernel.tracing.btf import Btf
from numaudit.snapshot import Allowed
from numaudit.topology.nodeset import CpuSet, NodeSet

NODES = (0, 1, 3)
BOTH = 3
Counters = Mapping[int, Mapping[str, list[int]]]
"""Cgroup id -> row -> counters by node."""


def _layout(kernel: str = "6.12") -> RowLayout:
    return RowLayout.of(cgroup_layout(Btf(btf_of(described(kernel))), 4096), nodes=4, cpus=70)


def _rows(layout: RowLayout, counters: Counters, found: int = BOTH) -> bytes:
    words = array("q")
    for id_, rows in counters.items():
        row = [0] * layout.width
        row[:2] = [id_, found]
        row[2:5] = [0b1011, -1, 0b1]
        for name, values in rows.items():
            for node, value in enumerate(values):
                row[layout.counters_at + node * layout.kernel.length + layout.kernel.rows[name].index] = value
        words.extend(row)
    return words.tobytes()


def _text(layout: RowLayout, rows: Mapping[str, list[int]]) -> bytes:
    """memory.numa_stat of these counters."""
    lines = []
    for name, values in rows.items():
        unit = layout.kernel.rows[name].unit
        lines.append(f"{name} " + " ".join(f"N{node}={max(0, values[node]) * unit}" for node in NODES) + "\n")
    return "".join(lines).encode()


def _made_up(layout: RowLayout, random: Random, cgroups: int) -> dict[int, dict[str, list[int]]]:
    names = list(layout.kernel.rows)
    return {id_: {name: [random.randrange(-5, 9999) for _ in range(4)] for name in names} for id_ in range(1, cgroups)}


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.18"])
def test_a_row_is_decoded_to_what_the_file_says(kernel: str) -> None:
    layout = _layout(kernel)
    counters = _made_up(layout, Random(kernel), 50)
    found = Walked(_rows(layout, counters), layout).residents(list(layout.kernel.rows), (), NODES, None)
    assert found == {id_: resident_v2(_text(layout, rows), None) for id_, rows in counters.items()}


def test_what_the_kernel_does_not_count_is_none_and_what_is_0_everywhere_is_0() -> None:
    layout = _layout()
    walked = Walked(_rows(layout, {7: {"anon": [1, 2, 3, 4], "shmem": [9, 9, 9, 9], "file": [5, 5, 5, 5]}}), layout)
    found = walked.residents(["anon", "shmem", "file"], ["shmem"], NODES, {})[7]
    assert (found.kernel, found.mapped, found.hugetlb) == (None, None, {})
    assert (found.anon, found.shmem) == ({0: 4096, 1: 8192, 3: 16384}, {0: 0, 1: 0, 3: 0})
    assert found.file == {0: 20480, 1: 20480, 3: 20480}


def test_a_cgroup_without_the_controllers_has_neither_memory_nor_a_cpuset() -> None:
    layout = _layout()
    walked = Walked(_rows(layout, {7: {"anon": [1, 1, 1, 1]}}, found=0) + _rows(layout, {8: {}}, found=2), layout)
    assert walked.residents(["anon", "shmem", "file"], (), NODES, None) == {}
    assert walked.values("anon", 0) == [0, 0]
    assert walked.allowed.keys() == {8}
    assert walked.allowed[8] == Allowed(NodeSet.parse("0-1,3"), CpuSet.parse("0-64"))


def test_a_kernel_that_does_not_say_where_its_cpusets_are_shows_none() -> None:
    types = described("6.12")
    del types["structs"]["cpuset"]["members"]["css"]
    layout = RowLayout.of(cgroup_layout(Btf(btf_of(types)), 4096), nodes=4, cpus=70)
    assert (layout.node_words, layout.cpu_words) == (0, 0)
    rows = array("q", [7, BOTH, *[0] * (layout.width - 2)])
    assert Walked(rows.tobytes(), layout).allowed == {}


def test_walk_after_walk_gives_what_each_alone_gives_and_the_same_values_for_unchanged_rows() -> None:
    layout, random, decode = _layout(), Random(1), Residents()
    rows = list(layout.kernel.rows)
    counters = _made_up(layout, random, 40)
    for step in range(60):
        walked = Walked(_rows(layout, counters, found=BOTH if step % 7 else 0), layout)
        before = decode.decode(walked, rows, (), NODES, None)
        assert before == walked.residents(rows, (), NODES, None)
        again = decode.decode(
            Walked(_rows(layout, counters, found=BOTH if step % 7 else 0), layout), rows, (), NODES, None
        )
        assert all(again[id_] is one for id_, one in before.items())
        for id_ in random.sample(sorted(counters), 3):
            counters[id_]["anon"] = [random.randrange(999) for _ in range(4)]
        if step % 3:
            del counters[random.choice(sorted(counters))]
        if step % 4:
            counters[1000 + step] = {"file": [step] * 4}


def test_zeros_that_are_proven_meanwhile_are_decoded_again() -> None:
    layout, decode = _layout(), Residents()
    walked = Walked(_rows(layout, {7: {"shmem": [1, 1, 1, 1], "file": [1, 1, 1, 1]}}), layout)
    rows = ("anon", "shmem", "file")
    assert decode.decode(walked, rows, ["shmem"], NODES, None)[7].shmem == dict.fromkeys(NODES, 0)
    assert decode.decode(walked, rows, [], NODES, None)[7].shmem == dict.fromkeys(NODES, 4096)
