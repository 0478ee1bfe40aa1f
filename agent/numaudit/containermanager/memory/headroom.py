"""Memory that the Memory Manager could still promise, by its memory map, and of huge pages what the kernel has of it.

The Memory Manager counts promises only. A process of any other pod may have taken the pages that a promise is made of:
the kubelet admits the pod, and the pod's mmap(2) fails (ENOMEM), or its first touch does (SIGBUS).

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints), pkg/kubelet/cm/topologymanager/policy_*.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from numaudit.containermanager.memory.candidates import largest_by_size
from numaudit.containermanager.memory.state import Block, MachineState, MemoryState, table_of
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.topologymanager.policy import POLICIES, RESTRICTED, SINGLE_NUMA_NODE
from numaudit.encoding.value import Value
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units


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


class HugePageRoom(Struct, frozen=True):
    """Huge pages of one size that the kernel has free, in bytes."""

    page_size: int
    free: Mapping[int, int | None]
    """Node id -> free in its pool; None = the kernel does not say."""
    unclaimed: Mapping[NodeSet, int | None] = field(default_factory=dict)
    """Nodes of promises -> what their containers do not use yet; None = that is not known."""
    reserved: int = 0
    """Free pages that processes have reserved by mmap(2): on the machine as a whole, since the kernel keeps no count by
    node."""

    def free_on(self, nodes: NodeSet) -> int | None:
        """Free pages of these nodes; None = not known of one of them."""
        sizes = [self.free.get(node) for node in nodes]
        return None if None in sizes else sum(filter(None, sizes))

    def unclaimed_on(self, nodes: NodeSet) -> int | None:
        """The part of them that is promised to containers which do not use it yet; None = not known."""
        sizes = [size for on, size in self.unclaimed.items() if not on.isdisjoint(nodes)]
        return None if None in sizes else sum(filter(None, sizes))

    def left(self, nodes: NodeSet) -> int | None:
        """The bytes that a new container can have on these nodes by the kernel, whole pages; None = not known.

        Free pages less those that earlier promises may still claim. On the machine as a whole no more is left than
        what neither promises nor other processes' reservations claim.
        """
        free, unclaimed = self.free_on(nodes), self.unclaimed_on(nodes)
        if free is None or unclaimed is None:
            return None
        left = free - unclaimed
        if None not in self.free.values():
            everywhere = sum(size or 0 for size in self.free.values())
            claimed = max(self.reserved, sum(size or 0 for size in self.unclaimed.values()))
            left = min(left, everywhere - claimed)
        return max(0, left) // self.page_size * self.page_size


class HugePageShortage(Value, frozen=True):
    """Huge pages that the memory map has and the kernel does not, in bytes."""

    type: str
    """hugepages-2Mi, ..."""
    numa_nodes: NodeSet
    """Nodes of the promise."""
    requested_bytes: int
    """Bytes that the pod asks for."""
    map_free_bytes: int
    """Free by the memory map."""
    kernel_free_bytes: int
    """Free in the kernel's pools of these nodes."""
    unclaimed_bytes: int
    """Of these, what is promised to containers that do not use it yet."""
    left_bytes: int
    """Pages that are left for a new container."""


class HugePagesAtStart(Struct, frozen=True):
    """Huge pages that the kernel has when a kubelet starts, in bytes; None = not known."""

    free: Mapping[str, Mapping[int, int | None]]
    """Resource (hugepages-2Mi) -> node -> free in its pool."""
    used: Mapping[tuple[str, str], Mapping[int, int | None]] = field(default_factory=dict)
    """(Pod's UID, resource) -> node -> used by the pod's own containers, which need no other pages."""

    def lacking(self, after: MemoryState, uid: str) -> str | None:
        """The pages of a pod that are neither free nor its own, in words. None = it has all, or that is not known."""
        for (nodes, name), size in _promised(after, uid).items():
            own = self.used.get((uid, name), {})
            there = [self.free.get(name, {}).get(node) for node in nodes]
            figures = [*there, *(own.get(node, 0) for node in nodes)]
            if None in figures or sum(filter(None, figures)) >= size:
                continue
            free, uses = sum(filter(None, there)), sum(filter(None, figures[len(there) :]))
            return (
                f"{name} on {nodes.in_words}: it asks for {in_units(size)}; the kernel has {in_units(free)} free "
                f"there, and it uses {in_units(uses)}"
            )
        return None


def _promised(after: MemoryState, uid: str) -> dict[tuple[NodeSet, str], int]:
    """Huge pages that the memory map promises to a pod, by nodes and resource."""
    asked: dict[tuple[NodeSet, str], int] = {}
    blocks = after.pod_entries.get(uid) or [one for own in after.entries.get(uid, {}).values() for one in own]
    for block in blocks:
        if block.type.startswith(HUGEPAGES_PREFIX) and block.size:
            key = NodeSet.from_ids(block.numa_affinity or ()), block.type
            asked[key] = asked.get(key, 0) + block.size
    return asked


def admissible_huge_pages(
    machine: MachineState, policy: str | None, resource: str, room: HugePageRoom
) -> dict[int, int] | None:
    """Number of nodes -> the largest request for pages of one size that the map admits and the kernel can give.

    0 = none. None = the policy is not known, there are too many nodes, or the kernel does not say.
    Raises InputError for a map in which a node does not have the resource.
    """
    if any(room.left(NodeSet.of(node)) is None for node in machine):
        return None
    found = admissible(machine, policy, resource, lambda nodes: room.left(nodes) or 0)
    if found is None:
        return None
    return {size: most // room.page_size * room.page_size for size, most in found.items()}


def shortages(
    before: MachineState, after: MemoryState, pods: frozenset[str], rooms: Mapping[str, HugePageRoom]
) -> tuple[HugePageShortage, ...]:
    """The huge pages that the kernel cannot give to pods which an admission has just promised them.

    `before`: the map before it; `pods`: their UIDs. Sizes that `rooms` does not have, by resource, are not judged.
    """
    asked: dict[tuple[NodeSet, str], int] = {}
    for uid in sorted(pods):
        for key, size in _promised(after, uid).items():
            asked[key] = asked.get(key, 0) + size
    found = []
    for (nodes, name), size in asked.items():
        room = rooms.get(name)
        left = None if room is None else room.left(nodes)
        if room is not None and left is not None and left < size:
            by_map = sum(table_of(before, node, name).free for node in nodes)
            free, unclaimed = room.free_on(nodes) or 0, room.unclaimed_on(nodes) or 0
            found.append(HugePageShortage(name, nodes, size, by_map, free, unclaimed, left))
    return tuple(found)
