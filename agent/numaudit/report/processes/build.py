"""Turns the processes of a snapshot into those of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from numaudit.counted import ProcessAccesses, Sampled, SeenRemote
from numaudit.evaluation.ranks.judge import summary
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank
from numaudit.evaluation.sources.expected import expected_of
from numaudit.evaluation.sources.pmu import share_of_process
from numaudit.process_placement import ContainerProcesses, ProcessPlacement, WatchedProcesses
from numaudit.report.processes.values import ProcessesReport, ProcessReport, RanksReport

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
