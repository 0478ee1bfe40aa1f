"""Where a container's bytes are, seen from where it may run."""

from __future__ import annotations

from numaudit.snapshot import Resident
from numaudit.topology.nodeset import NodeSet


def remote_bytes(resident: Resident, cpu_nodes: NodeSet) -> int:
    """Judged bytes on nodes that have none of the container's CPUs: remote wherever it runs."""
    return sum(size for node, size in resident.judged.items() if node not in cpu_nodes)
