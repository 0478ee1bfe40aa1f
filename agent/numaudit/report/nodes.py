"""The part of the report about nodes: what each holds, how far its three accounts differ, and who holds its memory; and
one container's memory by two nodes: given, sampled and moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple, Self

from msgspec import Struct

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.values import ContainerReport, NodeBytes, NodeReport, Report, Residual
from numaudit.report.words import display_name, is_small_remainder
from numaudit.snapshot import BytesByNode, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine
from numaudit.topology.tiers import TieringReport


def by_node(resident: Resident, always: Iterable[int] = ()) -> tuple[NodeBytes, ...]:
    """A row for each node that any type names and for those of `always`, ascending."""
    columns: tuple[BytesByNode | None, ...] = _columns(resident)
    shown = [[*by] for by in columns if by]
    nodes = sorted(shown[0]) if shown else []
    sizes: list[Iterable[int | None]]
    if not always and shown.count(nodes) == len(shown):  # as the kernel shows them
        sizes = [repeat(None) if by is None else by.values() if by else repeat(0) for by in columns]
    else:
        nodes = sorted(set().union(always, *shown))
        sizes = [repeat(None) if by is None else map(by.get, nodes, repeat(0)) for by in columns]
    return tuple(map(NodeBytes, nodes, *sizes))


_columns = attrgetter(*NodeBytes.__struct_fields__[1:])
"""Of Resident: its fields have the same names."""


def node_report(memory: NodeMemory, machine: Machine) -> NodeReport:
    """One node by its own counters."""
    node = machine.by_id[memory.node]
    rows = {row.numa_node: row for row in by_node(memory.resident, always=(memory.node,))}
    return NodeReport(
        numa_node=memory.node,
        cpus=node.cpus,
        total_bytes=memory.total,
        free_bytes=memory.free,
        resident=rows[memory.node],
        numastat_bytes=memory.numastat,
        distances=dict(node.distances),
        sockets=machine.sockets.get(memory.node, ()),
        memory_tier=machine.tier_of(node.id),
        memory_speed=node.speed,
    )


def tiering_report(snapshot: Snapshot) -> TieringReport | None:
    """None = the kernel shows no tiers."""
    tiers, settings = snapshot.machine.shown_tiers, snapshot.tiers
    if tiers is None:
        return None
    if settings is None:
        return TieringReport(tiers, None, None, None)
    return TieringReport(tiers, settings.demotion, settings.keeps_cpuset, settings.numa_balancing)


def residuals(snapshot: Snapshot) -> tuple[Residual, ...]:
    """Of each node that shows its own account; none when the root cgroup's is not known."""
    unattributed = snapshot.unattributed
    if unattributed is None:
        return ()
    types = _compared_types(snapshot, unattributed)
    held = _sum_of_all(snapshot.residency.values(), types, [one.node for one in snapshot.nodes])
    free = unattributed.sum_of(types)
    rows = []
    for memory in snapshot.nodes:
        if memory.resident.anon is None or memory.resident.file is None:
            continue
        node_bytes = memory.resident.sum_of(types).get(memory.node, 0)
        container_bytes = held[memory.node]
        unused = free.get(memory.node, 0)
        residual = node_bytes - container_bytes - unused
        rows.append(Residual(memory.node, node_bytes, container_bytes, unused, residual, types))
    return tuple(rows)


def _sum_of_all(residents: Iterable[Resident], types: Sequence[str], nodes: Sequence[int]) -> dict[int, int]:
    """Bytes of some types on each of the nodes, over all containers."""
    read = attrgetter(*types)
    columns = [column for resident in residents for column in read(resident) if column]
    sums = {}
    for node in nodes:
        try:
            sums[node] = sum(map(itemgetter(node), columns))
        except KeyError:  # a group does not show it, as hardly ever
            sums[node] = sum([column.get(node, 0) for column in columns])
    return sums


