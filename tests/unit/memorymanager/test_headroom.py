"""What the Memory Manager could still promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_memory_invariants import machines

from numaudit.containermanager.memory.candidates import calculate_hints
from numaudit.containermanager.memory.headroom import (
    Holder,
    HugePageRoom,
    HugePageShortage,
    admissible_huge_pages,
    headroom_of,
    holders_of,
    shortages,
)
from numaudit.containermanager.memory.state import Block, MachineState, MemoryState, MemoryTable, NUMANodeState
from numaudit.containermanager.topologymanager.hints import MOST_NODES, merge
from numaudit.containermanager.topologymanager.policy import NONE, POLICIES, RESTRICTED, SINGLE_NUMA_NODE
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet


def _node(free: int, cells: tuple[int, ...], assignments: int = 0, of: int = 10) -> NUMANodeState:
    return NUMANodeState(assignments, {"memory": MemoryTable(of + 1, 1, of, of - free, free)}, cells)


EMPTY = {0: _node(10, (0,)), 1: _node(10, (1,))}
SINGLE = {0: _node(4, (0,), 1), 1: _node(10, (1,))}
GROUP = {0: _node(0, (0, 1), 1), 1: _node(3, (0, 1), 1), 2: _node(10, (2,)), 3: _node(6, (3,), 1)}


def test_an_empty_machine_takes_all_of_each_node() -> None:
    assert headroom_of(EMPTY, "best-effort").admissible == {1: 10, 2: 20}
    assert headroom_of(EMPTY, RESTRICTED).admissible == {1: 10, 2: 20}
    assert headroom_of(EMPTY, SINGLE_NUMA_NODE).admissible == {1: 10, 2: 0}


def test_a_node_with_an_assignment_of_its_own_joins_no_group() -> None:
    assert headroom_of(SINGLE, "best-effort").admissible == {1: 10, 2: 0}


def test_a_group_takes_only_what_needs_as_many_nodes_under_restricted() -> None:
    assert headroom_of(GROUP, "best-effort").admissible == {1: 10, 2: 3, 3: 0, 4: 0}
    assert headroom_of(GROUP, RESTRICTED).admissible == {1: 10, 2: 0, 3: 0, 4: 0}


def test_what_is_free_in_a_group_is_stranded_for_containers_of_one_node() -> None:
    assert headroom_of(GROUP, NONE).stranded == {0: 0, 1: 3, 2: 0, 3: 0}


def test_a_machine_whose_largest_container_of_one_node_is_admitted_is_not_fragmented() -> None:
    assert headroom_of(EMPTY, None).fragmentation == 0
    assert headroom_of(SINGLE, None).fragmentation == 0


def test_free_memory_in_pieces_is_fragmented_by_what_one_node_lacks_of_it() -> None:
    halves = {id_: _node(5, (id_,), 1) for id_ in range(3)}
    assert headroom_of(halves, NONE).fragmentation == 0.5  # 15 are free, 10 fit an empty node, and 5 are admitted


def test_a_machine_whose_free_memory_is_all_in_groups_is_wholly_fragmented() -> None:
    assert headroom_of({0: _node(0, (0, 1), 1), 1: _node(3, (0, 1), 1)}, NONE).fragmentation == 1


def test_a_full_machine_has_no_fragmentation() -> None:
    assert headroom_of({0: _node(0, (0,), 1)}, NONE).fragmentation is None


def test_every_pod_of_a_group_holds_it_with_what_all_its_containers_have_there() -> None:
    entries = {
        "b": {
            "init": (Block((0, 1), "memory", 2),),
            "app": (Block((0, 1), "memory", 3), Block((0, 1), "hugepages-2Mi", 4)),
        },
        "a": {"app": (Block((0, 1), "memory", 1),), "alone": (Block((2,), "memory", 6),), "nothing": ()},
    }
    assert holders_of(MemoryState({}, entries)) == (
        Holder("a", NodeSet.of(0, 1), {"memory": 1}),
        Holder("b", NodeSet.of(0, 1), {"memory": 5, "hugepages-2Mi": 4}),
        Holder("a", NodeSet.of(2), {"memory": 6}),
    )


def test_a_pod_with_blocks_of_its_own_counts_once() -> None:
    blocks = (Block((1,), "memory", 7),)
    assert holders_of(MemoryState({}, {"a": {"app": blocks}}, {"a": blocks})) == (
        Holder("a", NodeSet.of(1), {"memory": 7}),
    )


@pytest.mark.parametrize("policy", [None, "nonsense"])
def test_without_the_policy_it_is_not_known_what_is_admitted(policy: str | None) -> None:
    assert headroom_of(EMPTY, policy).admissible is None
    assert headroom_of(EMPTY, policy).stranded == {0: 0, 1: 0}


def test_beyond_the_nodes_of_which_all_sets_can_be_tried_it_is_not_known() -> None:
    many = {id_: _node(1, (id_,)) for id_ in range(MOST_NODES + 1)}
    assert headroom_of(many, "best-effort").admissible is None


def test_a_node_of_a_group_without_memory_is_an_error() -> None:
    with pytest.raises(InputError, match="no memory on NUMA node 0"):
        headroom_of({0: NUMANodeState(1, {}, (0, 1)), 1: _node(1, (0, 1), 1)}, NONE)


@given(machines(), st.sampled_from(POLICIES), st.integers(1, 30))
def test_any_request_is_admitted_by_the_hints_themselves_as_far_as_was_said_and_no_further(
    machine: MachineState, policy: str, asked: int
) -> None:
    admissible = headroom_of(machine, policy).admissible
    assert admissible is not None
    nodes = NodeSet.from_ids(machine)
    for width, most in admissible.items():
        assert not most or _admits(machine, nodes, policy, width, most)
        assert asked <= most or not _admits(machine, nodes, policy, width, asked)


def _admits(machine: MachineState, nodes: NodeSet, policy: str, width: int, asked: int) -> bool:
    """Would the Topology Manager admit a request if its hints of `width` nodes were the only ones?"""
    hints = [one for one in calculate_hints(machine, {"memory": asked}).get("memory", ()) if one.affinity]
    of_width = [one for one in hints if one.affinity is not None and len(one.affinity) == width]
    return bool(of_width) and merge([{"memory": of_width}], policy=policy, nodes=nodes).result.admit


PAGE = "hugepages-2Mi"


@given(machines(), st.sampled_from(POLICIES), st.integers(1, 30), st.data())
def test_a_request_for_huge_pages_goes_as_far_as_hints_and_free_pages_of_the_kernel_together(
    machine: MachineState, policy: str, asked: int, data: st.DataObject
) -> None:
    """The smaller of both on each set of nodes, never on two different ones."""
    amounts = st.integers(0, 8)
    free = {node: data.draw(amounts) for node in machine}
    sets = st.sampled_from([NodeSet.of(node) for node in machine] + [NodeSet.from_ids(machine)])
    room = HugePageRoom(1, free, data.draw(st.dictionaries(sets, amounts, max_size=2)), data.draw(amounts))
    most_by_width = admissible_huge_pages(machine, policy, PAGE, room)
    assert most_by_width is not None
    for width, most in most_by_width.items():
        assert not most or _gets_pages(machine, policy, width, most, room)
        assert asked <= most or not _gets_pages(machine, policy, width, asked, room)


def _gets_pages(machine: MachineState, policy: str, width: int, asked: int, room: HugePageRoom) -> bool:
    """Is there a hint of `width` nodes that the Topology Manager admits, and where the kernel still has the pages?

    Counted page by page: earlier promises take theirs first, then the reservations that are none of theirs.
    """
    nodes = NodeSet.from_ids(machine)
    for hint in calculate_hints(machine, {PAGE: asked}).get(PAGE, ()):
        if hint.affinity is None or len(hint.affinity) != width:
            continue
        if not merge([{PAGE: [hint]}], policy=policy, nodes=nodes).result.admit:
            continue
        here = sum(room.free[node] or 0 for node in hint.affinity)
        claimed = sum(size or 0 for on, size in room.unclaimed.items() if set(on) & set(hint.affinity))
        all_claimed = sum(size or 0 for size in room.unclaimed.values())
        of_others = max(0, room.reserved - all_claimed)
        everywhere = sum(size or 0 for size in room.free.values()) - all_claimed - of_others
        if asked <= here - claimed and asked <= everywhere:
            return True
    return False


def test_a_request_for_huge_pages_is_a_whole_number_of_them() -> None:
    table = MemoryTable(10, 0, 10, 0, 10)
    machine: MachineState = {0: NUMANodeState(0, {"memory": table, PAGE: table}, (0,))}
    assert admissible_huge_pages(machine, NONE, PAGE, HugePageRoom(4, {0: 10})) == {1: 8}


def test_where_the_kernel_does_not_say_what_is_free_the_largest_request_is_not_known() -> None:
    assert admissible_huge_pages(EMPTY, NONE, "memory", HugePageRoom(1, {0: 5, 1: None})) is None


def test_what_an_admission_promised_and_the_kernel_lacks_is_short_by_size_and_nodes() -> None:
    table = MemoryTable(8, 0, 8, 0, 8)
    machine: MachineState = {id_: NUMANodeState(0, {PAGE: table, "hugepages-1Gi": table}, (id_,)) for id_ in (0, 1)}
    blocks = (Block((1,), PAGE, 6), Block((1,), "hugepages-1Gi", 6), Block((1,), "memory", 6))
    after = MemoryState(machine, {"new": {"a": blocks, "b": (Block((0,), PAGE, 2),)}, "old": {"a": blocks}})
    rooms = {PAGE: HugePageRoom(2, {0: 2, 1: 7}, {NodeSet.of(1): 2}), "hugepages-1Gi": HugePageRoom(2, {0: 8, 1: 8})}
    (found,) = shortages(machine, after, frozenset({"new"}), rooms)
    assert found == HugePageShortage(PAGE, NodeSet.of(1), 6, 8, 7, 2, 4)
