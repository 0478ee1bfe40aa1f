"""Place of a container's bytes, seen from the nodes where it may run."""

from __future__ import annotations

from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet


def bytes_outside(by_node: BytesByNode, nodes: NodeSet) -> int:
    """The bytes that are on none of the nodes."""
    inside, outside = nodes.mask, 0
    for node, size in by_node.items():
        if size and not inside >> node & 1:
            outside += size
    return outside


def unmapped_bytes_outside(resident: Resident, nodes: NodeSet) -> int:
    """Bytes of files in memory (tmpfs, System V segments) that are on none of the nodes, and that no process maps.

    At least: page cache that processes map on the same node hides as much of them. 0 where the kernel does not say.
    """
    if resident.shmem is None or resident.mapped is None:
        return 0
    mapped = resident.mapped
    return bytes_outside({node: max(0, size - mapped.get(node, 0)) for node, size in resident.shmem.items()}, nodes)


def remote_bytes(resident: Resident, cpu_nodes: NodeSet) -> int:
    """Judged bytes on nodes that have none of the container's CPUs: remote wherever it runs."""
    return bytes_outside(resident.judged, cpu_nodes)


def wanted_nodes(intended: NodeSet | None, allowed: Allowed | None, machine: Machine) -> NodeSet | None:
    """The nodes on which its bytes should be: on the promised nodes, or else near the CPUs it may use. None = not
    known."""
    if intended:
        return intended
    return None if allowed is None or allowed.cpus is None else machine.nodes_of_cpus(allowed.cpus)
