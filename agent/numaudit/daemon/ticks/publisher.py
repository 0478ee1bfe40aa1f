"""Publication of a tick: its metrics, beside the report itself, and the features that the agent can measure on this
host, as the doctor finds them.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from numaudit import __version__
from numaudit.config.settings import Settings
from numaudit.daemon.logs import Changes
from numaudit.daemon.web.tick_document import TickDocuments
from numaudit.doctor.checks import examine
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.collectors.containers.rank_watch import WatchLimits
from numaudit.engine.engine import Engine, Ticked
from numaudit.evaluation.setup.facts import labels_of
from numaudit.exporters.exposition import Exposition, evaluate_containers, evaluate_tick
from numaudit.exporters.facts import ExportedTick, Feature
from numaudit.exporters.rejections import Rejections
from numaudit.exporters.selection import Selection, SeriesLimit
from numaudit.exporters.series import SeriesTracker
from numaudit.kernel.host import Host
from numaudit.kernel.tasks import booted_at
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session
from numaudit.report.build import last_counts
from numaudit.report.values import ContainerReport
from numaudit.snapshot import CollectorOutcome


class Features(Struct):
    """Examined at the first tick, and again when a source or a probe has changed its state."""

    host: Host
    session: Session | None
    """None = nothing is examined."""
    kubelet: Callable[[], KubeletReadings | None] = lambda: None
    """Readings of the kubelet in this tick; it has its share of a tick and is not asked again here."""
    _known: tuple[Feature, ...] = ()
    _examined_at: Hashable = None

    def after(self, sources: Sequence[CollectorOutcome]) -> tuple[Feature, ...]:
        """As they are after a tick in which the sources fared like this."""
        if self.session is None:
            return ()
        probes = {name: isinstance(one, ProbeRefusal) and one.reason for name, one in self.session.probes.items()}
        state = (tuple(probes.items()), tuple((one.source, one.state) for one in sources))
        if state != self._examined_at:
            self._examined_at = state
            self._known = tuple(map(Feature.of, examine(self.host, self.session, self.kubelet())))
        return self._known


_DEVICES_EVERY = 20
"""Ticks from one that reads the devices of containers to the next: five minutes at the usual interval."""
_DEVICES_SECONDS = 0.02
"""Time for them in such a tick. Containers that it does not suffice for come first in the next."""
_log = logging.getLogger(__name__)


class Published(Struct, frozen=True, eq=False):
    """A tick with its metrics. Replaced as a whole, so that readers never see half of two ticks."""

    ticked: Ticked
    exposition: Exposition


class Newest(Struct):
    """The newest tick. Other threads read it: each value is replaced as a whole."""

    published: Published | None = None
    """Of the newest tick that succeeded; None before the first."""
    documents: TickDocuments | None = None
    """Of the same tick."""
    tick_seconds: float | None = None
    """Of the newest tick, whether it succeeded or not."""
    tick_cpu_seconds: float | None = None


@dataclass(slots=True)
class Publisher:
    """Makes what a tick publishes. It remembers what the next tick is compared with."""

    settings: Settings
    engine: Engine
    started_at: float
    _booted_at: float | None = None
    _tracker: SeriesTracker = field(init=False)
    _selection: Selection = field(init=False)
    _limit: SeriesLimit = field(init=False)
    _rejections: Rejections = field(init=False)
    _dropped: Counter[str] = field(default_factory=lambda: Counter(max_series=0, max_ended=0))
    _changes: Changes = field(default_factory=Changes)
    _features: Features = field(init=False)
    _ticks: int = 0

    def __post_init__(self) -> None:
        observer = self.engine.observer
        self._features = Features(observer.host, self.engine.session, lambda: observer.collectors.kubelet.readings)
        self._tracker = SeriesTracker(began=self.started_at)
        self._limit = SeriesLimit(self.settings.metrics.max_series)
        self._rejections = Rejections(self.started_at)
        self.use(self.settings)
        self._booted_at = booted_at(observer.host)

    def use(self, settings: Settings) -> None:
        """Other settings from the next tick on."""
        self.settings, limits = settings, settings.metrics
        self.engine.thresholds = settings.verdicts.thresholds
        self.engine.accepted = dict(settings.setup.accepted)
        self.engine.observer.collectors.kubelet.poller.use(settings.interval, settings.kubelet.max_age)
        watch = settings.ranks
        limits_of_ranks = WatchLimits(watch.max_processes, watch.max_cpu_time, watch.interval)
        self.engine.observer.collectors.ranks.limits = limits_of_ranks if watch.enabled else None
        self._tracker.most_ended = limits.max_ended
        self._selection = Selection(limits.include, limits.exclude)
        self._limit.most = limits.max_series
        if self.engine.limiter is not None:
            self.engine.limiter.limit = settings.overhead.max_cpu_percent / 100

    def next_tick(self, before: Published | None, fetches: Sequence[int]) -> Published:
        """`fetches` is how often each output has been given the values since start."""
        is_due, self._ticks = self._ticks % _DEVICES_EVERY == 0, self._ticks + 1
        ticked = self.engine.tick(devices=DeviceRequest(_DEVICES_SECONDS) if is_due else None)
        report = ticked.report
        ended = () if before is None else last_counts(before.ticked.report, ticked.snapshot)
        exposition = self._evaluate(ticked, ended, fetches)
        self._log_changes(report.sources)
        return Published(ticked, exposition)

    def _evaluate(self, ticked: Ticked, ended: Sequence[ContainerReport], fetches: Sequence[int]) -> Exposition:
        limits, report = self.settings.metrics, ticked.report
        selected = self._selection.of(report.containers)
        series = self._tracker.update(selected, report.taken_at, fetches, ended)
        containers = evaluate_containers(series, limits.labels, self._limit)
        omitted = containers.omitted
        self._dropped["max_series"] += omitted.series
        self._dropped["max_ended"] = self._tracker.forgotten
        if self._changes.is_news("max_series", omitted.series > 0, usual=False):
            _log.warning(
                "metrics.max_series is %d, so %d series are left out; raise it or use metrics.exclude",
                limits.max_series,
                omitted.series,
            )
        tick = ExportedTick(
            report=report,
            version=__version__,
            python=platform.python_version(),
            started_at=self.started_at,
            booted_at=self._booted_at,
            selected=selected,
            features=self._features.after(report.sources),
            ended_containers=sum(one.ended for one in series),
            dropped_series=dict(self._dropped),
            omitted=omitted,
            setup=labels_of(ticked.judgements.facts),
            rejections=self._rejections.update(report.rejections),
        )
        return evaluate_tick(tick, containers)

    def _log_changes(self, sources: Sequence[CollectorOutcome]) -> None:
        """One line for each cause, however many sources it has, and for each source that works."""
        news: dict[tuple[str, str], list[str]] = {}
        for one in sources:
            if self._changes.is_news(("source", one.source), one.state, usual="ok"):
                if one.reason:
                    news.setdefault((one.state, one.reason), []).append(one.source)
                else:
                    _log.info("%s: %s", one.source, one.state, extra={"topic": one.source})
        for (state, reason), names in news.items():
            level = logging.INFO if state in ("ok", "absent", "unavailable") else logging.WARNING
            _log.log(level, "%s: %s: %s", ", ".join(names), state, reason, extra={"topic": names[0]})
