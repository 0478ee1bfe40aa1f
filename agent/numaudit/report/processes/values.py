"""The processes of a container as a report has them, made of those of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from numaudit.encoding.value import Timestamp, Value
from numaudit.evaluation.access import Access
from numaudit.evaluation.ranks.judge import summary
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank, RankVerdict
from numaudit.evaluation.sources import expected_of, share_of_process
from numaudit.snapshot.counted import ProcessAccesses, Sampled, SeenRemote
from numaudit.snapshot.processes import BytesByNode, ContainerProcesses, ProcessPlacement, WatchedProcesses


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
    """By their ids."""
    alive: int
    """Processes that live. More than are here: `unread` says why."""
    unread: str | None
    """Reason why some were not read at all; null = all were read."""
    cpu_time_since: Literal["start", "measurement"]
    """Beginning of the CPU times: the start of each thread, or of the measurement."""
    none_used_remotely: str | None
    """Reason why no process has `usedRemotelyBytes`; null = some have."""
    accesses_uncounted: str | None
    """Reason why no process has counted `accesses`; null = some have."""
    ranks: tuple[Rank, ...]
    """Those of them that were told where to be, or have bound themselves to nodes."""
    ranks_summary: str | None
    """The ranks in one sentence; null = there is none."""


class RanksReport(Value, frozen=True):
    """The ranks of one container, as the agent read them in its newest round."""

    verdicts: Mapping[RankVerdict, int]
    """Number of ranks that count, and of unbound processes, by each verdict."""
    items: tuple[Rank, ...]
    """By their ids."""
    ranks_summary: str | None
    """The ranks in one sentence; null = there is none."""
    read_at: Timestamp
    """Time when the last of its processes was read."""
    alive: int
    """Processes that lived then."""
    unread: str | None
    """Reason why some of them were not read at all; null = all were read."""


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
