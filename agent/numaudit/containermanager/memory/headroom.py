"""Memory that the Memory Manager could still promise, by its memory map alone.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints), pkg/kubelet/cm/topologymanager/policy_*.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from numaudit.containermanager.memory.candidates import largest_by_size
from numaudit.containermanager.memory.state import Block, MachineState, MemoryState, table_of
from numaudit.containermanager.pod.spec import MEMORY
from numaudit.containermanager.topologymanager.policy import POLICIES, RESTRICTED, SINGLE_NUMA_NODE
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet


class Holder(Struct, frozen=True):
    """A pod whose assignments keep nodes in their group: until all holders are gone, the group stays as it is."""

    pod_uid: str
    group: NodeSet
    """Nodes that serve its containers together; one node = it serves containers alone, and joins no group."""
    bytes: Mapping[str, int]
    """By resource."""


class Headroom(Struct, frozen=True):
    """Bytes of memory that are left to new containers; huge pages are not counted."""

    admissible: Mapping[int, int] | None
    """Number of nodes -> the largest request that would be admitted with a hint of that size; 0 = none would.
    None = the Topology Manager's policy is not known, or there are too many nodes to try all sets of them."""
    stranded: Mapping[int, int]
    """Node id -> bytes that are free there, but not for a container of one node: the node is in a group."""
    fragmentation: float | None
    """Share of the largest container of one node that all free memory would be enough for, but that is not admitted.
    0 = it is admitted, 1 = no node is left to containers of one node; None = nothing is free."""


def headroom_of(machine: MachineState, policy: str | None) -> Headroom:
    """Memory that is left under the Topology Manager's policy. A container's CPUs and devices may leave it less.

    Raises InputError for a map in which a node has no memory.
    """
    tables = {id_: table_of(machine, id_, MEMORY) for id_ in machine}
    grouped = {id_ for id_, node in machine.items() if len(node.cells or ()) > 1}
    stranded = {id_: table.free if id_ in grouped else 0 for id_, table in tables.items()}
    largest = max((min(one.free, one.allocatable) for id_, one in tables.items() if id_ not in grouped), default=0)
    together = min(
        sum(one.free for one in tables.values()), max((one.allocatable for one in tables.values()), default=0)
    )
    return Headroom(admissible(machine, policy), stranded, 1 - largest / together if together else None)


def admissible(
    machine: MachineState,
    policy: str | None,
    resource: str = MEMORY,
    limit: Callable[[NodeSet], int] | None = None,
) -> dict[int, int] | None:
    """Number of nodes -> the largest request for one resource that would be admitted with a hint of that size.

    `limit`: the most that a set of nodes can give, whatever the map says. None = the Topology Manager's policy is not
    known, or there are too many nodes to try all sets of them.
    """
    if policy not in POLICIES:
        return None
    try:
        largest = largest_by_size(machine, resource, limit)
    except InputError:
        return None
    found: dict[int, int] = {}
    fits_fewer = -1
    for size, (free, capacity) in largest.items():
        # A hint is preferred when no fewer nodes could hold the request even if they were empty.
        refused = (policy == SINGLE_NUMA_NODE and size > 1) or (policy == RESTRICTED and free <= fits_fewer)
        found[size] = 0 if refused else free
        fits_fewer = max(fits_fewer, capacity)
    return found


def holders_of(state: MemoryState) -> tuple[Holder, ...]:
    """The pods that hold nodes, by group and then by pod.

    A pod with blocks of its own counts once: its containers' blocks repeat them.
    """
    held: dict[tuple[NodeSet, str], dict[str, int]] = {}
    for uid, block in _blocks(state):
        amounts = held.setdefault((NodeSet.from_ids(block.numa_affinity or ()), uid), {})
        amounts[block.type] = amounts.get(block.type, 0) + block.size
    in_order = sorted(held.items(), key=lambda one: (tuple(one[0][0]), one[0][1]))
    return tuple(Holder(uid, group, amounts) for (group, uid), amounts in in_order if group)


def _blocks(state: MemoryState) -> Iterator[tuple[str, Block]]:
    for uid in {**state.entries, **state.pod_entries}:
        if uid in state.pod_entries:
            yield from ((uid, block) for block in state.pod_entries[uid])
        else:
            yield from ((uid, block) for blocks in state.entries[uid].values() for block in blocks)
