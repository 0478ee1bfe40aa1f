"""Where a container's bytes are, seen from where it may run."""

from __future__ import annotations

from collections.abc import Iterable

from numaudit.snapshot import JUDGED_TYPES, BytesByNode, Resident
from numaudit.topology.nodeset import NodeSet


def bytes_of(resident: Resident, types: Iterable[str]) -> dict[int, int]:
    """The sum of some types by node; types the kernel does not show add nothing."""
    sums: dict[int, int] = {}
    for kind in types:
        by_node: BytesByNode | None = getattr(resident, kind)
        for node, size in (by_node or {}).items():
            sums[node] = sums.get(node, 0) + size
    return sums


def remote_bytes(resident: Resident, cpu_nodes: NodeSet) -> int:
    """Judged bytes on nodes that have none of the container's CPUs: remote wherever it runs."""
    return sum(size for node, size in bytes_of(resident, JUDGED_TYPES).items() if node not in cpu_nodes)
