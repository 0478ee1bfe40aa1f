"""The part of the report about what a container's processes map."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from numaudit.report.values import MappedBytes, MappingsReport
from numaudit.snapshot import BytesByNode, Mappings, ProcessMapping
from numaudit.topology.nodeset import NodeSet

_LARGEST = 5
"""Pieces of shared memory, and mappings of processes, that are shown."""


def mappings_report(mappings: Mappings, of_others: BytesByNode) -> MappingsReport:
    """`of_others`: shared memory that is charged to others, by node."""
    shared = mappings.shared
    return MappingsReport(
        kinds=_flat(mappings.by_kind),
        policies=_flat(mappings.by_policy),
        page_sizes=_flat({str(size): by_node for size, by_node in sorted(mappings.by_page_size.items())}),
        processes_read=mappings.processes_read,
        processes=mappings.processes,
        shared=None if shared is None else shared[:_LARGEST],
        shared_of_others=None if shared is None else of_others,
        unsampled=mappings.unsampled,
    )


def elsewhere(mappings: Mappings, wanted: NodeSet) -> tuple[ProcessMapping, ...]:
    """The mappings with the most bytes on other nodes than the wanted ones, and only those bytes."""
    found = []
    for one in mappings.by_process:
        outside = {node: size for node, size in sorted(one.bytes_by_node.items()) if size and node not in wanted}
        if outside:
            found.append(structs.replace(one, bytes_by_node=outside))
    found.sort(key=lambda one: (-sum(one.bytes_by_node.values()), one.pid))
    return tuple(found[:_LARGEST])


def _flat(by_name: Mapping[str, BytesByNode]) -> tuple[MappedBytes, ...]:
    return tuple(
        MappedBytes(name, node, size) for name, by_node in by_name.items() for node, size in sorted(by_node.items())
    )
