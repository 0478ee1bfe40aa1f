"""The processes of a container as a report has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaudit.evaluation.access import Access
from numaudit.evaluation.ranks.rank import Rank, RankVerdict
from numaudit.process_placement import BytesByNode, ProcessPlacement
from numaudit.value import Timestamp, Value


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
