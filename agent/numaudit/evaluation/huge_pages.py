"""Huge pages three ways, by page size: what the memory map offers, what the kernel has free, what containers hold; and
those of one container. A promise of 1 GiB pages is kept by 1 GiB pages only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct, field

from numaudit.containermanager.memory.headroom import HugePageRoom, HugePagesAtStart
from numaudit.containermanager.memory.state import MachineState, hugepages_name
from numaudit.containermanager.pod.spec import full_name
from numaudit.encoding.value import Value
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import BytesByNode, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import HugePages
from numaudit.topology.nodeset import NodeSet


class Claim(Struct, frozen=True):
    """A container's promise of huge pages of one size, in bytes."""

    container: ContainerIntent
    type: str
    nodes: NodeSet
    promised: int
    held: int | None
    """Bytes of them that it uses on these nodes; None = not known."""

    @property
    def unclaimed(self) -> int | None:
        """Bytes that it may still ask the kernel for."""
        return None if self.held is None else max(0, self.promised - self.held)


class HugePagesOfSize(Struct, frozen=True):
    """The huge pages of one size on the machine, in bytes."""

    type: str
    """hugepages-2Mi, ..."""
    room: HugePageRoom
    pools: Mapping[int, HugePages]
    """By node, in pages."""
    claims: tuple[Claim, ...]
    overcommit: int | None
    """Surplus that the kernel may make at most; None = not known."""

    def promised_on(self, nodes: NodeSet) -> frozenset[int]:
        """The cgroups of containers with a promise of these pages on some of the nodes."""
        there = (claim for claim in self.claims if not claim.nodes.isdisjoint(nodes))
        return frozenset(id_ for claim in there for id_ in claim.container.cgroups)

    def held(self, node: int) -> int | None:
        """Used on the node by anybody; None = not known."""
        pool = self.pools.get(node)
        return None if pool is None or pool.free is None else max(0, pool.total - pool.free) * pool.page_size


def page_sizes(nodes: Sequence[NodeMemory]) -> tuple[int, ...]:
    """Of all pools, empty ones too, ascending."""
    return tuple(sorted({pages.page_size for node in nodes for pages in node.huge_pages}))


def huge_pages_of(snapshot: Snapshot) -> tuple[HugePagesOfSize, ...]:
    """Of each page size that the kernel has a pool for, or that something was promised of."""
    intent = snapshot.intent
    of_machine = {pool.page_size: pool for pool in snapshot.huge_page_pools}
    found = []
    for page_size in page_sizes(snapshot.nodes):
        name, of_all = hugepages_name(page_size), of_machine.get(page_size)
        pools = {node.node: _pool(node, page_size) for node in snapshot.nodes}
        claims = () if intent is None else tuple(_claims(snapshot, intent, name, page_size))
        if not claims and not any(pages.total for pages in pools.values()):
            continue
        unclaimed: dict[NodeSet, int | None] = {}
        for one in claims:
            before = unclaimed.get(one.nodes, 0)
            unclaimed[one.nodes] = None if before is None or one.unclaimed is None else before + one.unclaimed
        free = {node: None if pool.free is None else pool.free * page_size for node, pool in pools.items()}
        reserved = 0 if of_all is None else (of_all.reserved or 0) * page_size
        overcommit = None if of_all is None or of_all.overcommit is None else of_all.overcommit * page_size
        found.append(
            HugePagesOfSize(name, HugePageRoom(page_size, free, unclaimed, reserved), pools, claims, overcommit)
        )
    return tuple(found)


def huge_pages_at_start(snapshot: Snapshot, *, reboot: bool) -> HugePagesAtStart:
    """Pages that a kubelet which starts now finds. After a reboot nobody uses any, and the pools are as large."""
    free: dict[str, Mapping[int, int | None]] = {}
    used: dict[tuple[str, str], dict[int, int | None]] = {}
    containers = () if snapshot.intent is None else snapshot.intent.containers
    for page_size in page_sizes(snapshot.nodes):
        name = hugepages_name(page_size)
        pools = {node.node: _pool(node, page_size) for node in snapshot.nodes}
        pages = {node: pool.total if reboot else pool.free for node, pool in pools.items()}
        free[name] = {node: None if count is None else count * page_size for node, count in pages.items()}
        for one in () if reboot else containers:
            own = used.setdefault((one.pod_uid, name), {})
            for id_, node in product(one.cgroups, pools):
                before = own.get(node, 0)
                held = held_on(snapshot.residency.get(ContainerId(id_)), page_size, NodeSet.of(node))
                own[node] = None if before is None or held is None else before + held
    return HugePagesAtStart(free, used)


