"""Estimated accesses, if every byte were used equally from wherever the CPUs ran: not a measurement."""

from __future__ import annotations

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.causes.shared_memory import used_bytes
from numaudit.evaluation.rates import expected_remote_ratio
from numaudit.evaluation.sources.base import AccessEvidence, AccessPair, SourceResult
from numaudit.evaluation.sources.by_process import expected_by_process
from numaudit.evaluation.window import Window
from numaudit.snapshot import Snapshot

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
