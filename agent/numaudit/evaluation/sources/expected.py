"""Estimated accesses, if every byte were used equally from wherever the CPUs ran: not a measurement."""

from __future__ import annotations

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.causes.shared_memory import used_bytes
from numaudit.evaluation.rates import expected_remote_ratio
from numaudit.evaluation.sources.base import AccessEvidence, AccessPair, SourceResult
from numaudit.evaluation.window import Window
from numaudit.snapshot import Snapshot


class Expected:
    """Residence times CPU time."""

    name: Source = "expected"

    def runs(self, snapshot: Snapshot) -> bool:
        return snapshot.cpu_time is not None

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """Nothing where residence is not known."""
        snapshot, container = evidence.snapshot, evidence.container
        resident = snapshot.residency.get(container)
        if resident is None:
            return SourceResult(None, window)
        ran = (snapshot.cpu_time or {}).get(container, {})
        ratio = expected_remote_ratio(used_bytes(snapshot, container, resident), ran)
        reason = None if ratio is not None else "it did not run, or holds no memory"
        return SourceResult(Access("expected", "expectation", ratio, reason=reason), window)
