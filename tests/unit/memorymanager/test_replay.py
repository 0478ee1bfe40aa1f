"""The Memory Manager's check at the start of the kubelet: replay the assignments and compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.containermanager.memory.replay import (
    DIFFERENT,
    NO_MACHINE_STATE,
    Difference,
    check_start,
    differences,
    replay,
    without_assignments,
)
from numaudit.containermanager.memory.state import (
    Block,
    MachineState,
    MemoryState,
    MemoryTable,
    NUMANodeState,
    charge,
    default_machine_state,
)
from numaudit.topology.machine import HugePages, Machine, Node

CAPTURED = sorted((FIXTURES / "kubelet-1.36").glob("*/*/memory_manager_state"))
GI = 2**30


def read(path: Path) -> MemoryState:
    return memory_checkpoint.parse(path.read_bytes()).state


def machine(*sizes: int) -> MachineState:
    return default_machine_state(Machine(nodes=tuple(Node(id_, memory=size) for id_, size in enumerate(sizes))), {})


def assigned(default: MachineState, *blocks: Block) -> MemoryState:
    """A state in which each block belongs to a pod of its own."""
    for block in blocks:
        default = charge(default, block.numa_affinity or (), block.type, block.size)
    return MemoryState(default, {f"pod-{index}": {"app": (block,)} for index, block in enumerate(blocks)})


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_kubelets_own_entries_lead_to_its_own_machine_state(path: Path) -> None:
    state = read(path)
    default = without_assignments(state.machine)
    pod_level = "pod-level" in str(path)
    assert replay(default, state, pod_level=pod_level) == state.machine
    assert check_start(state, default, pod_level=pod_level) is None
    assert check_start(state, default, version=(1, 28), pod_level=pod_level) is None


def test_containers_of_a_pod_with_blocks_of_its_own_are_not_counted_twice() -> None:
    state = read(FIXTURES / "kubelet-1.36/standalone-pod-level-resources/1/memory_manager_state")
    refusal = check_start(state, without_assignments(state.machine), pod_level=False)
    assert refusal is not None
    assert refusal.difference == Difference("numberOfAssignments", 1, None, 1, 2)


def test_a_pod_entry_without_blocks_still_stands_for_its_containers() -> None:
    default = without_assignments(read(CAPTURED[0]).machine)
    entries = {"uid": {"app": (Block((0,), "memory", 2**20),)}}
    assert replay(default, MemoryState(default, entries, {"uid": ()}), pod_level=True) == default
    assert replay(default, MemoryState(default, entries, {"uid": ()}), pod_level=False) != default


def test_since_1_32_a_group_needs_to_add_up_only_as_a_whole() -> None:
    state = read(FIXTURES / "memory-manager-state/cross-node-release/memory_manager_state")
    default = without_assignments(state.machine)
    again = replay(default, state)
    free = [[side[node].memory_map["memory"].free // GI for node in (0, 1)] for side in (state.machine, again)]
    assert free == [[10, 180], [0, 190]]
    assert check_start(state, default, version=(1, 32)) is None
    refusal = check_start(state, default, version=(1, 31))
    assert refusal is not None
    assert refusal.difference == Difference("reserved", 0, "memory", 210 * GI, 220 * GI)


def test_an_empty_machine_state_is_made_again_unless_there_are_assignments() -> None:
    assert check_start(MemoryState({}), machine(GI)) is None
    refusal = check_start(MemoryState({}, {"pod": {"app": ()}}), machine(GI))
    assert refusal is not None
    assert refusal.message == NO_MACHINE_STATE


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Block((7,), "memory", 1), "the memory assignment uses the NUMA that does not exist"),
        (Block((0,), "hugepages-1Gi", 1), "the memory assignment uses memory resource that does not exist"),
    ],
)
def test_an_assignment_to_what_is_not_there_has_the_kubelets_words(block: Block, message: str) -> None:
    refusal = check_start(MemoryState(machine(GI), {"uid": {"app": (block,)}}), machine(GI))
    assert refusal is not None
    assert refusal.message == f"[memorymanager] (pod: uid, container: app) {message}"
    assert refusal.difference is None


def test_differences_come_in_the_order_in_which_the_kubelet_compares() -> None:
    table = MemoryTable(10, 1, 9, 4, 5)
    in_file = {
        0: NUMANodeState(3, {"memory": table, "hugepages-2Mi": table}, (0, 1)),
        1: NUMANodeState(1, {"memory": table}, None),
        2: NUMANodeState(0, {}, (2,)),
    }
    expected = {
        0: NUMANodeState(2, {"memory": MemoryTable(11, 2, 8, 3, 4)}, (0,)),
        1: NUMANodeState(1, {"memory": table}, (1,)),
        3: NUMANodeState(0, {}, (3,)),
        4: NUMANodeState(0, {}, (4,)),
    }
    found = list(differences(in_file, expected, version=(1, 31)))
    assert [(one.field, one.node, one.resource) for one in found] == [
        ("nodes", None, None),
        ("numberOfAssignments", 0, None),
        ("cells", 0, None),
        ("resource", 0, "hugepages-2Mi"),
        ("total", 0, "memory"),
        ("systemReserved", 0, "memory"),
        ("allocatable", 0, "memory"),
        ("reserved", 0, "memory"),
        ("free", 0, "memory"),
        ("cells", 1, None),
        ("node", 2, None),
        ("node", 3, None),
        ("node", 4, None),
    ]
    assert [str(one) for one in found[:4]] == [
        "nodes is [0, 1, 2] in the file, [0, 1, 3, 4] by replay",
        "node 0: numberOfAssignments is 3 in the file, 2 by replay",
        "node 0: cells is [0, 1] in the file, [0] by replay",
        "node 0: hugepages-2Mi resource is present in the file, absent by replay",
    ]


def test_the_order_of_cells_does_not_matter() -> None:
    left = {0: NUMANodeState(0, {}, (1, 0)), 1: NUMANodeState(0, {}, (0, 1))}
    right = {0: NUMANodeState(0, {}, (0, 1)), 1: NUMANodeState(0, {}, (0, 1))}
    assert not list(differences(left, right))


blocks = st.lists(
    st.builds(
        Block,
        st.sampled_from([(0,), (1,), (2,), (3,)]) | st.just((2, 3)),
        st.sampled_from(["memory", "hugepages-1Gi"]),
        st.integers(0, 3 * GI),
    ),
    max_size=8,
)


@given(blocks, st.sampled_from([(1, 23), (1, 31), (1, 32), (1, 36)]))
def test_a_state_made_by_charging_alone_always_starts(wanted: list[Block], version: tuple[int, int]) -> None:
    nodes = tuple(Node(id_, memory=8 * GI, huge_pages=(HugePages(GI, 2),)) for id_ in range(4))
    default = default_machine_state(Machine(nodes=nodes), {0: {"memory": GI}})
    state = assigned(default, *wanted)
    assert without_assignments(state.machine) == default
    assert check_start(state, default, version=version) is None


@given(blocks, st.integers(0, 3), st.sampled_from(["total", "system_reserved", "allocatable", "reserved", "free"]))
def test_no_changed_number_goes_unnoticed(wanted: list[Block], node: int, field: str) -> None:
    default = machine(*[8 * GI] * 4)
    state = assigned(default, *(block for block in wanted if block.type == "memory"))
    changed = dict(state.machine)
    table = changed[node].memory_map["memory"]
    table = replace(table, **{field: getattr(table, field) + 1})
    changed[node] = replace(changed[node], memory_map={"memory": table})
    refusal = check_start(replace(state, machine=changed), default)
    assert refusal is not None
    assert refusal.message == DIFFERENT
