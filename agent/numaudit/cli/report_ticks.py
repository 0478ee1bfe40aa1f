"""One report after another, for what is drawn until it is interrupted."""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.errors import Unavailable
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.observer import Observer
from numaudit.probes.session import Readings, Session
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import ContainerId, Snapshot


@dataclass(slots=True)
class Ticks:
    """Each tick is judged by the one before it, as the agent does; the probes stay loaded."""

    observer: Observer
    session: Session
    last: Snapshot | None = None
    judgements: Judgements | None = None

    def take(self, numa_maps_budget: float | None, mappings_of: ContainerId | None = None) -> Report:
        """Raises Unavailable where the cgroups cannot be read: an empty table would say that there are none.

        numa_maps is read only with a budget (seconds), and of this one container only if one is given.
        """
        snapshot = self.observer.observe(numa_maps_budget, Readings(self.session), mappings_of)
        judgements = judge(snapshot, self.last, self.judgements)
        report = build(snapshot, judgements, self.last)
        for one in report.sources:
            if one.source == "cgroups" and one.state not in ("ok", "partial"):
                raise Unavailable(f"no container could be read: {one.reason}")
        self.last, self.judgements = snapshot, judgements
        return report
