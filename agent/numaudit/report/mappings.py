"""The part of the report about what a container's processes map."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from numaudit.encoding.value import Value
from numaudit.snapshot import BytesByNode, Mappings, ProcessMapping, SharedMemory
from numaudit.topology.nodeset import NodeSet

_LARGEST = 5
"""Pieces of shared memory, and mappings of processes, that are shown."""


class MappedBytes(Value, frozen=True):
    """One kind of mapping, memory policy or page size of a container's processes."""

    name: str
    """The kind, policy or page size."""
    numa_node: int
    bytes: int
    """Bytes of it on the node."""


class MappingsReport(Value, frozen=True):
    """From numa_maps. A page that several processes map counts once for each of them.

    Mappings as rows: JSON has no numbers as keys.
    """

    kinds: tuple[MappedBytes, ...]
    """By kind: anon, file, hugetlb, stack, heap."""
    policies: tuple[MappedBytes, ...]
    """By memory policy, as the kernel prints it."""
    page_sizes: tuple[MappedBytes, ...]
    """By page size."""
    processes_read: int
    """Number of processes that were read."""
    processes: int
    """Number of all processes; more than were read when time or permissions did not suffice."""
    shared: tuple[SharedMemory, ...] | None
    """The largest pieces of shared memory that its processes map, whoever they are charged to; null = not known."""
    shared_of_others: Mapping[int, int] | None
    """By node, at least these bytes of shared memory that it maps are charged to other containers: they are in the
    residency of those. null = not known."""
    unsampled: Mapping[str, int]
    """Bytes that NUMA balancing never samples, so nobody sees from where they are used: huge pages of the pool
    (`huge-pages`), memory under a policy without the balancing flag (`policy`), and files unless they are mapped for
    writing (`file`)."""
    interleave_weights: Mapping[int, int] | None = None
    """Weights by node of the policy weighted interleave, where it is one of the policies; null = it is not, or the
    kernel does not show them."""


def mappings_report(
    mappings: Mappings, of_others: BytesByNode, weights: Mapping[int, int] | None = None
) -> MappingsReport:
    """`of_others`: shared memory that is charged to others, by node. `weights`: of weighted interleave, by node."""
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
        interleave_weights=weights if any(map(is_weighted, mappings.by_policy)) else None,
    )


def is_weighted(policy: str) -> bool:
    """Is it weighted interleave, as the kernel prints it?"""
    return policy.startswith("weighted interleave")


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
