"""Where a container's bytes are, seen from where it may run."""

from __future__ import annotations

from numaudit.snapshot import BytesByNode, Resident
from numaudit.topology.nodeset import NodeSet


def bytes_outside(by_node: BytesByNode, nodes: NodeSet) -> int:
    """The bytes that are on none of the nodes."""
    inside = nodes.mask
    return sum([size for node, size in by_node.items() if size and not inside >> node & 1])


def remote_bytes(resident: Resident, cpu_nodes: NodeSet) -> int:
    """Judged bytes on nodes that have none of the container's CPUs: remote wherever it runs."""
    return bytes_outside(resident.judged, cpu_nodes)
