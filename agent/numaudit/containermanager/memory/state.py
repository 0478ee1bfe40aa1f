"""The state of the static Memory Manager: its memory map and assignments, how the map starts, how assignments are
charged and released, and how init containers hand memory on.

Source: pkg/kubelet/cm/memorymanager/state/state.go, pkg/kubelet/cm/memorymanager/policy_static.go
(getDefaultMachineState, updateMachineState, releaseMemory, updateInitContainersMemoryBlocks, updatePodReusableMemory),
pkg/kubelet/cm/memorymanager/memory_manager.go. All sizes are bytes modulo 2^64, as in the kubelet. The
names are those of its file, in which these values are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, MEMORY, Pod, is_ordinary_init
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.encoding.go_json import UINT64
from numaudit.errors import InputError
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity

Bytes = Annotated[int, Meta(ge=0)]
NodeId = Annotated[int, Meta(ge=0, le=NodeSet.limit - 1)]
NodeIds = Annotated[tuple[NodeId, ...], Meta(max_length=NodeSet.limit)]


class MemoryTable(Struct, frozen=True, rename="camel"):
    """One resource (memory, or huge pages of one size) on one node."""

    total: Bytes
    system_reserved: Bytes
    allocatable: Bytes
    reserved: Bytes
    free: Bytes


class NUMANodeState(Struct, frozen=True, rename="camel"):
    """One node: its tables by resource name, and the group it is in.

    `cells` is `(own id,)` for a node that is in no group. It is None only in a checkpoint
    that left the key out or wrote null.
    """

    number_of_assignments: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Counts (container, resource, node) triples, not containers."""
    memory_map: Mapping[str, MemoryTable]
    cells: NodeIds | None


class Block(Struct, frozen=True, rename="camel"):
    """One container's promise of one resource: the whole size over all nodes of its affinity."""

    numa_affinity: NodeIds | None
    type: str
    """`memory`, `hugepages-2Mi`, ..."""
    size: Bytes

    @classmethod
    def of(cls, type_: str, size: int, nodes: NodeSet) -> Self:
        return cls(tuple(nodes), type_, size)

    @property
    def nodes(self) -> NodeSet:
        return NodeSet.from_ids(self.numa_affinity or ())


MachineState = Mapping[NodeId, NUMANodeState]
"""Node id -> state."""

Entries = Mapping[str, Mapping[str, tuple[Block, ...]]]
"""Pod UID -> container name -> blocks, in the order they were stored."""


class MemoryState(Struct, frozen=True):
    """All that `memory_manager_state` keeps. `pod_entries` is used with PodLevelResourceManagers only."""

    machine: MachineState
    entries: Entries = field(default_factory=dict)
    pod_entries: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)


Reusable = Mapping[NodeSet, Mapping[str, int]]
"""Memory that a pod's ended init containers leave to its next containers: set of nodes -> resource -> bytes."""

SystemReserved = Mapping[int, Mapping[str, int]]
"""Node id -> resource -> bytes kept from pods."""


def default_machine_state(machine: Machine, reserved: SystemReserved) -> MachineState:
    """The memory map of a node without assignments.

    Nothing here checks that the reservations fit: as in the kubelet, a node that has less than is
    reserved gets a huge number. `check_reservations_fit` refuses that.
    """
    return {node.id: _default_node_state(node, reserved.get(node.id, {})) for node in machine.nodes}


class ReservedTooMuch(InputError):
    """More is reserved on a node than it has: no kubelet refuses that, it counts on with a huge number of bytes."""


def check_reservations_fit(machine: Machine, reserved: SystemReserved) -> None:
    """Raise ReservedTooMuch where a node has less memory than is reserved or taken by huge pages on it."""
    for node in machine.nodes:
        for resource, total, kept in _totals(node, reserved.get(node.id, {})):
            if kept > total:
                raise ReservedTooMuch(
                    f"NUMA node {node.id} has {total} bytes of {resource} but {kept} are reserved there"
                    f"{' or taken by huge pages' if resource == MEMORY else ''}: a kubelet would count "
                    f"{(total - kept) & UINT64} bytes as allocatable; reserve less on this node"
                )


def hugepages_name(page_size: int) -> str:
    """The resource of a huge page size in bytes: `hugepages-2Mi`."""
    return f"{HUGEPAGES_PREFIX}{Quantity.of(page_size)}"


def table_of(machine: MachineState, node: int, resource: str) -> MemoryTable:
    """A node's table of a resource. Raises InputError when there is none, where a kubelet would crash."""
    try:
        return machine[node].memory_map[resource]
    except KeyError:
        raise InputError(
            f"the machine state has no {resource} on NUMA node {node}, a kubelet would crash here; "
            f"it has nodes {', '.join(map(str, machine))}"
        ) from None


