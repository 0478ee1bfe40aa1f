"""The agent, put together: each part is complete when it is made, and knows only parts that were made before it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Self

from msgspec import Struct

from numaudit import __version__
from numaudit.config.settings import Settings
from numaudit.daemon.loading import Loading
from numaudit.daemon.logs import RateLimit, use
from numaudit.daemon.loop import Loop, Notifier
from numaudit.daemon.reload import Reload, Reloading
from numaudit.daemon.senders import Sender, nrt_publisher, otlp_pusher
from numaudit.daemon.service import Inbox, Services
from numaudit.daemon.ticks.health import HealthMonitor, LiveNumbers
from numaudit.daemon.ticks.publisher import Newest, Publisher
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.daemon.ticks.ticker import Ticker
from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import Connections
from numaudit.daemon.web.pages import AgentSite
from numaudit.daemon.web.server import Server
from numaudit.engine.engine import Engine
from numaudit.exporters.facts import PushCounts
from numaudit.exporters.prometheus import MetricPages
from numaudit.nrt.apiserver import PublishCounts

_log = logging.getLogger(__name__)


class Agent(Struct, frozen=True, eq=False):
    """Its services and its main loop."""

    server: Server
    senders: Sequence[Sender]
    """Those that the settings ask for."""
    ticker: Ticker
    live: LiveNumbers
    site: AgentSite
    loop: Loop

    @classmethod
    def of(
        cls,
        settings: Settings,
        engine: Engine,
        log_limit: RateLimit,
        *,
        notifier: Notifier | None = None,
        loading: Loading | None = None,
        reload: Reload | None = None,
        services: Services | None = None,
    ) -> Self:
        """Bind the address. Raises InputError when it, the web-config file or the receiver of pushes is wrong.

        `loading` loads the engine's probes, `reload` = None means that the settings stay as they are, `services` are
        those that run already.
        """
        started_at, newest, services = time.time(), Newest(), services or Services()
        inbox = Inbox() if loading is None else loading.inbox
        access = AccessRules.by(settings.web.config_file)
        schedule = Schedule(settings.interval, time.monotonic())
        nrt_counts = PublishCounts() if settings.nrt.publish != "none" else None
        note = str if nrt_counts is None else nrt_counts.sentence
        health = HealthMonitor(settings.interval, services.died, note=note)
        requests, connections = Counter[tuple[str, str]](), Connections(settings.web.max_connections)
        pushed = PushCounts()
        live = LiveNumbers(
            started_at, newest, schedule, health, access, connections, requests,
            pushed if settings.otlp.endpoint else None, nrt_counts, log_limit, reload,
        )  # fmt: skip
        pages = MetricPages(live.exposition, settings.metrics.created, health.is_current)
        senders: list[Sender] = []
        if settings.otlp.endpoint:
            senders.append(otlp_pusher(settings, live.with_newest_tick, pushed, engine.observer.host))
        if nrt_counts is not None:
            senders.append(nrt_publisher(settings.nrt, newest, health.is_current, nrt_counts, engine.observer.host))
        ticker = Ticker(Publisher(settings, engine, started_at), newest, pages, pushed, senders, schedule, health)
        reloading = Reloading(settings, reload, access, (ticker.use, lambda new: use(new.log.level, new.log.format)))
        site = AgentSite(
            pages,
            lambda: newest.documents,
            health.is_current,
            health.health,
            health.readiness,
            access,
            requests=requests,
        )
        server = Server(settings.listen, site, access, connections, settings.web.timeout)
        loop = Loop(ticker, inbox, reloading, notifier or Notifier(), loading, services)
        return cls(server, senders, ticker, live, site, loop)

    def run(self) -> None:
        """Serve, tick and push until a signal. Raises NumauditError when a service does not start."""
        self.loop.run((self.server, *self.senders), self._announce)

    def _announce(self) -> None:
        _log.info("numaudit %s serves http on %s", __version__, self.server.address)
        if (exposure := self.server.exposure()) is not None:
            _log.warning("%s", exposure)
