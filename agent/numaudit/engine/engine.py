"""One tick of a host: observe, judge, keep the probes to their budget, and report. The agent and every verb
make it here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.observer import Observer
from numaudit.errors import NumauditError
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.verdicts import DEFAULT, Thresholds
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import ContainerId, Snapshot

if TYPE_CHECKING:
    from numaudit.engine.overhead import Limiter
    from numaudit.probes.session import ProbeReadings, Session

_log = logging.getLogger(__name__)


class Ticked(Struct, frozen=True, eq=False):
    """All that one tick found."""

    snapshot: Snapshot
    judgements: Judgements
    report: Report
    observed_at: float
    """By the monotonic clock, for the wall clock may be set."""


def as_observed(snapshot: Snapshot) -> Snapshot:
    """Nothing is added to it."""
    return snapshot


class Engine(Struct):
    """The ticks of one host. Each one is judged by the one before it."""

    observer: Observer
    session: Session | None = None
    """The probes; None = there are none."""
    thresholds: Thresholds = DEFAULT
    accepted: Mapping[str, str] = field(default_factory=dict)
    """Rules of `numaudit setup` that somebody accepted -> why."""
    limiter: Limiter | None = None
    counts_from_load: bool = False
    """Counts are those since the probes were loaded, not since the tick before."""
    with_promises: Callable[[Snapshot], Snapshot] = as_observed
    """Adds promises that no kubelet made."""
    last: Ticked | None = None

    def tick(
        self,
        numa_maps_budget: float | None = None,
        numa_maps_of: frozenset[ContainerId] | None = None,
        with_processes: bool = False,
        devices: DeviceRequest | None = None,
    ) -> Ticked:
        """numa_maps is read only with a budget (seconds), and of these containers only if some are given.

        `with_processes`, `devices`: as `Observer.observe` has them.
        """
        readings = None if self.session is None else _readings(self.session)
        observed = self.observer.observe(
            mappings_budget=numa_maps_budget,
            readings=readings,
            mappings_of=numa_maps_of,
            with_processes=with_processes,
            devices=devices,
        )
        snapshot, observed_at = self.with_promises(observed), time.monotonic()
        last = None if self.counts_from_load else self.last
        before = None if last is None else last.snapshot
        earlier = None if self.last is None else self.last.judgements
        judgements = judge(snapshot, before, earlier, self.thresholds, self.accepted)
        snapshot = self._keep_budget(snapshot, judgements, readings)
        report = build(snapshot, judgements, before)
        self.last = Ticked(snapshot, judgements, report, observed_at)
        return self.last

    def _keep_budget(self, snapshot: Snapshot, judgements: Judgements, readings: ProbeReadings | None) -> Snapshot:
        """The snapshot with what measuring cost; probes that cost too much are paused from now on."""
        if self.limiter is None or readings is None:
            return snapshot
        try:
            return replace(snapshot, overhead=self.limiter.after_tick(snapshot, judgements, readings))
        except (NumauditError, OSError) as error:
            _log.warning("cannot limit the probes to their CPU budget: %s", error)
            return snapshot


def _readings(session: Session) -> ProbeReadings:
    from numaudit.probes.session import ProbeReadings  # noqa: PLC0415 (takes long, and most reports have no probes)

    return ProbeReadings(session)
