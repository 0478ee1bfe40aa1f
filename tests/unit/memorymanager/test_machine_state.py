"""The memory map: default state, charging first node first, releasing, groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containermanager.memory.state import (
    Block,
    MemoryTable,
    NUMANodeState,
    allocatable_memory,
    charge,
    check_reservations_fit,
    default_machine_state,
    hugepages_name,
    release,
)
from numaudit.errors import InputError
from numaudit.topology.machine import HugePages, Machine, Node

MI = 2**20
GI = 2**30


def machine(*sizes: int, huge: int = 0) -> Machine:
    """Nodes of these sizes with `huge` 2 MiB pages each."""
    pages = (HugePages(2 * MI, huge),) if huge else ()
    return Machine(nodes=tuple(Node(id=i, memory=size, huge_pages=pages) for i, size in enumerate(sizes)))


def test_huge_pages_and_reservations_are_not_allocatable_memory() -> None:
    state = default_machine_state(machine(GI, huge=16), {0: {"memory": 100 * MI, "hugepages-2Mi": 2 * MI}})
    assert state == {
        0: NUMANodeState(
            0,
            {
                "hugepages-2Mi": MemoryTable(32 * MI, 2 * MI, 30 * MI, 0, 30 * MI),
                "memory": MemoryTable(GI, 100 * MI, GI - 132 * MI, 0, GI - 132 * MI),
            },
            (0,),
        )
    }


def test_a_node_whose_memory_is_unknown_has_none() -> None:
    state = default_machine_state(Machine(nodes=(Node(id=3),)), {})
    assert state[3].memory_map["memory"] == MemoryTable(0, 0, 0, 0, 0)
    assert state[3].cells == (3,)


def test_page_sizes_are_named_as_kubernetes_names_them() -> None:
    assert [hugepages_name(size) for size in (64 << 10, 2 * MI, 512 * MI, GI, 16 * GI)] == [
        "hugepages-64Ki",
        "hugepages-2Mi",
        "hugepages-512Mi",
        "hugepages-1Gi",
        "hugepages-16Gi",
    ]


def test_a_reservation_beyond_the_node_wraps_as_in_the_kubelet() -> None:
    state = default_machine_state(machine(GI), {0: {"memory": GI + 1}})
    assert state[0].memory_map["memory"].allocatable == 2**64 - 1


def test_a_reservation_beyond_the_node_is_refused_with_the_figures() -> None:
    check_reservations_fit(machine(GI, huge=16), {0: {"memory": GI - 32 * MI}})
    with pytest.raises(InputError, match=r"node 0 has 1073741824 bytes of memory but 1073741825 .* huge pages"):
        check_reservations_fit(machine(GI, huge=16), {0: {"memory": GI - 32 * MI + 1}})
    with pytest.raises(InputError, match="hugepages-2Mi"):
        check_reservations_fit(machine(GI, huge=1), {0: {"hugepages-2Mi": 4 * MI}})


def test_the_first_node_fills_first_and_all_become_a_group() -> None:
    state = charge(default_machine_state(machine(10, 10, 10), {}), (0, 1), "memory", 15)
    assert [state[i].memory_map["memory"].free for i in range(3)] == [0, 5, 10]
    assert [state[i].cells for i in range(3)] == [(0, 1), (0, 1), (2,)]
    assert [state[i].number_of_assignments for i in range(3)] == [1, 1, 0]


def test_what_fits_nowhere_is_dropped() -> None:
    state = charge(default_machine_state(machine(10, 10), {}), (0, 1), "memory", 99)
    assert [state[i].memory_map["memory"].reserved for i in range(2)] == [10, 10]


def test_nothing_charged_still_counts_as_an_assignment() -> None:
    state = charge(default_machine_state(machine(10), {}), (0,), "memory", 0)
    assert state[0].number_of_assignments == 1


def test_a_group_ends_with_its_last_assignment() -> None:
    state = default_machine_state(machine(10, 10), {})
    both = charge(charge(state, (0, 1), "memory", 15), (0, 1), "memory", 1)
    one = release(both, [Block((0, 1), "memory", 15)])
    assert one[0].cells == (0, 1)
    assert release(one, [Block((0, 1), "memory", 1)]) == state


def test_releasing_starts_at_the_first_node_wherever_the_memory_came_from() -> None:
    """The sequence of kubernetes#113130: right as a group, drifted per node."""
    state = default_machine_state(machine(220, 220), {})
    for size in (240, 20):
        state = charge(state, (0, 1), "memory", size)
    state = release(state, [Block((0, 1), "memory", 20)])
    live = charge(state, (0, 1), "memory", 10)
    replayed = default_machine_state(machine(220, 220), {})
    for size in (240, 10):
        replayed = charge(replayed, (0, 1), "memory", size)
    assert [live[i].memory_map["memory"].free for i in range(2)] == [10, 180]
    assert [replayed[i].memory_map["memory"].free for i in range(2)] == [0, 190]


def test_what_the_machine_state_does_not_have_is_named() -> None:
    state = default_machine_state(machine(GI, GI), {})
    for affinity, resource in (((0, 3), "memory"), ((1,), "hugepages-1Gi")):
        with pytest.raises(InputError, match=f"no {resource} on NUMA node {affinity[-1]}, .* it has nodes 0, 1"):
            charge(state, affinity, resource, 1)
        with pytest.raises(InputError, match=f"no {resource} on NUMA node {affinity[-1]}"):
            release(state, [Block(affinity, resource, 1)])


def test_allocatable_memory_leaves_out_what_is_empty() -> None:
    blocks = allocatable_memory(default_machine_state(machine(GI, 0, huge=0), {0: {"memory": MI}}))
    assert blocks == (Block((0,), "memory", GI - MI),)


@given(st.lists(st.tuples(st.sampled_from([(0,), (1,), (0, 1), (0, 1, 2)]), st.integers(0, 50)), max_size=12))
def test_whatever_is_charged_free_and_reserved_are_all_there_is(charges: list[tuple[tuple[int, ...], int]]) -> None:
    start = default_machine_state(machine(100, 50, 70), {})
    state = start
    for affinity, size in charges:
        state = charge(state, affinity, "memory", size)
        for node in state.values():
            table = node.memory_map["memory"]
            assert table.free + table.reserved == table.allocatable
    for affinity, _ in charges:
        state = release(state, [Block(affinity, "memory", 1000)])
    assert state == start
