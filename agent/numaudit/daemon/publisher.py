"""One tick of the agent: observe, judge, keep the probes to their budget, and evaluate what is published."""

from __future__ import annotations

import logging
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from numaudit import __version__
from numaudit.config.settings import Settings
from numaudit.daemon.features import Features
from numaudit.daemon.logs import Changes
from numaudit.errors import NumauditError
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.exporters.exposition import Exposition, evaluate_containers, evaluate_tick
from numaudit.exporters.facts import Tick
from numaudit.exporters.limit import SeriesLimit
from numaudit.exporters.rejections import Rejections
from numaudit.exporters.selection import Selection
from numaudit.exporters.series import Ledger
from numaudit.kernel.host import Host, read_text
from numaudit.observer import Observer
from numaudit.overhead.limiter import Limiter
from numaudit.probes.session import Readings, Session
from numaudit.report.build import build
from numaudit.report.ended import last_counts
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import CollectorOutcome, Snapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """All that one tick found. Replaced as a whole, so that readers never see half of two ticks."""

    snapshot: Snapshot
    report: Report
    judgements: Judgements
    exposition: Exposition
    observed_at: float
    """By the monotonic clock, for the wall clock may be set."""


@dataclass(slots=True)
class Publisher:
    """Makes what a tick publishes. It remembers what the next tick is compared with."""

    settings: Settings
    observer: Observer
    session: Session | None
    started_at: float
    limiter: Limiter | None = None
    _booted_at: float | None = None
    _ledger: Ledger = field(init=False)
    _selection: Selection = field(init=False)
    _limit: SeriesLimit = field(init=False)
    _rejections: Rejections = field(init=False)
    _dropped: Counter[str] = field(default_factory=lambda: Counter(max_series=0, max_ended=0))
    _changes: Changes = field(default_factory=Changes)
    _features: Features = field(init=False)

    def __post_init__(self) -> None:
        self._features = Features(self.observer.host, self.session, lambda: self.observer.kubelet.readings)
        self._ledger = Ledger(began=self.started_at)
        self._limit = SeriesLimit(self.settings.metrics.max_series)
        self._rejections = Rejections(self.started_at)
        self.use(self.settings)
        self._booted_at = _booted_at(self.observer.host)

    def use(self, settings: Settings) -> None:
        """Other settings from the next tick on."""
        self.settings, limits = settings, settings.metrics
        self.observer.kubelet.poller.use_interval(settings.interval)
        self._ledger.most_ended = limits.max_ended
        self._selection = Selection(limits.include, limits.exclude)
        self._limit.most = limits.max_series

    def next_tick(self, before: Published | None, fetches: Sequence[int]) -> Published:
        """`fetches` is how often each output has been given the values since start."""
        readings = None if self.session is None else Readings(self.session)
        snapshot, observed_at = self.observer.observe(readings=readings), time.monotonic()
        last, earlier = (None, None) if before is None else (before.snapshot, before.judgements)
        judgements = judge(snapshot, last, earlier, thresholds=self.settings.verdicts.thresholds)
        snapshot = self._keep_budget(snapshot, judgements, readings)
        report = build(snapshot, judgements, last)
        ended = () if before is None else last_counts(before.report, snapshot)
        exposition = self._evaluate(report, ended, fetches)
        self._log_changes(report.sources)
        return Published(snapshot, report, judgements, exposition, observed_at)

    def _keep_budget(self, snapshot: Snapshot, judgements: Judgements, readings: Readings | None) -> Snapshot:
        """The snapshot with what measuring cost; probes that cost too much are paused from now on."""
        if self.limiter is None or readings is None:
            return snapshot
        try:
            return replace(snapshot, overhead=self.limiter.after_tick(snapshot, judgements, readings))
        except (NumauditError, OSError) as error:
            _log.warning("the probes cannot be kept to their budget: %s", error)
            return snapshot

    def _evaluate(self, report: Report, ended: Sequence[ContainerReport], fetches: Sequence[int]) -> Exposition:
        limits = self.settings.metrics
        series = self._ledger.update(self._selection.of(report.containers), report.taken_at, fetches, ended)
        containers = evaluate_containers(series, limits.labels, self._limit)
        omitted = containers.omitted
        self._dropped["max_series"] += omitted.series
        self._dropped["max_ended"] = self._ledger.forgotten
        if self._changes.is_news("max_series", omitted.series > 0, usual=False):
            _log.warning("max_series = %d: %d series are left out", limits.max_series, omitted.series)
        tick = Tick(
            report=report,
            version=__version__,
            python=platform.python_version(),
            started_at=self.started_at,
            booted_at=self._booted_at,
            features=self._features.after(report.sources),
            ended_containers=sum(one.ended for one in series),
            dropped_series=dict(self._dropped),
            omitted=omitted,
            rejections=self._rejections.update(report.rejections),
        )
        return evaluate_tick(tick, containers)

    def _log_changes(self, sources: Sequence[CollectorOutcome]) -> None:
        for one in sources:
            if self._changes.is_news(("source", one.source), one.state, usual="ok"):
                level = logging.INFO if one.state in ("ok", "absent", "unavailable") else logging.WARNING
                reason = f": {one.reason}" if one.reason else ""
                _log.log(level, "%s: %s%s", one.source, one.state, reason, extra={"topic": one.source})


def _booted_at(host: Host) -> float | None:
    """Since when the kernel counts: `btime` of /proc/stat."""
    try:
        lines = read_text(host.proc / "stat").splitlines()
    except OSError:
        return None
    words = next((line.split() for line in lines if line.startswith("btime ")), [])
    return float(words[1]) if len(words) == 2 and words[1].isdigit() else None
