"""The part of the report about the Memory Manager's memory map, as its checkpoint has it.

The map and what it leaves are keyed by node, resource and number of nodes; a document has a row for each instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field, structs

from numaudit.containermanager.pod.spec import MEMORY, PodName
from numaudit.encoding.value import Value
from numaudit.evaluation.headroom import Unpromised
from numaudit.intent.node import Intent
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import at_most

if TYPE_CHECKING:
    from numaudit.containermanager.memory.headroom import Headroom, Holder
    from numaudit.containermanager.memory.state import MachineState
    from numaudit.scenario.values import Node


class MemoryTableReport(Value, frozen=True):
    """One resource on one node, in bytes."""

    numa_node: int
    type: str
    total: int = field(name="totalBytes")
    """Total memory of the node."""
    system_reserved: int = field(name="systemReservedBytes")
    """Memory that is kept from pods."""
    allocatable: int = field(name="allocatableBytes")
    """Memory that pods may have."""
    reserved: int = field(name="reservedBytes")
    """Memory that is promised to containers."""
    free: int = field(name="freeBytes")
    """Memory that is not promised."""


class MemoryNodeReport(Value, frozen=True):
    """Promises on one node."""

    numa_node: int
    group: NodeSet | None
    """The nodes of the promises on it; null = it has none."""
    assignments: int
    """Containers that hold memory or huge pages there, each resource counted."""
    stranded_bytes: int
    """Memory that is free, but for no container of one node, since the node is in a group of several."""
    unpromised_bytes: int | None
    """anon + shmem on it that no promise covers, of Burstable containers, services and all others; null = not known."""
    unpromised_in_free_bytes: int | None
    """Of these, what is beyond the system's reservation, and so in memory that is free in the map."""
    unpromised_in_reserved_bytes: int | None
    """Of these, what is beyond even that, and so in memory that was promised."""
    free_cpus: int | None = None
    """CPUs that a container may still get for itself; null = the CPU Manager is not static, or not known."""
    cpus: int | None = None
    """CPUs that containers have or may get for themselves, those reserved for the system left out; null as above."""


class HolderReport(Value, frozen=True):
    """A pod whose promises keep nodes in their group."""

    group: NodeSet
    """One node = it serves containers alone, and so joins no group."""
    namespace: str | None
    pod: str | None
    pod_uid: str
    stale: bool | None
    """Is the pod gone? The kubelet frees its memory at the next admission. null = not known."""
    bytes: Mapping[str, int]
    """By resource."""


class AdmissibleReport(Value, frozen=True):
    """The largest request for memory that would be admitted on so many nodes now; CPUs and devices may allow less."""

    node_count: int
    bytes: int


class HugePoolReport(Value, frozen=True):
    """The kernel's pool of huge pages of one size on one node; null = the kernel does not say."""

    numa_node: int
    total_bytes: int
    """All pages of the pool."""
    free_bytes: int | None
    """Pages that no process uses; reserved ones are among them."""
    surplus_bytes: int | None
    """Of the total, pages beyond nr_hugepages."""
    others_bytes: int | None
    """Used by whoever has no promise of pages of this size."""


class HugeRoomReport(Value, frozen=True):
    """Huge pages that are left on the nodes of a group, or on one node of no group; null = not known."""

    numa_nodes: NodeSet
    """The nodes."""
    map_free_bytes: int
    """Pages that the memory map would still promise."""
    kernel_free_bytes: int | None
    """Pages that the kernel has free there."""
    unclaimed_bytes: int | None
    """Of these, pages promised to containers that do not use them yet."""
    left_bytes: int | None
    """Pages that a new container can have: the smaller of both."""


class HugePageRow(NamedTuple):
    """One size on the nodes of a group, or on one node of no group, in bytes; None = not known."""

    nodes: NodeSet
    type: str
    map_free: int
    kernel_free: int | None
    unclaimed: int | None
    others: int | None
    """Used by whoever has no promise of pages of this size there."""
    left: int | None

    @property
    def short(self) -> int | None:
        """Bytes that the memory map would promise and the kernel cannot give."""
        return None if self.left is None else max(0, self.map_free - self.left)


class HugePagesReport(Value, frozen=True):
    """Huge pages of one size: what the memory map offers, what the kernel has, what containers use."""

    type: str
    page_size_bytes: int
    reserved_bytes: int
    """Free pages that processes have reserved on the machine and not touched; the kernel keeps no count by node."""
    pools: tuple[HugePoolReport, ...]
    """By node."""
    rooms: tuple[HugeRoomReport, ...]
    """By group or node."""
    admissible: tuple[AdmissibleReport, ...] | None
    """The largest request that would be admitted and that the kernel can give; null = not known."""