def _pool(node: NodeMemory, page_size: int) -> HugePages:
    """A node that shows none of these pages has none if it has no memory at all; else it is not known."""
    unseen = HugePages(page_size, 0) if node.total else HugePages(page_size, 0, 0, 0)
    return next((pages for pages in node.huge_pages if pages.page_size == page_size), unseen)


def others(of_size: HugePagesOfSize, node: int, snapshot: Snapshot) -> int | None:
    """Bytes used on the node by whoever has no promise of its pages of this size; None = not known."""
    used, there = of_size.held(node), NodeSet.of(node)
    of_promised = (snapshot.residency.get(ContainerId(id_)) for id_ in of_size.promised_on(there))
    own = [held_on(resident, of_size.room.page_size, there) for resident in of_promised]
    return None if used is None or None in own else max(0, used - sum(filter(None, own)))


def largest_users(of_size: HugePagesOfSize, nodes: NodeSet, snapshot: Snapshot) -> list[tuple[str, int]]:
    """Containers and services that use pages of this size on the nodes without a promise of them, the largest first."""
    promised = of_size.promised_on(nodes)
    found = [
        (full_name(one.namespace, one.pod, one.pod_uid, one.name) if one.pod_uid else one.path, held)
        for one in snapshot.containers
        if one.id not in promised and (held := held_on(snapshot.residency.get(one.id), of_size.room.page_size, nodes))
    ]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def sets_in_force(machine: MachineState) -> tuple[NodeSet, ...]:
    """The sets of nodes that serve containers, by the memory map: each group of several, and each other node alone."""
    sets = (
        NodeSet.from_ids(node.cells or ()) if node.number_of_assignments else NodeSet() for node in machine.values()
    )
    return tuple(dict.fromkeys(group or NodeSet.of(id_) for id_, group in zip(machine, sets, strict=True)))


def held_on(resident: Resident | None, page_size: int, nodes: NodeSet) -> int | None:
    """Bytes that a container has in pages of one size on some nodes; None = not known."""
    if resident is None or resident.hugetlb is None:
        return None
    if resident.huge_pages is None:
        return None if any(resident.hugetlb.values()) else 0
    by_node: BytesByNode = resident.huge_pages.get(page_size, {})
    return sum(size for node, size in by_node.items() if node in nodes)


def _claims(snapshot: Snapshot, intent: Intent, name: str, page_size: int) -> Iterator[Claim]:
    for one in intent.alive:
        blocks = [block for block in one.promise.memory or () if block.type == name]
        for nodes in dict.fromkeys(NodeSet.from_ids(block.numa_affinity or ()) for block in blocks):
            promised = sum(block.size for block in blocks if NodeSet.from_ids(block.numa_affinity or ()) == nodes)
            held = [held_on(snapshot.residency.get(ContainerId(id_)), page_size, nodes) for id_ in one.cgroups]
            yield Claim(one, name, nodes, promised, None if None in held else sum(filter(None, held)))


class HugePagesOfContainer(Value, frozen=True):
    """A container's huge pages of one size: promised, and used."""

    type: str
    promised_bytes: int | None
    """Bytes of this size that were promised to it; null = not known."""
    promised_nodes: NodeSet | None
    """Nodes where they should be: of its promise of this size, or else of its memory; null = of no promise."""
    bytes_by_node: BytesByNode = field(name="bytes")
    """Bytes that it uses, by node."""
    misplaced_bytes: int | None
    """Of these, on other nodes than the promised ones; null = of no promise."""

    @property
    def held(self) -> int:
        """Bytes that it uses on all nodes."""
        return sum(self.bytes_by_node.values())


def by_page_size(resident: Resident | None, promise: Promise | None) -> tuple[HugePagesOfContainer, ...] | None:
    """Each size that it uses or was promised, the smallest first; None = its use by size is not known."""
    promised = {} if promise is None else promise.huge_pages
    if resident is None or resident.hugetlb is None:
        return None
    if not resident.huge_pages:
        if resident.huge_pages is None and any(resident.hugetlb.values()):
            return None
        if not promised:
            return ()
    used = {hugepages_name(size): by_node for size, by_node in sorted((resident.huge_pages or {}).items())}
    types = [name for name, by_node in used.items() if name in promised or any(by_node.values())]
    types += [name for name in promised if name not in used]
    return tuple([_of_size(name, used.get(name, {}), promise) for name in types])


def _of_size(name: str, used: BytesByNode, promise: Promise | None) -> HugePagesOfContainer:
    if promise is None or promise.memory is None:
        return HugePagesOfContainer(name, None, None, used, None)
    promised, own_nodes = promise.huge_pages.get(name, (0, None))
    nodes = own_nodes or promise.memory_nodes or None
    outside = None if nodes is None else sum(size for node, size in used.items() if node not in nodes)
    return HugePagesOfContainer(name, promised, nodes, used, outside)
