"""A NUMA machine as values: nodes, CPUs, memory, huge pages, distances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct, field

from numaudit.encoding.value import Value
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemorySpeed, MemoryTiers, TopologyTier

_REMEMBERED_SETS = 4096


class HugePages(Value, frozen=True):
    """The huge pages of one size on one node, in pages."""

    page_size: int = field(name="pageSizeBytes")
    """Size of a page."""
    total: int
    """Pages of the pool."""
    free: int | None = None
    """Given to no process yet; those that a process has only reserved by mmap(2) are among them. null = not known."""
    surplus: int | None = None
    """Of the total, pages that the kernel made beyond nr_hugepages; it gives them back when they are freed. null = not
    known."""


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
    cpus: CpuSet | None = CpuSet()
    """Its online CPUs; None = not known, which is not as if it had none."""
    memory: int | None = None
    """MemTotal of the node's meminfo in bytes, huge pages included; None when unreadable."""
    huge_pages: tuple[HugePages, ...] = ()
    """By page size, ascending."""
    distances: Mapping[int, int] = field(default_factory=dict)
    """SLIT: node id -> relative distance, 10 = local. Empty when the kernel shows none that can be used."""
    unused_distances: str | None = None
    """Beginning of the kernel's row where it has not one value for each online node; None = it has, or there is
    none."""
    speed: MemorySpeed | None = None
    """None when the firmware gives none."""


class Cpu(Struct, frozen=True):
    """One online logical CPU. None = the kernel does not say."""

    id: int
    node: int | None
    """None = also where several nodes list it."""
    socket: int | None = None
    core: int | None = None
    """The kernel's core_id: unique within a socket (die) only."""
    siblings: CpuSet = CpuSet()
    """The threads of this CPU's core, itself included."""
    l3_cache: int | None = None
    """Id of the last-level (L3) cache instance."""


class Cache(Struct, frozen=True):
    """A cache of instructions and data."""

    level: int
    cpus: CpuSet
    """Those that share it."""
    bytes: int | None = None
    """None = the kernel does not say."""


class Machine(Struct, frozen=True, dict=True):
    """The whole machine. Only online nodes are in `nodes`, ascending by id."""

    nodes: tuple[Node, ...]
    cpus: tuple[Cpu, ...] = ()
    possible: NodeSet = NodeSet()
    page_size: int = 4096
    """Bytes of a page of the kernel."""
    tiers: MemoryTiers | None = None
    """None = the kernel shows none."""

    def tier_of(self, node: int) -> int | None:
        """The number of a node's memory tier; None = it is in none, or they are not known."""
        tier = None if self.tiers is None else self.tiers.of(node)
        return None if tier is None else tier.id

    @property
    def shown_tiers(self) -> tuple[TopologyTier, ...] | None:
        """As documents show them."""
        if self.tiers is None:
            return None
        return tuple(TopologyTier(one.id, one.nodes, self._has_cpus(one.nodes)) for one in self.tiers.tiers)

    def _has_cpus(self, nodes: NodeSet) -> bool | None:
        return True if nodes & self.with_cpus else None if nodes & self.without_cpu_list else False

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
        """CPU id -> node id, for every CPU that exactly one node lists."""
        return only_node_of(self.nodes)

    def cpu_nodes_of(self, nodes: NodeSet) -> NodeSet:
        """The nodes whose CPUs are local to this memory: those of them that have CPUs; or else, as for CXL and HBM
        memory, the nearest nodes that have some, by the firmware's distances. All with CPUs where those are not known.
        A node whose CPUs are not known may have some.
        """
        with_cpus = self.with_cpus | self.without_cpu_list
        if nodes & with_cpus:
            return nodes & with_cpus
        found: set[int] = set()
        for one in self.nodes:
            near = {id_: one.distances[id_] for id_ in with_cpus if id_ in one.distances}
            if one.id in nodes and near:
                found |= {id_ for id_, distance in near.items() if distance == min(near.values())}
        return NodeSet.from_ids(found) or with_cpus

    def nodes_of_cpus(self, cpus: CpuSet) -> NodeSet | None:
        """The nodes that have at least one of these CPUs; None = the node of one of them is not known."""
        if cpus.mask in self._nodes_of_cpus:
            return self._nodes_of_cpus[cpus.mask]
        found = None
        if cpus.isdisjoint(self._unplaced) and (not self.without_cpu_list or cpus <= self.listed_cpus):
            found = NodeSet.from_ids(node.id for node in self.nodes if node.cpus and not node.cpus.isdisjoint(cpus))
        if len(self._nodes_of_cpus) < _REMEMBERED_SETS:
            self._nodes_of_cpus[cpus.mask] = found
        return found

    @cached_property
    def without_cpu_list(self) -> NodeSet:
        """The nodes whose CPUs are not known."""
        return NodeSet.from_ids(node.id for node in self.nodes if node.cpus is None)

    @cached_property
    def cpu_problem(self) -> str | None:
        """CPUs whose node is not known, in words; None = there are none."""
        problems = []
        if self.without_cpu_list:
            problems.append(f"the CPUs of {self.without_cpu_list.in_words} cannot be read (cpulist, cpumap, links)")
        several = self._unplaced & self.listed_cpus
        for cpus, where in ((self._unplaced - several, "no node"), (several, "several nodes at once")):
            if cpus:
                problems.append(f"{cpus.in_words} {'is' if len(cpus) == 1 else 'are'} on {where}")
        return "; ".join(problems) or None

    @cached_property
    def distance_problem(self) -> str | None:
        """Distances that the kernel shows and that cannot be used, in words; None = there are none."""
        rows = {node.id: node.unused_distances for node in self.nodes if node.unused_distances is not None}
        if not rows:
            return None
        return (
            f"the distances from {NodeSet.from_ids(rows).in_words} cannot be used: {len(self.nodes)} "
            f"{'node is' if len(self.nodes) == 1 else 'nodes are'} online, but a row is {next(iter(rows.values()))!r}"
        )

    @cached_property
    def listed_cpus(self) -> CpuSet:
        """The CPUs that any of its nodes lists."""
        return CpuSet.from_ids(cpu for node in self.nodes for cpu in node.cpus or ())

    @cached_property
    def _unplaced(self) -> CpuSet:
        """Online CPUs that are on no node, or on several."""
        return CpuSet.from_ids(cpu.id for cpu in self.cpus if cpu.node is None)

    @cached_property
    def _nodes_of_cpus(self) -> dict[int, NodeSet | None]:
        """Answers given before, by the set's mask: thousands of containers share a few sets."""
        return {}


def only_node_of(nodes: Iterable[Node]) -> Mapping[int, int]:
    """CPU -> its node, of those that exactly one of the nodes lists."""
    pairs = [(cpu, node.id) for node in nodes for cpu in node.cpus or ()]
    times = Counter(cpu for cpu, _ in pairs)
    return {cpu: node for cpu, node in pairs if times[cpu] == 1}