class MemoryManagerReport(Value, frozen=True):
    """The Memory Manager's memory map, and what it leaves to new containers."""

    tables: tuple[MemoryTableReport, ...]
    """Each resource on each node."""
    nodes: tuple[MemoryNodeReport, ...]
    """Promises on each node."""
    admissible: tuple[AdmissibleReport, ...] | None
    """null = the Topology Manager's policy is not known."""
    fragmentation_ratio: float | None
    """Share of the largest container of one node that all free memory would be enough for, but that is not admitted;
    null = nothing is free."""
    holders: tuple[HolderReport, ...]
    """By group, then by pod."""
    whole_cpu_bytes: int | None = None
    """Largest container of one node that would be admitted with one CPU of its own, where a node has one free; null =
    the CPU Manager is not static, or not known."""
    unrequested_cpus: float | None = None
    """CPUs, and parts of one, that pods may still request on this node as a whole; null = not all pods are known."""
    huge_pages: tuple[HugePagesReport, ...] = ()
    """By page size; empty = there are none, or the map stands alone."""

    def huge_page_rows(self) -> Iterator[HugePageRow]:
        """A row for each size and group, or node of no group, where the map or the kernel has some."""
        for of_size in self.huge_pages:
            pools = {pool.numa_node: pool for pool in of_size.pools}
            for room in of_size.rooms:
                here = [pools[node] for node in room.numa_nodes if node in pools]
                if not room.map_free_bytes and not any(pool.total_bytes for pool in here):
                    continue
                held = [pool.others_bytes for pool in here]
                others = None if None in held else sum(filter(None, held))
                figures = (room.map_free_bytes, room.kernel_free_bytes, room.unclaimed_bytes, others, room.left_bytes)
                yield HugePageRow(room.numa_nodes, of_size.type, *figures)

    @property
    def cpus_in_words(self) -> str:
        """The part that CPUs leave of it: `with at most 200m of CPU; none with whole CPUs, of which 0 of 7 are free`.

        Empty = that is not known.
        """
        parts = []
        if self.unrequested_cpus is not None:
            parts.append(f"with at most {1000 * self.unrequested_cpus:.0f}m of CPU")
        if self.whole_cpu_bytes is not None:
            free, of = (sum(getattr(one, name) or 0 for one in self.nodes) for name in ("free_cpus", "cpus"))
            most = at_most(self.whole_cpu_bytes) if self.whole_cpu_bytes else "none"
            parts.append(f"{most} with whole CPUs, of which {free} of {of} {'is' if free == 1 else 'are'} free")
        return "; ".join(parts)


def memory_manager_report(
    intent: Intent | None,
    unpromised: Mapping[int, Unpromised] | None = None,
    huge_pages: tuple[HugePagesReport, ...] = (),
) -> MemoryManagerReport | None:
    """None = there is no memory map: no kubelet, no checkpoint that can be read, or the policy None."""
    if intent is None or not intent.machine or intent.headroom is None:
        return None
    found = of_map(intent.machine, intent.headroom, intent.holders, _names(intent), unpromised or {}, intent.room)
    return structs.replace(found, huge_pages=huge_pages) if huge_pages else found


def of_map(
    machine: MachineState,
    headroom: Headroom,
    holders: tuple[Holder, ...],
    names: Mapping[str, PodName],
    unpromised: Mapping[int, Unpromised],
    room: Node | None = None,
) -> MemoryManagerReport:
    """The same of a memory map that stands alone; `names`: UID -> who a holder is."""
    tables = [
        MemoryTableReport(id_, name, table.total, table.system_reserved, table.allocatable, table.reserved, table.free)
        for id_, node in machine.items()
        for name, table in node.memory_map.items()
    ]
    nodes = []
    cpus = {} if room is None or room.cpus is None else room.cpus
    for id_, node in machine.items():
        free, every = cpus.get(id_, (None, None))
        others = unpromised.get(id_)
        nodes.append(
            MemoryNodeReport(
                id_,
                NodeSet.from_ids(node.cells or ()) if node.number_of_assignments else None,
                node.number_of_assignments,
                headroom.stranded[id_],
                None if others is None else others.held,
                None if others is None else others.in_free,
                None if others is None else others.in_reserved,
                free,
                every,
            )
        )
    admissible = headroom.admissible
    return MemoryManagerReport(
        tuple(tables),
        tuple(nodes),
        None if admissible is None else tuple(AdmissibleReport(size, most) for size, most in admissible.items()),
        headroom.fragmentation,
        tuple(_holder(one, names.get(one.pod_uid)) for one in holders),
        _with_whole_cpu(machine, headroom, {one for one, (free, _) in cpus.items() if free}) if cpus else None,
        None if room is None else room.unrequested_cpus,
    )


def _with_whole_cpu(machine: MachineState, headroom: Headroom, with_cpus: Set[int]) -> int:
    """Bytes of memory; 0 = no node with a free CPU has any for a container of one node."""
    free = (machine[id_].memory_map[MEMORY].free - headroom.stranded[id_] for id_ in with_cpus & machine.keys())
    return max(free, default=0)


def _holder(one: Holder, name: PodName | None) -> HolderReport:
    named = name or PodName(None, None, None)
    return HolderReport(one.group, named.namespace, named.pod, one.pod_uid, named.stale, one.bytes)


def _names(intent: Intent) -> dict[str, PodName]:
    names = {one.pod_uid: PodName(one.namespace, one.pod, one.is_stale) for one in intent.containers}
    return names | {uid: PodName(pod.namespace, pod.name, pod.has_ended) for uid, pod in (intent.pods or {}).items()}
