"""Node sets: the kernel's list format, bitmasks, sizes, order."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.topology.nodeset import CpuSet, NodeSet

node_ids = st.frozensets(st.integers(0, 1023), max_size=64)


def test_the_kernels_list_format_is_read_and_written() -> None:
    nodes = NodeSet.parse("0-1,3\n")
    assert list(nodes) == [0, 1, 3]
    assert nodes.mask == 0b1011
    assert str(nodes) == "0-1,3"
    assert repr(nodes) == "NodeSet('0-1,3')"


def test_blank_text_is_the_empty_set() -> None:
    assert not NodeSet.parse("\n")
    assert str(NodeSet()) == ""


def test_a_set_is_a_value() -> None:
    nodes = NodeSet.of(0, 3)
    assert nodes == NodeSet.parse("0,3") != NodeSet.of(0)
    assert nodes != CpuSet.of(0, 3)
    assert {nodes: 1}[NodeSet.of(3, 0)] == 1
    assert copy.deepcopy(nodes) == pickle.loads(pickle.dumps(nodes)) == nodes
    with pytest.raises(AttributeError, match="immutable"):
        nodes.mask = 1
    with pytest.raises(ValueError, match="not negative"):
        NodeSet(-1)


def test_a_stride_takes_the_first_of_each_group() -> None:
    assert list(CpuSet.parse("0-9:2/4")) == [0, 1, 4, 5, 8, 9]


@pytest.mark.parametrize(
    "text",
    ["a", "1-", "-1", "3-1", "0,,1", "0-1024", "1 2", "0-7:0/4", "0-7:5/4", "٣", "\x00", "1" * 99],
)
def test_other_text_is_refused_with_the_text_named(text: str) -> None:
    with pytest.raises(ParseError, match=r"node|stride"):
        NodeSet.parse(text)


def test_candidates_come_by_size_and_then_in_order() -> None:
    assert [str(mask) for mask in NodeSet.of(0, 2, 5).subsets()] == ["0", "2", "5", "0,2", "0,5", "2,5", "0,2,5"]


def test_fewer_nodes_are_narrower_and_ties_go_to_the_smaller_mask() -> None:
    assert NodeSet.of(3).is_narrower_than(NodeSet.of(0, 1))
    assert NodeSet.of(0, 1).is_narrower_than(NodeSet.of(0, 2))
    assert not NodeSet.of(1).is_narrower_than(NodeSet.of(1))


def test_sixty_four_nodes_fit() -> None:
    all_nodes = NodeSet.parse("0-63")
    assert len(all_nodes) == 64
    assert all_nodes.mask == 2**64 - 1
    assert sum(1 for _ in all_nodes.combinations(2)) == 64 * 63 // 2


@given(node_ids)
def test_text_and_set_are_the_same_thing(ids: frozenset[int]) -> None:
    nodes = NodeSet.from_ids(ids)
    assert NodeSet.parse(str(nodes)) == nodes
    assert list(nodes) == sorted(ids)
    assert len(nodes) == len(ids)


@given(node_ids, node_ids)
def test_set_operations_are_those_of_python(left: frozenset[int], right: frozenset[int]) -> None:
    a, b = NodeSet.from_ids(left), NodeSet.from_ids(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert (a <= b) == (left <= right)
    assert (a < b) == (left < right)
    assert a.isdisjoint(b) == left.isdisjoint(right)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        nodes = NodeSet.parse(text)
    except ParseError:
        return
    assert NodeSet.parse(str(nodes)) == nodes


def test_a_sentence_names_one_node_several_or_none() -> None:
    assert [one.in_words for one in (NodeSet.of(2), NodeSet.of(0, 1, 3), NodeSet())] == [
        "node 2",
        "nodes 0-1,3",
        "no node",
    ]
    assert [one.in_words for one in (CpuSet.of(2), CpuSet.of(0, 1), CpuSet())] == ["CPU 2", "CPUs 0-1", "no CPU"]
