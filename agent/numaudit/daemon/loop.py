"""The agent at work: ticks, what they publish, and a clean end."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

import psutil

from numaudit import __version__
from numaudit.config.settings import Settings
from numaudit.daemon import logs, signals
from numaudit.daemon.inbox import Inbox
from numaudit.daemon.loading import Loading
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.notify import Notifier
from numaudit.daemon.publisher import Published, Publisher
from numaudit.daemon.pulse import Pulse
from numaudit.daemon.push import Push
from numaudit.daemon.reload import Reload
from numaudit.daemon.ticks import Beat
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.engine.overhead.limiter import Limiter
from numaudit.errors import InputError
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.facts import Live
from numaudit.exporters.prometheus import Pages
from numaudit.probes.session import Session
from numaudit.web.auth import Access
from numaudit.web.pages import LINKS, AgentSite
from numaudit.web.server import Server
from numaudit.web.tick_document import TickDocuments

_log = logging.getLogger(__name__)
_LONGEST_SLEEP = 2.0
_MOST_TO_STOP = 2.5
_LAST_PUSH = 1.5
"""Seconds for the last OTLP push when the agent ends."""
_PROBES_WITHIN = 3.0
"""Seconds that the first tick waits for the probes. Later ones take part in the ticks after."""


class Stopped(BaseException):
    """A signal asked the agent to end. It may interrupt anything, so only the loop may catch it."""


@dataclass(slots=True, repr=False)
class Daemon:
    """Ticks and publishes until a signal stops it."""

    settings: Settings
    observer: Observer
    session: Session | None
    log_limit: RateLimit
    notifier: Notifier = field(default_factory=Notifier)
    started_at: float = field(default_factory=time.time)
    published: Published | None = None
    tick_seconds: float | None = None
    tick_cpu_seconds: float | None = None
    limiter: Limiter | None = None
    loading: Loading | None = None
    """Of the session's probes."""
    reload: Reload | None = None
    """None = the settings stay as they are."""
    inbox: Inbox = field(init=False)
    pulse: Pulse = field(init=False)
    pages: Pages = field(init=False)
    server: Server = field(init=False)
    site: AgentSite = field(init=False)
    push: Push = field(init=False)
    publisher: Publisher = field(init=False)
    _beat: Beat = field(init=False)
    _process: psutil.Process = field(default_factory=psutil.Process)
    _signal: signal.Signals | None = None
    _hung_up: bool = False
    """A SIGHUP came, and the settings have not been read since."""
    _debugging: bool = False
    _documents: TickDocuments | None = None
    """Of the newest tick that succeeded."""

    def __post_init__(self) -> None:
        """Bind the address. Raises InputError when it or the web-config file is wrong."""
        settings = self.settings
        self.inbox = Inbox() if self.loading is None else self.loading.inbox
        access = Access.by(settings.web.config_file)
        self.pulse = Pulse(settings.interval)
        self.pages = Pages(self.live_numbers, settings.metrics.created, self.pulse.is_current)
        self.site = AgentSite(self.pages, lambda: self._documents, self.pulse.health, self.pulse.readiness, access)
        self.site.may_reload = lambda: self.settings.web.reload
        self.site.reload = lambda: self.inbox.ask(self.read_settings, self.settings.web.timeout)
        self.server = Server(settings.listen, self.site, access, settings.web.max_connections, settings.web.timeout)
        self.push = Push(settings, self.numbers, self.observer.host)
        self.publisher = Publisher(settings, Engine(self.observer, self.session, limiter=self.limiter), self.started_at)
        self._beat = Beat(settings.interval, time.monotonic())

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; ends within three seconds of it.

        From then on signals are ignored, and stay so: while the interpreter ends, Python would give all others their
        usual effect back, which is to die.
        """
        handlers = {
            signal.SIGTERM: self._on_end,
            signal.SIGINT: self._on_end,
            signal.SIGHUP: self._on_hang_up,
            signal.SIGUSR1: self._on_user_1,
        }
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._work()
        except Stopped as reason:
            _log.info("stopping after %s", reason)
        finally:
            for number in (*handlers, signal.SIGUSR2):
                signal.signal(number, signal.SIG_IGN)
            self._end()

    def _on_hang_up(self, _number: int, _: FrameType | None) -> None:
        self._hung_up = True
        self.inbox.put(self._reload_after_hang_up)

    def _on_user_1(self, _number: int, _: FrameType | None) -> None:
        self.inbox.put(self._switch_debugging)

    def _on_end(self, number: int, _: FrameType | None) -> None:
        if self._signal is not None:
            return
        self._signal = signal.Signals(number)
        last_resort = threading.Timer(_MOST_TO_STOP, _leave)
        last_resort.daemon = True
        last_resort.start()
        raise Stopped(self._signal.name)

    def _work(self) -> None:
        self.server.start()
        _log.info("numaudit %s serves http on port %d", __version__, self.server.port)
        if (exposure := self.server.exposure()) is not None:
            _log.warning("%s", exposure)
        if signals.early_hang_ups:
            self._on_hang_up(signal.SIGHUP, None)
        self._wait_until(time.monotonic() + _PROBES_WITHIN, lambda: self.loading is not None and self.loading.busy)
        self._beat = Beat(self.settings.interval, time.monotonic())
        while True:
            self.tick()
            if self.loading is not None:
                self.loading.begin_when_due(time.monotonic())
            if self.pulse.succeeded == 1:
                self.notifier.ready(f"one tick every {self.settings.interval:g} s")
            self.push.start_once(self.published is not None)
            self._beat.next_due(time.monotonic(), tuple(self.pages.scraped_at))
            self._wait_until(None)

    def tick(self) -> None:
        """One tick. Whatever goes wrong in it, the next one comes."""
        begun, cpu_begun = time.monotonic(), time.thread_time()
        try:
            fetches = (self.pages.scrapes, self.push.deliveries())
            published = self.publisher.next_tick(self.published, fetches)
            self.pages.publish(published.exposition)
            self.published = published
            report, observed_at = published.ticked.report, published.ticked.observed_at
            self._documents = TickDocuments.of(report, observed_at, self.settings.interval, LINKS)
            self.pulse.success(observed_at)
        except Exception:
            self.pulse.failure()
            _log.exception("internal error in a tick")
        self.tick_seconds = time.monotonic() - begun
        self.tick_cpu_seconds = time.thread_time() - cpu_begun
        self.notifier.alive()

    def _wait_until(self, end: float | None, still: Callable[[], bool] = lambda: True) -> None:
        """Until then, or the next tick is due (None), do what is asked for; with signs of life for systemd's watchdog.

        `still` may end it before. What waits already is done however late it is.
        """
        slice_ = min(_LONGEST_SLEEP, self.notifier.watchdog / 3 if self.notifier.watchdog else _LONGEST_SLEEP)
        left = slice_
        while left > 0:
            # Python drops an exception that a signal raises within a finaliser, so check here too.
            if self._signal is not None:
                raise Stopped(self._signal.name)
            left = (self._beat.due if end is None else end) - time.monotonic() if still() else 0.0
            self.inbox.work(max(0.0, min(left, slice_)))
            if self.reload is not None and self.reload.is_due():
                self._reload_by_itself()
            self.notifier.alive()

    def _reload_after_hang_up(self) -> None:
        """Once for all signals that came so far."""
        if self._hung_up:
            self._hung_up = False
            self._reload_by_itself()

    def _reload_by_itself(self) -> None:
        """Nobody waits for the outcome: it is in the log, and in the metrics."""
        with contextlib.suppress(InputError):
            self.read_settings()

    def read_settings(self) -> None:
        """Read the settings again, and use them. Raises InputError when they are wrong: then nothing changes."""
        if self.reload is None:
            return
        self.site.access.now()  # by rules of its own, which let no protection be lost
        settings = self.reload.again()
        if settings.interval != self.settings.interval:
            self._beat.restart(settings.interval, time.monotonic())
            self.pulse.interval = settings.interval
        self.settings = settings
        self.pages.created = settings.metrics.created
        self.publisher.use(settings)
        if self.limiter is not None:
            self.limiter.limit = settings.overhead.max_cpu_percent / 100
        self._set_up_log()

    def _switch_debugging(self) -> None:
        self._debugging = not self._debugging
        self._set_up_log()
        _log.warning("SIGUSR1: debug messages are %s", "on, until the next one" if self._debugging else "off again")

    def _set_up_log(self) -> None:
        log = self.settings.log
        logs.use("debug" if self._debugging else log.level, log.format)

    def _end(self) -> None:
        self.notifier.stopping()
        self.push.stop(_LAST_PUSH)
        self.server.stop()
        if self.session is not None:
            self.session.close()
        _log.info("stopped after %d ticks", self.pulse.succeeded)

    def live_numbers(self) -> Exposition:
        """What is true at this moment, as metrics."""
        return evaluate_live(self.live(), self.started_at)

    def numbers(self) -> list[Exposition]:
        """The newest tick and what is true at this moment."""
        newest = self.published
        current = [newest.exposition] if newest is not None and self.pulse.is_current() else []
        return [*current, self.live_numbers()]

    def live(self) -> Live:
        """What is true at this moment."""
        resident, virtual = self._memory()
        return Live(
            snapshot_age=self.pulse.age,
            ticks=self.pulse.succeeded,
            failed_ticks=self.pulse.failed,
            missed_ticks=self._beat.missed,
            tick_seconds=self.tick_seconds,
            tick_cpu_seconds=self.tick_cpu_seconds,
            cpu_seconds=time.process_time(),
            resident_bytes=resident,
            virtual_bytes=virtual,
            open_files=_open_files(),
            most_files=_most_files(),
            process_started_at=self._process.create_time(),
            threads=threading.active_count(),
            requests=dict(self.site.requests),
            connections=len(self.server.connections),
            evicted_connections=self.server.connections.evicted,
            web_config_valid=self.site.access.valid,
            otlp=self.push.counts(),
            suppressed_log_lines=self.log_limit.suppressed,
            reload_success=None if self.reload is None else self.reload.succeeded,
            reloaded_at=None if self.reload is None else self.reload.succeeded_at,
        )

    def _memory(self) -> tuple[int | None, int | None]:
        """Resident and virtual bytes."""
        try:
            memory = self._process.memory_info()
        except OSError:  # too many open files: what else is known is still said
            return None, None
        return memory.rss, memory.vms


def _leave() -> None:
    """End at once. There is nothing to save, and the kernel unloads BPF programs with their descriptors."""
    _log.warning("not everything ended in %g s; leaving all the same", _MOST_TO_STOP)
    os._exit(0)


def _open_files() -> int:
    """Linux 6.2 and later give the number without a list of thousands."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # noqa: PTH116, PTH208


def _most_files() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
