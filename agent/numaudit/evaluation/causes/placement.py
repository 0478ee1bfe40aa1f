"""Place of a container's bytes, seen from the nodes where it may run; and shared memory that it uses and that is
charged to others.

Bytes outside the promised nodes are there to stay (`next_spill`), or on their way home.

The kernel charges a page of shared memory to whoever used it first, so it is in the residency of that container alone.
What others map of it shows in their numa_maps only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from numaudit.containermanager.pod.spec import full_name
from numaudit.evaluation.huge_pages import HugePagesOfContainer
from numaudit.evaluation.rates import ends_at
from numaudit.evaluation.verdicts import Thresholds
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


class Spill(Struct, frozen=True):
    """Bytes of one container that are outside the promised nodes, past the limits."""

    outside: int
    seen_since: float
    """Seconds since the epoch of the first tick that counts."""
    ticks: int
    """Number of successive ticks that count; 0 = its cpuset allows other nodes, so this is no spill yet."""
    unmapped: int
    """Of these, bytes in files in memory that no process maps, at least: the kernel never moves them."""
    settling: bool
    """Its cpuset was put right since they came there. The kernel then moves them, and memory.numa_stat lags behind."""
    huge_pages: tuple[HugePagesOfContainer, ...] = ()
    """The sizes of which some are outside."""
    unread: bool = False
    """As of the tick before: now its memory cannot be read."""

    def is_certain(self, now: float, thresholds: Thresholds) -> bool:
        """Is it no passing thing?"""
        if self.ticks < thresholds.spilled_ticks:
            return False
        # A clock that was set back says nothing.
        return not (self.settling and 0 <= now - self.seen_since < thresholds.settling_seconds)


def next_spill(
    resident: Resident,
    intended: NodeSet,
    drifted: bool,
    earlier: Spill | None,
    now: float,
    thresholds: Thresholds,
    huge_pages: Sequence[HugePagesOfContainer] = (),
) -> Spill | None:
    """The spill as of this tick; None = hardly any bytes are outside. `drifted`: the cpuset allows other nodes.

    Huge pages of each size are also judged alone: one page of 1 GiB is a small share of a large container, but all of
    what it was promised.
    """
    # What was seen before is not over until it is clearly less.
    factor = ends_at(1.0) if earlier is not None and earlier.ticks else 1.0
    outside = bytes_outside(resident.judged, intended)
    sizes = tuple([one for one in huge_pages if one.misplaced_bytes])
    if outside <= factor * thresholds.spilled_bytes and not sizes:
        return None
    if not _is_past(outside, sum(resident.judged.values()), thresholds, factor) and not any(
        _is_past(one.misplaced_bytes or 0, one.held, thresholds, factor) for one in sizes
    ):
        return None
    outside = max(outside, sum(one.misplaced_bytes or 0 for one in sizes))
    unmapped = unmapped_bytes_outside(resident, intended)
    if drifted:
        return Spill(outside, now, 0, unmapped, True, sizes)
    if earlier is None:
        return Spill(outside, now, 1, unmapped, False, sizes)
    moving = earlier.settling and outside < earlier.outside - thresholds.spilled_bytes
    if moving or not earlier.ticks:
        return Spill(outside, now, 1, unmapped, True, sizes)
    return Spill(outside, earlier.seen_since, earlier.ticks + 1, unmapped, earlier.settling, sizes)


def _is_past(outside: int, of: int, thresholds: Thresholds, factor: float) -> bool:
    return outside > factor * thresholds.spilled_bytes and outside > factor * thresholds.spilled_share * of
