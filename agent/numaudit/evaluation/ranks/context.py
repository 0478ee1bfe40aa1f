"""Parts of a snapshot that the rules of ranks ask for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.ranks.told import ProcessTold
from numaudit.snapshot import Allowed, ContainerId, Snapshot
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement
from numaudit.topology.nodeset import CpuSet, NodeSet


class RankContext(Struct, frozen=True):
    """Of one container."""

    cpus_of: Mapping[int, CpuSet]
    """Node -> its CPUs."""
    allowed: Allowed | None
    full_nodes: NodeSet
    """Nodes with next to no free memory now."""
    processes: Mapping[int, ProcessPlacement]
    told: Mapping[int, ProcessTold]
    thresholds: Thresholds = field(default=DEFAULT)

    @property
    def memory_only(self) -> NodeSet:
        """Nodes without CPUs."""
        return NodeSet.from_ids(node for node, cpus in self.cpus_of.items() if not cpus)

    def cpus_on(self, nodes: NodeSet) -> CpuSet:
        found = CpuSet()
        for node in nodes:
            found |= self.cpus_of.get(node, CpuSet())
        return found

    def nodes_of(self, cpus: CpuSet) -> NodeSet:
        return NodeSet.from_ids(node for node, own in self.cpus_of.items() if not own.isdisjoint(cpus))


def context_of(
    container: ContainerId, snapshot: Snapshot, processes: ContainerProcesses, told: Mapping[int, ProcessTold]
) -> RankContext:
    """Of a container whose processes were read."""
    full = (
        one.node
        for one in snapshot.nodes
        if one.free is not None and one.total and one.free < DEFAULT.full_node_share * one.total
    )
    return RankContext(
        {node.id: node.cpus or CpuSet() for node in snapshot.machine.nodes},
        snapshot.allowed.get(container),
        NodeSet.from_ids(full),
        {one.pid: one for one in processes.processes},
        told,
    )
