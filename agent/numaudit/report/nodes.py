"""The part of the report about nodes: what each holds, and how far its three accounts differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter, itemgetter

from numaudit.report.values import NodeBytes, NodeReport, Residual
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
