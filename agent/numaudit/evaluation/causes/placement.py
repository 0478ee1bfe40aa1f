"""Place of a container's bytes, seen from the nodes where it may run; and shared memory that it uses and that is
charged to others.

The kernel charges a page of shared memory to whoever used it first, so it is in the residency of that container alone.
What others map of it shows in their numa_maps only.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.pod.spec import full_name
from numaudit.snapshot import Allowed, BytesByNode, Container, ContainerId, Mappings, Resident, SharedMemory, Snapshot
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


def charged_to_others(container: ContainerId, mappings: Mappings | None, resident: Resident) -> dict[int, int]:
    """At least these bytes by node of the shared memory that it maps are charged to other containers.

    By the pages that were sampled, where all of a piece are another's; and by the accounts: it maps more than is
    charged to it. Its own shared memory that it does not map now may hide as much of others'.
    """
    total: dict[int, int] = {}
    if mappings is None or not mappings.shared:
        return total
    for kind in ("shmem", "hugetlb"):
        mapped: dict[int, int] = {}
        others: dict[int, int] = {}
        for one in mappings.shared:
            if one.kind == kind:
                _add(mapped, one.bytes_by_node)
                if one.charged_to not in (None, container):
                    _add(others, one.bytes_by_node)
        own: BytesByNode | None = getattr(resident, kind)
        for node, size in mapped.items():
            beyond = 0 if own is None else size - own.get(node, 0)
            found = max(beyond, others.get(node, 0))
            if found > 0:
                total[node] = total.get(node, 0) + found
    return total


def used_bytes(snapshot: Snapshot, container: ContainerId, resident: Resident) -> BytesByNode:
    """Judged bytes and the shared memory of others that it maps: what it may access. The first are its own account."""
    mappings = snapshot.numa_maps.get(container)
    shared = None if mappings is None else charged_to_others(container, mappings, resident)
    if not shared:
        return resident.judged
    return {node: resident.judged.get(node, 0) + shared.get(node, 0) for node in sorted({*resident.judged, *shared})}


def pieces_outside(container: ContainerId, mappings: Mappings, wanted: NodeSet) -> Iterator[tuple[SharedMemory, int]]:
    """Shared memory that is not the container's own for certain, and how many of its bytes are on other nodes."""
    for one in mappings.shared or ():
        outside = bytes_outside(one.bytes_by_node, wanted)
        if outside and one.charged_to != container:
            yield one, outside


def name_of(container: Container) -> str:
    """namespace/pod/container, or docker/name; else the cgroup path."""
    if container.kind != "container" or not container.name:
        return container.path
    if container.pod_uid is None:
        return f"{container.runtime}/{container.name}"
    return full_name(container.namespace, container.pod, container.pod_uid, container.name)


def _add(total: dict[int, int], more: BytesByNode) -> None:
    for node, size in more.items():
        total[node] = total.get(node, 0) + size
