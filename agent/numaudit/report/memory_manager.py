"""The part of the report about the Memory Manager's memory map, as its checkpoint has it.

The map and what it leaves are keyed by node, resource and number of nodes; a document has a row for each instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.intent import Intent
from numaudit.topology.nodeset import NodeSet


@dataclass(frozen=True, slots=True)
class MemoryTableReport:
    """One resource on one node, in bytes."""

    numa_node: int
    type: str
    """memory, hugepages-2Mi, ..."""
    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@dataclass(frozen=True, slots=True)
class MemoryNodeReport:
    """One node's part in assignments."""

    numa_node: int
    group: NodeSet | None
    """The nodes of the assignments on it; null = it has none."""
    assignments: int
    """Containers that hold memory or huge pages there, each resource counted."""
    stranded_bytes: int
    """Memory that is free, but for no container of one node, since the node is in a group of several."""


@dataclass(frozen=True, slots=True)
class AdmissibleReport:
    """The largest request for memory that would be admitted on `width` nodes now; CPUs and devices may allow less."""

    nodes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryManagerReport:
    """The Memory Manager's memory map, and what it leaves to new containers."""

    tables: tuple[MemoryTableReport, ...]
    nodes: tuple[MemoryNodeReport, ...]
    admissible: tuple[AdmissibleReport, ...] | None
    """null = the Topology Manager's policy is not known."""


def memory_manager_report(intent: Intent | None) -> MemoryManagerReport | None:
    """None = there is no memory map: no kubelet, no checkpoint that can be read, or the policy None."""
    if intent is None or not intent.machine or intent.headroom is None:
        return None
    machine, headroom = intent.machine, intent.headroom
    tables = [
        MemoryTableReport(id_, name, table.total, table.system_reserved, table.allocatable, table.reserved, table.free)
        for id_, node in machine.items()
        for name, table in node.memory_map.items()
    ]
    nodes = [
        MemoryNodeReport(
            id_,
            NodeSet.from_ids(node.cells or ()) if node.number_of_assignments else None,
            node.number_of_assignments,
            headroom.stranded[id_],
        )
        for id_, node in machine.items()
    ]
    admissible = headroom.admissible
    return MemoryManagerReport(
        tuple(tables),
        tuple(nodes),
        None if admissible is None else tuple(AdmissibleReport(size, most) for size, most in admissible.items()),
    )
