"""A NUMA machine as values: nodes, CPUs, memory, huge pages, distances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field

from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemorySpeed, MemoryTiers, TopologyTier

_REMEMBERED_SETS = 4096


class HugePages(Struct, frozen=True):
    """The huge pages of one size on one node, in pages."""

    page_size: int
    """Bytes."""
    total: int
    free: int | None = None
    """Given to no process yet; those that a process has only reserved by mmap(2) are among them."""
    surplus: int | None = None
    """Of the total, pages that the kernel made beyond nr_hugepages; it gives them back when they are freed."""


class HugePagePool(Struct, frozen=True):
    """The huge pages of one size on the whole machine, in pages; None = the kernel does not say.

    The kernel keeps these two for no single node.
    """

    page_size: int
    """Bytes."""
    reserved: int | None = None
    """Free pages that processes have reserved by mmap(2) and not touched yet."""
    overcommit: int | None = None
    """Surplus pages that the kernel may make at most, where it finds memory for them."""


class Node(Struct, frozen=True):
    """One NUMA node that is online. A node may have no CPUs (CXL, HBM) or no memory."""

    id: int
    cpus: CpuSet = CpuSet()
    memory: int | None = None
    """MemTotal of the node's meminfo in bytes, huge pages included; None when unreadable."""
    huge_pages: tuple[HugePages, ...] = ()
    """By page size, ascending."""
    distances: Mapping[int, int] = field(default_factory=dict)
    """SLIT: node id -> relative distance, 10 = local. Empty when the firmware gives none."""
    speed: MemorySpeed | None = None
    """None when the firmware gives none."""


class Cpu(Struct, frozen=True):
    """One online logical CPU. None = the kernel does not say."""

    id: int
    node: int | None
    socket: int | None = None
    core: int | None = None
    """The kernel's core_id: unique within a socket (die) only."""
    siblings: CpuSet = CpuSet()
    """The threads of this CPU's core, itself included."""
    l3_cache: int | None = None
    """Id of the last-level (L3) cache instance."""


class Machine(Struct, frozen=True, dict=True):
    """The whole machine. Only online nodes are in `nodes`, ascending by id."""

    nodes: tuple[Node, ...]
    cpus: tuple[Cpu, ...] = ()
    possible: NodeSet = NodeSet()
    page_size: int = 4096
    """Bytes of a page of the kernel."""
    tiers: MemoryTiers | None = None
    """None = the kernel shows none, as before Linux 6.1."""

    def tier_of(self, node: int) -> int | None:
        """The number of a node's memory tier; None = it is in none, or they are not known."""
        tier = None if self.tiers is None else self.tiers.of(node)
        return None if tier is None else tier.id

    @property
    def shown_tiers(self) -> tuple[TopologyTier, ...] | None:
        """As documents show them."""
        if self.tiers is None:
            return None
        return tuple(TopologyTier(one.id, one.nodes, bool(one.nodes & self.with_cpus)) for one in self.tiers.tiers)

    @property
    def is_tiered(self) -> bool:
        """Has it several memory tiers, between which the kernel may move pages?"""
        return self.tiers is not None and self.tiers.are_several

    @cached_property
    def by_id(self) -> Mapping[int, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def distances(self) -> Mapping[int, Mapping[int, int]]:
        """From node -> to node -> distance; empty rows where the firmware gives none."""
        return {node.id: node.distances for node in self.nodes}

    @cached_property
    def sockets(self) -> Mapping[int, tuple[int, ...]]:
        """Node id -> ids of the sockets of its CPUs, ascending; no entry where none is known."""
        found: dict[int, set[int]] = {}
        for cpu in self.cpus:
            if cpu.node is not None and cpu.socket is not None:
                found.setdefault(cpu.node, set()).add(cpu.socket)
        return {node: tuple(sorted(sockets)) for node, sockets in found.items()}

    @cached_property
    def online(self) -> NodeSet:
        return NodeSet.from_ids(node.id for node in self.nodes)

    @cached_property
    def with_memory(self) -> NodeSet:
        return NodeSet.from_ids(node.id for node in self.nodes if node.memory)

    @cached_property
    def with_cpus(self) -> NodeSet:
        return NodeSet.from_ids(node.id for node in self.nodes if node.cpus)

    @cached_property
    def node_of_cpu(self) -> Mapping[int, int]:
        """CPU id -> node id, for every CPU that a node lists."""
        return {cpu: node.id for node in self.nodes for cpu in node.cpus}

    def cpu_nodes_of(self, nodes: NodeSet) -> NodeSet:
        """The nodes whose CPUs are local to this memory: those of them that have CPUs; or else, as for CXL and HBM
        memory, the nearest nodes that have some, by the firmware's distances. All with CPUs where those are not known.
        """
        with_cpus = self.with_cpus
        if nodes & with_cpus:
            return nodes & with_cpus
        found: set[int] = set()
        for one in self.nodes:
            near = {id_: one.distances[id_] for id_ in with_cpus if id_ in one.distances}
            if one.id in nodes and near:
                found |= {id_ for id_, distance in near.items() if distance == min(near.values())}
        return NodeSet.from_ids(found) or with_cpus

    def nodes_of_cpus(self, cpus: CpuSet) -> NodeSet:
        """The nodes that have at least one of these CPUs."""
        found = self._nodes_of_cpus.get(cpus.mask)
        if found is None:
            found = NodeSet.from_ids(node.id for node in self.nodes if not node.cpus.isdisjoint(cpus))
            if len(self._nodes_of_cpus) < _REMEMBERED_SETS:
                self._nodes_of_cpus[cpus.mask] = found
        return found

    @cached_property
    def _nodes_of_cpus(self) -> dict[int, NodeSet]:
        """Answers given before, by the set's mask: thousands of containers share a few sets."""
        return {}
