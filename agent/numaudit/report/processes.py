"""The processes of a container, and what they map, as a report has them, made of those of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import structs

from numaudit.encoding.value import Timestamp, Value
from numaudit.evaluation.access import Access
from numaudit.evaluation.ranks.judge import summary
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank, RankVerdict
from numaudit.evaluation.sources import expected_of, share_of_process
from numaudit.snapshot import Mappings, ProcessMapping, SharedMemory
from numaudit.snapshot.counted import ProcessAccesses, Sampled, SeenRemote
from numaudit.snapshot.processes import BytesByNode, ContainerProcesses, ProcessPlacement, WatchedProcesses
from numaudit.topology.nodeset import NodeSet


class ProcessReport(ProcessPlacement, frozen=True):
    """One process: what places it, where it ran, and where its memory is."""

    judged_bytes: BytesByNode | None
    """Resident anonymous and shared memory, stack, heap and huge pages by node; null = not read."""
    cpu_seconds: Mapping[int, float]
    """CPU time of its threads by node. Without that of threads that have ended."""
    threads_elsewhere: int | None
    """Threads that ran last on a node where the main thread may not run; null = not known."""
    expected_remote_ratio: float | None
    """Share of its accesses that would be remote if it used every byte equally from wherever its threads ran; null = it
    did not run, or its memory is not known."""
    used_remotely_bytes: int | None
    """Memory that hint faults saw it use from another node, at least; null = none was seen, which proves nothing."""
    accesses: Access | None
    """Counted by the processor in the time of the measurement; null = it did not run, or none were counted."""


class ProcessesReport(Value, frozen=True):
    """The processes of one container."""

    items: tuple[ProcessReport, ...]
    alive: int
    unread: str | None
    cpu_time_since: Literal["start", "measurement"]
    """Beginning of the CPU times: the start of each thread, or of the measurement."""
    none_used_remotely: str | None
    """Reason why no process has `usedRemotelyBytes`; null = some have."""
    accesses_uncounted: str | None
    """Reason why no process has counted `accesses`; null = some have."""
    ranks: tuple[Rank, ...]
    """Those of them that were told where to be, or have bound themselves to nodes."""
    ranks_summary: str | None


class RanksReport(Value, frozen=True):
    """The ranks of one container, as the agent read them in its newest round."""

    verdicts: Mapping[RankVerdict, int]
    """Number of ranks that count, and of unbound processes, by each verdict."""
    items: tuple[Rank, ...]
    ranks_summary: str | None
    read_at: Timestamp
    """Time when the last of its processes was read."""
    alive: int
    unread: str | None


_NOT_MEASURED = "not measured; --duration 10s samples it where NUMA balancing does"
_NOT_COUNTED = "not counted; --duration 10s counts them where the processor tells local from remote memory"
_NONE_RAN = "none of its processes ran"
_NONE_SEEN = "the kernel saw none of its processes use memory of another node, which proves nothing"


def processes_report(
    found: ContainerProcesses,
    sampled: Sampled | None,
    accesses: ProcessAccesses | None,
    ranks: tuple[Rank, ...],
) -> ProcessesReport:
    """`sampled`: hint faults of the container; None = not measured, as are `accesses`, which have those of all.

    `ranks`: those of its processes that are some.
    """
    used = {} if sampled is None or sampled.by_process is None else sampled.by_process
    why = _NOT_MEASURED if sampled is None or sampled.by_process is None else _NONE_SEEN
    items = tuple(_process(one, used.get(one.pid), accesses) for one in found.processes)
    has_some = any(one.used_remotely_bytes is not None for one in items)
    return ProcessesReport(
        items,
        found.alive,
        found.unread,
        found.cpu_time_since,
        None if has_some else why,
        _why_uncounted(items, accesses),
        ranks,
        summary(ranks),
    )


def ranks_report(watched: WatchedProcesses, ranks: tuple[Rank, ...]) -> RanksReport:
    """Of processes that the agent has read."""
    counted = Counter(one.verdict for one in ranks if one.counts or one.verdict == "unbound")
    verdicts = {name: counted[name] for name in RANK_VERDICTS}
    read = watched.processes
    return RanksReport(verdicts, ranks, summary(ranks), watched.read_at, read.alive, read.unread)


def _process(one: ProcessPlacement, used: SeenRemote | None, accesses: ProcessAccesses | None) -> ProcessReport:
    return ProcessReport(
        **{name: getattr(one, name) for name in one.__struct_fields__},
        judged_bytes=one.judged,
        cpu_seconds=one.ran,
        threads_elsewhere=one.strays,
        expected_remote_ratio=expected_of(one),
        used_remotely_bytes=None if used is None else used.at_least or None,
        accesses=share_of_process(accesses, one.pid),
    )


def _why_uncounted(items: Iterable[ProcessReport], accesses: ProcessAccesses | None) -> str | None:
    """None = those of some are counted."""
    if accesses is None:
        return _NOT_COUNTED
    if accesses.refused is not None:
        return accesses.refused
    found = [one.accesses for one in items if one.accesses is not None]
    if any(one.counted is not None for one in found):
        return None
    return next((one.reason for one in found), _NONE_RAN)


_LARGEST = 5
"""Pieces of shared memory, and mappings of processes, that are shown."""


class MappedBytes(Value, frozen=True):
    """One kind of mapping, memory policy or page size of a container's processes."""

    name: str
    """The kind, policy or page size."""
    numa_node: int
    bytes: int


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
    """The largest pieces of shared memory that its processes map, charged to any container; null = not known."""
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
