"""Estimated accesses, if every byte were used equally from wherever the CPUs ran: not a measurement.

Where processes were read, the sum over them: each process's memory from where its threads ran. Two ranks, each with all
its memory and CPU time on a node of its own, expect no remote access; of the container as a whole half of them would be
expected.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.causes.placement import used_bytes
from numaudit.evaluation.rates import Window, distance_ratio, expected_remote_ratio
from numaudit.evaluation.sources.base import AccessEvidence, AccessPair, SourceResult
from numaudit.snapshot import Snapshot
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement

Distances = Mapping[int, Mapping[int, int]]


class ExpectedByProcess(Struct, frozen=True):
    """Sums over the processes of a container."""

    remote_ratio: float | None
    """None = unknown, or none of them ran."""
    distance_ratio: float | None
    unknown: str | None
    """Reason why the processes do not say it; None = they do."""


def expected_of(process: ProcessPlacement) -> float | None:
    """Share of its accesses that would be remote if it used every byte equally from wherever its threads ran."""
    return None if process.judged is None else expected_remote_ratio(process.judged, process.ran)


def expected_by_process(found: ContainerProcesses, distances: Distances) -> ExpectedByProcess:
    """Each process weighs as much as its CPU time. One without memory of its own, or that did not run, weighs nothing.

    Unknown where a process that may have run was not read.
    """
    unknown = _why_unknown(found)
    if unknown is not None:
        return ExpectedByProcess(None, None, unknown)
    total = remote = distance = 0.0
    has_distances = True
    for process in found.processes:
        memory, ran = process.judged or {}, process.ran
        expected, far = expected_remote_ratio(memory, ran), distance_ratio(memory, ran, distances)
        if expected is None:
            continue
        seconds = sum(ran.values())
        total += seconds
        remote += seconds * expected
        has_distances &= far is not None
        distance += seconds * (far or 0.0)
    if not total:
        return ExpectedByProcess(None, None, None)
    return ExpectedByProcess(remote / total, distance / total if has_distances else None, None)


def _why_unknown(found: ContainerProcesses) -> str | None:
    if found.unread is not None:
        return f"{found.alive - len(found.processes)} of {found.alive} processes were not read: {found.unread}"
    for process in found.processes:
        for part in process.unread:
            if part.what in ("status", "threads") or (part.what == "mappings" and process.ran):
                return f"{part.what} of process {process.pid} were not read: {part.reason}"
    return None


_NOTHING = "it did not run, or holds no memory"


class Expected:
    """Residence times CPU time."""

    name: Source = "expected"

    def runs(self, snapshot: Snapshot) -> bool:
        return snapshot.cpu_time is not None or bool(snapshot.processes)

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """By its processes where they were read, else of the container as a whole. Nothing where residence or CPU time
        is not known.
        """
        snapshot, container = evidence.snapshot, evidence.container
        processes = snapshot.processes.get(container)
        if processes is not None:
            found = expected_by_process(processes, snapshot.machine.distances)
            if found.unknown is None:
                reason = None if found.remote_ratio is not None else _NOTHING
                return SourceResult(Access("expected", "expectation", found.remote_ratio, reason=reason), window)
        resident = snapshot.residency.get(container)
        if resident is None or snapshot.cpu_time is None:
            return SourceResult(None, window)
        ran = snapshot.cpu_time.get(container, {})
        ratio = expected_remote_ratio(used_bytes(snapshot, container, resident), ran)
        reason = None if ratio is not None else _NOTHING
        return SourceResult(Access("expected", "expectation", ratio, reason=reason), window)
