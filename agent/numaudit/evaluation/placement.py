"""Where a container's bytes are, seen from where it may run."""

from __future__ import annotations

from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet


def bytes_outside(by_node: BytesByNode, nodes: NodeSet) -> int:
    """The bytes that are on none of the nodes."""
    inside = nodes.mask
    return sum([size for node, size in by_node.items() if size and not inside >> node & 1])


def remote_bytes(resident: Resident, cpu_nodes: NodeSet) -> int:
    """Judged bytes on nodes that have none of the container's CPUs: remote wherever it runs."""
    return bytes_outside(resident.judged, cpu_nodes)


def wanted_nodes(intended: NodeSet | None, allowed: Allowed | None, machine: Machine) -> NodeSet | None:
    """Where its bytes should be: on the promised nodes, or else near the CPUs it may use. None = not known."""
    if intended:
        return intended
    return None if allowed is None or allowed.cpus is None else machine.nodes_of_cpus(allowed.cpus)
