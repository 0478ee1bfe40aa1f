"""What a group's memory.numa_stat and hugetlb.*.numa_stat say."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.memory.numa_stat import (
    NumaStatReader,
    hugetlb,
    parse,
    resident_v1,
    resident_v2,
)
from numaudit.snapshot import RESIDENT_TYPES, BytesByNode

CapturedHost = Callable[[str], Host]
MIB = 1 << 20
V2 = "anon N0=1\nfile N0=10\nshmem N0=4\n"
V1 = (
    "total=6 N0=1 N1=5\nfile=1 N0=1 N1=0\nanon=3 N0=0 N1=3\nunevictable=2 N0=0 N1=2\n"
    "hierarchical_total=60 N0=10 N1=50\nhierarchical_file=10 N0=10 N1=0\n"
    "hierarchical_anon=30 N0=0 N1=30\nhierarchical_unevictable=20 N0=0 N1=20\n"
)


def test_v2_is_in_bytes_and_each_byte_is_in_one_type(captured: CapturedHost) -> None:
    text = (captured("kubernetes-four-nodes").root / "sys/fs/cgroup/system/memory.numa_stat").read_text()
    rows = {line.split()[0]: [int(field.partition("=")[2]) for field in line.split()[1:]] for line in text.splitlines()}
    system = resident_v2(text.encode(), None)
    assert system.anon == dict(enumerate(rows["anon"]))
    assert system.shmem is not None
    assert system.file is not None
    assert sum(system.shmem.values()) == sum(rows["shmem"]) > 0
    assert sum(system.shmem.values()) + sum(system.file.values()) == sum(rows["file"])
    assert system.unevictable is None


def test_kernel_memory_is_the_sum_of_its_rows() -> None:
    text = f"{V2}kernel_stack N0=100\npagetables N0=200\nslab_unreclaimable N0=400\nvmalloc N0=9\n"
    resident = resident_v2(text.encode(), None)
    assert {kind: getattr(resident, kind) for kind in RESIDENT_TYPES} == {
        "anon": {0: 1},
        "shmem": {0: 4},
        "file": {0: 6},
        "hugetlb": None,
        "kernel": {0: 700},
        "unevictable": None,
    }


def test_what_processes_map_of_files_is_read_and_is_no_type_of_its_own() -> None:
    text = b"anon N0=1 N1=0\nfile N0=9 N1=8\nshmem N0=5 N1=9\nfile_mapped N0=6 N1=0\nfile_dirty N0=0 N1=0\n"
    found = resident_v2(text, None)
    assert found.mapped == {0: 6, 1: 0}
    assert found.file == {0: 4, 1: 0}
    assert "mapped" not in RESIDENT_TYPES


def test_moves_between_memory_tiers_are_pages_in_the_file_and_bytes_here() -> None:
    moves = "pgdemote_kswapd N0=3\npgdemote_direct N0=4\npgdemote_khugepaged N0=0\npgpromote_success N0=2\n"
    found = resident_v2((V2 + moves).encode(), None, 65536)
    assert (found.demoted, found.promoted) == ({0: 7 * 65536}, {0: 2 * 65536})
    assert found.sum_of(RESIDENT_TYPES) == resident_v2(V2.encode(), None).sum_of(RESIDENT_TYPES)
    newer = resident_v2((V2 + moves + "pgdemote_proactive N0=1\n").encode(), None, 65536)
    assert newer.demoted == {0: 8 * 65536}


def test_moves_are_not_read_where_there_is_one_tier_nor_of_a_kernel_that_does_not_count_them() -> None:
    moves = "pgdemote_kswapd N0=3\npgpromote_success N0=2\n"
    for found in (resident_v2((V2 + moves).encode(), None), resident_v2(V2.encode(), None, 4096)):
        assert (found.demoted, found.promoted) == (None, None)


def test_rows_that_only_begin_like_a_wanted_one_are_others() -> None:
    resident = resident_v2(f"anon_thp N0=99\nfile_mapped N0=98\n{V2}shmem_thp N0=97\n".encode(), None)
    assert (resident.anon, resident.file, resident.shmem) == ({0: 1}, {0: 6}, {0: 4})


def test_huge_pages_charged_to_memory_too_are_counted_once() -> None:
    text = f"{V2}hugetlb N0=2097152"
    assert resident_v2(text.encode(), None).hugetlb == {0: 2 * MIB}
    assert resident_v2(text.encode(), {0: 4 * MIB}).hugetlb == {0: 4 * MIB}


def test_v1_counts_pages_of_all_groups_below() -> None:
    found = resident_v1(V1.encode(), None, 4096)
    assert (found.anon, found.file) == ({0: 0, 1: 30 << 12}, {0: 10 << 12, 1: 0})
    assert found.unevictable == {0: 0, 1: 20 << 12}
    assert (found.shmem, found.kernel, found.hugetlb) == (None, None, None)


def test_huge_pages_are_in_bytes_with_those_of_the_groups_below() -> None:
    assert hugetlb(b"total=2097152 N0=2097152 N1=0\n", is_v2=True) == {0: 2 * MIB, 1: 0}
    text = "total=2097152 N0=2097152 N1=0\nhierarchical_total=6291456 N0=6291456 N1=0\n"
    assert hugetlb(text.encode(), is_v2=False) == {0: 6 * MIB, 1: 0}


@pytest.mark.parametrize(
    "text", ["", "file N0=1\n", "anon N0=1\n", "anon N0=1\nfile N0=1\n", "\0" * 4096, "binary\xff"]
)
def test_a_file_that_is_empty_or_cut_short_is_refused_rather_than_read_as_zero(text: str) -> None:
    for read in (
        lambda: resident_v2(text.encode(), None),
        lambda: resident_v1(text.encode(), None, 4096),
        lambda: hugetlb(text.encode(), is_v2=False),
        lambda: hugetlb(text.encode(), is_v2=True),
    ):
        with pytest.raises(ParseError, match=r"numa_stat has no row '.*empty, cut short or foreign"):
            read()


@pytest.mark.parametrize(
    "line",
    ["anon", "anon ", "anon N0=", "anon N0", "anon M0=1", "anon =1", "anon N=1", "anon N-1=4", "anon N0=-4",
     "anon N0=4 x", "anon N0=1_0", "anon N٣=4", "anon N0=٣", "anon N0=" + "9" * 5000, "anon N0=1 N0", "anon=x N0=1",
     "anon N0=1\r", "anon\tN0=1"],
)  # fmt: skip
def test_a_wanted_row_of_another_form_is_refused_and_shown(line: str) -> None:
    with pytest.raises(ParseError, match=r"not a numa_stat line: ['\"]anon"):
        parse(f"file N0=1\n{line}\n", ("anon", "file"))


def test_unwanted_rows_are_ignored() -> None:
    assert parse(f"new-row whatever\n\ufffd N0=1\n{V2}", ("anon",)) == {"anon": {0: 1}}


_text = st.text(max_size=100) | st.lists(
    st.sampled_from(["anon", "file", "shmem", "hierarchical_anon", "total", "=", " N0=", " N1=", "7", "-", "x", "\n"])
).map("".join)


@given(_text)
def test_any_numa_stat_text_is_read_or_refused(text: str) -> None:
    reads: tuple[Callable[[], list[BytesByNode]], ...] = (
        lambda: list(parse(text, ("anon", "file", "total")).values()),
        lambda: [resident_v2(text.encode(), None).anon or {}],
        lambda: [resident_v1(text.encode(), None, 4096).anon or {}],
        lambda: [hugetlb(text.encode(), is_v2=True)],
    )
    for read in reads:
        try:
            rows = read()
        except ParseError:
            continue
        assert all(node >= 0 and value >= 0 for row in rows for node, value in row.items())


_keys = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
_by_node = st.dictionaries(st.integers(0, 1023), st.integers(0, 1 << 62), min_size=1, max_size=8)


@given(st.dictionaries(_keys, _by_node, min_size=1, max_size=6))
def test_any_numa_stat_values_come_back(rows: dict[str, dict[int, int]]) -> None:
    def fields(by_node: dict[int, int]) -> str:
        return "".join(f" N{node}={value}" for node, value in by_node.items())

    v2 = "".join(f"{key}{fields(by_node)}\n" for key, by_node in rows.items())
    v1 = "".join(f"{key}={sum(by_node.values()) % 10**19}{fields(by_node)}\n" for key, by_node in rows.items())
    assert parse(v2, tuple(rows)) == parse(v1, tuple(rows)) == rows


_same_kernel = st.permutations(["anon", "file", "shmem", "anon_thp", "total"]).flatmap(
    lambda names: st.lists(
        st.lists(st.tuples(st.integers(0, 1 << 60), st.integers(0, 9)), min_size=5, max_size=5).map(
            lambda rows: "".join(
                f"{name} N0={zero} N3={three}\n" for name, (zero, three) in zip(names, rows, strict=True)
            )
        ),
        min_size=2,
        max_size=4,
    )
)


@given(_same_kernel, st.lists(_text, max_size=3), st.randoms())
def test_texts_of_one_layout_and_any_others_between_them_are_read_alike(
    alike: list[str], others: list[str], random: Random
) -> None:
    known = NumaStatReader((), ("anon", "file"), ("total", "shmem"))
    texts = [*alike, *others]
    random.shuffle(texts)
    for text in texts:
        try:
            expected = NumaStatReader((), ("anon", "file"), ("total", "shmem")).read(text.encode())
        except ParseError:
            with pytest.raises(ParseError):
                known.read(text.encode())
        else:
            assert known.read(text.encode()) == expected
            assert {row: expected[row] for row in expected if row != "sum"} == parse(text, ("anon", "file"))


def test_rows_that_are_to_be_added_up_are_added_by_node_at_every_read() -> None:
    rows = NumaStatReader(("anon",), (), ("slab", "stack"))
    for more in (0, 5):
        text = f"stack N0={1 + more} N2=2\nanon N0=7 N2=0\nslab N0=10 N2=20\n".encode()
        assert rows.read(text) == {"anon": {0: 7, 2: 0}, "sum": {0: 11 + more, 2: 22}}


@pytest.mark.parametrize(
    "later",
    ["anon N0=5 N1=6\n", "file N0=3\nanon N0=5\n", "anon N0=5\nfile N0=3\nanon N0=7\n", "anon=9 N0=5\nfile N0=3\n",
     "anon N0=5 \nfile N0=3", "anon N0=5\nanon_thp N0=8\nfile N0=3\n",
     "anon N0=007\nfile N0=3\n"],
)  # fmt: skip
def test_a_text_of_another_layout_is_parsed_line_by_line(later: str) -> None:
    rows = NumaStatReader(("anon",), ("file",))
    rows.read(b"anon N0=1\nfile N0=2\n")
    assert rows.read(later.encode()) == parse(later, ("anon", "file"))
    assert rows.read(b"anon N0=1\nfile N0=2\n") == {"anon": {0: 1}, "file": {0: 2}}