def charge(machine: MachineState, affinity: Sequence[int], resource: str, size: int) -> MachineState:
    """Count an assignment on every node of its affinity and take its size from them, first node first.

    What does not fit on any of them is dropped. All nodes of the affinity become one group.
    Raises InputError for a node or resource that is not in the map, where a kubelet would crash.
    """
    changed = dict(machine)
    left = size
    for id_ in affinity:
        table = table_of(changed, id_, resource)
        node = changed[id_]
        taken = min(left, table.free)
        left -= taken
        changed[id_] = NUMANodeState(
            node.number_of_assignments + 1, _move(node.memory_map, resource, taken), tuple(affinity)
        )
    return changed


def release(machine: MachineState, blocks: Iterable[Block]) -> MachineState:
    """Give the blocks back, each from the first node of its affinity on, wherever it was taken from.

    A node without assignments leaves its group. Raises InputError as `charge` does.
    """
    changed = dict(machine)
    for block in blocks:
        left = block.size
        for id_ in block.numa_affinity or ():
            table = table_of(changed, id_, block.type)
            node = changed[id_]
            given = min(left, table.reserved)
            left -= given
            assignments = node.number_of_assignments - 1
            changed[id_] = NUMANodeState(
                assignments,
                _move(node.memory_map, block.type, -given),
                node.cells if assignments else (id_,),
            )
    return changed


def allocatable_memory(machine: MachineState) -> tuple[Block, ...]:
    """One block for each node and resource that pods may have (PodResources `GetAllocatableResources`)."""
    return tuple(
        Block((id_,), resource, table.allocatable)
        for id_, node in machine.items()
        for resource, table in node.memory_map.items()
        if table.allocatable
    )


def _default_node_state(node: Node, reserved: Mapping[str, int]) -> NUMANodeState:
    tables: dict[str, MemoryTable] = {}
    for resource, total, kept in _totals(node, reserved):
        allocatable = (total - kept) & UINT64
        tables[resource] = MemoryTable(total, reserved.get(resource, 0), allocatable, reserved=0, free=allocatable)
    return NUMANodeState(number_of_assignments=0, memory_map=tables, cells=(node.id,))


def _totals(node: Node, reserved: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Each resource of a node: its name, its bytes, and how many of them pods may not have.

    The node's memory includes its huge pages.
    """
    pages = [(hugepages_name(one.page_size), one.total * one.page_size) for one in node.huge_pages]
    in_pages = sum(size for _, size in pages)
    rows = [(name, size, reserved.get(name, 0)) for name, size in pages]
    return [*rows, (MEMORY, node.memory or 0, reserved.get(MEMORY, 0) + in_pages)]


def _move(tables: Mapping[str, MemoryTable], resource: str, size: int) -> Mapping[str, MemoryTable]:
    """Move bytes of a resource from free to reserved (or back, when negative)."""
    if size == 0:
        return tables
    table = tables[resource]
    moved = MemoryTable(
        table.total, table.system_reserved, table.allocatable, table.reserved + size, (table.free - size) & UINT64
    )
    return {**tables, resource: moved}


def update_reusable(
    reusable: Mapping[str, Reusable], pod: Pod, container: str, blocks: Sequence[Block], features: KubeletFeatures
) -> Mapping[str, Reusable]:
    """An ordinary init container leaves its memory to the next containers, which use it up.

    What other pods left is forgotten.
    """
    left = {mask: dict(sizes) for mask, sizes in reusable.get(pod.uid, {}).items()}
    leaves = is_ordinary_init(pod, container, features)
    for block in blocks:
        mask = NodeSet.from_ids(block.numa_affinity or ())
        size = left.get(mask, {}).get(block.type, 0)
        if leaves:
            left.setdefault(mask, {})[block.type] = max(size, block.size)
        elif size:
            left[mask][block.type] = max(0, size - block.size)
    return {pod.uid: left} if left else {}


def shrink_init_blocks(
    containers: Mapping[str, tuple[Block, ...]],
    pod: Pod,
    container: str,
    blocks: Sequence[Block],
    features: KubeletFeatures,
) -> Mapping[str, tuple[Block, ...]]:
    """Take what a new container reuses out of the blocks of the init containers before it.

    So the blocks of a pod sum up to what was charged for it.
    """
    shrunk = dict(containers)
    sidecars = pod.known.sidecars if features.knows_sidecars else frozenset()
    for block in blocks:
        left, nodes = block.size, set(block.numa_affinity or ())
        for init in pod.init_containers:
            if left == 0 or init.name == container:
                break
            if init.name in sidecars or init.name not in shrunk:
                continue
            for one in shrunk[init.name]:
                if one.size and one.type == block.type and set(one.numa_affinity or ()) == nodes:
                    taken = min(left, one.size)
                    left -= taken
                    rest = replace(one, size=one.size - taken)
                    shrunk[init.name] = tuple([rest if other is one else other for other in shrunk[init.name]])
    return shrunk