def _compared_types(snapshot: Snapshot, unattributed: Resident) -> tuple[str, ...]:
    """Kernel memory is left out: most of a node's is charged to no cgroup, so there is nothing to compare.

    Huge pages count when every top group shows its own: those hold what the groups below them have.
    """
    types = ["anon", "shmem", "file"]
    if unattributed.unevictable is not None:
        types.append("unevictable")
    if unattributed.hugetlb is not None:
        top = [snapshot.residency.get(one.id) for one in snapshot.containers if one.path.count("/") == 1]
        if all(resident is None or resident.hugetlb is not None for resident in top):
            types.append("hugetlb")
    return tuple(types)


NodePair = tuple[int | None, int | None]
"""Two nodes; None = not known."""


class Pairs(NamedTuple):
    """Amounts by pair of nodes, and one that is of no pair."""

    amounts: Mapping[NodePair, int]
    beside: int


def given(one: ContainerReport) -> dict[NodePair, int]:
    """Bytes by the node of the CPU that asked and the node of the page."""
    return {(pair.cpu_numa_node, pair.numa_node): pair.bytes for pair in one.allocated or ()}


def sampled(one: ContainerReport) -> Pairs:
    """Pages by the node of the CPU that used them and their own; beside: those that moved to the CPU's node by it."""
    pages: Counter[NodePair] = Counter()
    for kind in one.hint_faults or ():
        pages[kind.cpu_numa_node, kind.numa_node] += kind.pages
    return Pairs(pages, sum(kind.pages for kind in one.hint_faults or () if "migrated" in kind.flags))


def moved(one: ContainerReport) -> Pairs:
    """Bytes that NUMA balancing moved, by the node they were on and the one they went to; beside: those that stayed."""
    pairs = one.migrated_between or ()
    bytes_: dict[NodePair, int] = {(pair.from_numa_node, pair.to_numa_node): pair.bytes for pair in pairs}
    return Pairs(bytes_, sum(pair.failed_bytes for pair in pairs))


_NAMED = 6


class Occupant(Struct, frozen=True):
    """A holder of a node's memory."""

    name: str
    bytes: int
    mark: str | None = None
    """A word for what is wrong with it."""
    outside: bool | None = None
    """Is the node outside the promised ones, or without a promise, away from its CPUs? None = there is no promise."""


class Occupants(Struct, frozen=True):
    """All of one node."""

    largest: tuple[Occupant, ...]
    others: int
    """Number of further holders."""
    bytes_of_others: int
    bytes: int
    """Of all together."""
    promised: int = 0
    """Of those that were promised this node."""
    outside: int = 0
    """Of those that were promised others, or that are away from their CPUs."""

    @classmethod
    def of(cls, all_of: Iterable[Occupant]) -> Self:
        """Those outside their promise first, of these and of the others the largest."""
        largest = sorted(all_of, key=lambda one: (not one.outside, -one.bytes, one.name))
        rest = largest[_NAMED:]
        return cls(
            tuple(largest[:_NAMED]),
            len(rest),
            sum(one.bytes for one in rest),
            sum(one.bytes for one in largest),
            sum(one.bytes for one in largest if one.outside is False),
            sum(one.bytes for one in largest if one.outside),
        )

    @property
    def unpromised(self) -> int:
        """Of those that nothing was promised to."""
        return self.bytes - self.promised - self.outside


def occupants(report: Report, node: int) -> Occupants:
    """By their judged bytes on the node."""
    return Occupants.of(
        Occupant(display_name(one), row.judged, _mark(one.verdict.name if one.verdict else ""), _outside(one, node))
        for one in report.containers
        for row in one.resident or ()
        if row.numa_node == node and row.judged and not is_small_remainder(one)
    )


def _outside(one: ContainerReport, node: int) -> bool | None:
    promised = None if one.intended is None else one.intended.memory_nodes
    if promised:
        return node not in promised
    cpus = one.allowed_cpu_nodes
    return True if one.remote_bytes and cpus is not None and node not in cpus else None


def _mark(verdict: str) -> str | None:
    return verdict if verdict in MISALIGNED else None
