"""One tick of the agent, and who is given the result."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Sequence

from msgspec import Struct, field

from numaudit.config.settings import Settings
from numaudit.daemon.senders import Sender
from numaudit.daemon.ticks.health import HealthMonitor
from numaudit.daemon.ticks.publisher import Newest, Publisher
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.daemon.web.pages import LINKS
from numaudit.daemon.web.tick_document import TickDocuments
from numaudit.exporters.facts import PushCounts
from numaudit.exporters.prometheus import MetricPages
from numaudit.kernel.origin import origin_of
from numaudit.views.trends import Trends

_log = logging.getLogger(__name__)


class Ticker(Struct):
    """Ticks, and hands the result to every output."""

    publisher: Publisher
    newest: Newest
    pages: MetricPages
    pushed: PushCounts
    senders: Sequence[Sender]
    schedule: Schedule
    health: HealthMonitor
    trends: Trends = field(default_factory=Trends)

    def tick(self) -> None:
        """One tick. Whatever goes wrong in it, the next one comes."""
        gc.disable()  # a tick makes hardly any cycles, and its end frees as many values as it made
        begun, cpu_begun = time.monotonic(), time.thread_time()
        try:
            fetches = (self.pages.scrapes, self.pushed.deliveries)
            published = self.publisher.next_tick(self.newest.published, fetches)
            self.pages.publish(published.exposition)
            self.newest.published = published
            report, observed_at = published.ticked.report, published.ticked.observed_at
            origin = origin_of(self.publisher.engine.observer.host, report.taken_at)
            self.trends.add(report)
            interval = self.schedule.interval
            self.newest.documents = TickDocuments.of(report, observed_at, interval, LINKS, origin, self.trends)
            self.health.success(observed_at)
            for one in self.senders:
                one.there_is_a_tick()
        except Exception:
            self.health.failure()
            _log.exception("internal error in a tick")
        gc.enable()
        self.newest.tick_seconds = time.monotonic() - begun
        self.newest.tick_cpu_seconds = time.thread_time() - cpu_begun

    def use(self, settings: Settings) -> None:
        """Other settings from now on."""
        if settings.interval != self.schedule.interval:
            self.schedule.restart(settings.interval, time.monotonic())
            self.health.interval = settings.interval
        self.pages.created = settings.metrics.created
        self.publisher.use(settings)
