"""A rule about the devices of a rank: those on another node than the one to which it is bound."""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.evaluation.ranks.context import RankContext
from numaudit.evaluation.ranks.cpu_rules import cpus_of
from numaudit.evaluation.ranks.memory_rules import NotRead, policy_in_force
from numaudit.process_placement import ProcessPlacement
from numaudit.ranks.declaration import Declaration
from numaudit.ranks.told import DeviceKind, HeldDevice
from numaudit.topology.nodeset import NodeSet

_COMPARED: tuple[DeviceKind, ...] = ("gpu", "vfio", "infiniband", "network")
"""A disk serves the whole node."""


def devices_elsewhere(
    declarations: Sequence[Declaration],
    devices: Sequence[HeldDevice],
    process: ProcessPlacement,
    context: RankContext,
) -> tuple[HeldDevice, ...]:
    """Devices on nodes that are neither declared nor in force, of a rank that has one node with CPUs."""
    try:
        own = _nodes(declarations, process, context) - context.memory_only
    except NotRead:
        return ()
    if len(own) != 1:
        return ()
    away = []
    for kind in _COMPARED:
        of_kind = [one for one in devices if one.kind == kind]
        if all(_is_away(one, own, context) for one in of_kind):
            away += of_kind
    return tuple(away)


def _nodes(declarations: Sequence[Declaration], process: ProcessPlacement, context: RankContext) -> NodeSet:
    """Declared and in force. Raises NotRead."""
    nodes = context.nodes_of(cpus_of(process)) | policy_in_force(process).nodes
    for one in declarations:
        nodes |= one.memory_nodes or NodeSet()
        nodes |= NodeSet() if one.cpus is None else context.nodes_of(one.cpus)
    return nodes


def _is_away(device: HeldDevice, own: NodeSet, context: RankContext) -> bool:
    """Next to a node without CPUs no process can run."""
    node = device.numa_node
    return node is not None and node not in own and bool(context.cpus_of.get(node))
