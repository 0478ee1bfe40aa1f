"""Ticks for `numaudit top`, measured in a thread of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.cli import options
from numaudit.cli.manager.explain_work import PromiseAccounts
from numaudit.cli.observe.report_work import MAPPINGS_BUDGET, ReportSelection, observe_whole
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import NumauditError, Unavailable
from numaudit.kernel.host import explain
from numaudit.report.values import Report
from numaudit.snapshot import ContainerId
from numaudit.views.top.news import Failed, FeedEnded, News, Opened, TickBegan, TickFigures, find
from numaudit.views.trends import RowKey

_PATIENCE = 5.0
"""Seconds for the last tick, once the screen is closed."""


class _Asked(Struct):
    """Requests of the screen; guarded by its condition, which is notified of every change."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    stopped: bool = False
    paused: bool = False
    at_once: bool = False
    """The next tick is not to wait for its time."""
    interval: float | None = None
    """A new one; None = it is as it was."""
    open: RowKey | None = None


_DEVICES_SECONDS = 0.2


class LiveFeed:
    """This host, tick after tick; the probes stay loaded."""

    captured: str | None = None

    def __init__(self, observer: Observer, view: ReportSelection, interval: float) -> None:
        self.interval = interval
        self._observer, self._view = observer, view
        self._asked = _Asked()
        self._thread: threading.Thread | None = None
        self._last: Report | None = None

    def start(self, tell: Callable[[News], None]) -> None:
        self._thread = threading.Thread(target=self._run, args=(tell,), name="ticks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits until the probes are gone, or for a few seconds."""
        with self._asked.changed:
            self._asked.stopped = True
            self._asked.changed.notify()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def set_paused(self, paused: bool) -> None:
        with self._asked.changed:
            self._asked.paused, self._asked.at_once = paused, not paused
            self._asked.changed.notify()

    def set_interval(self, seconds: float) -> None:
        with self._asked.changed:
            self._asked.interval = self.interval = seconds
            self._asked.changed.notify()

    def open(self, key: RowKey | None) -> None:
        with self._asked.changed:
            self._asked.open = key
            self._asked.at_once |= key is not None
            self._asked.changed.notify()

    def _run(self, tell: Callable[[News], None]) -> None:
        try:
            with self._observer.open_probes() as session:
                engine = Engine(self._observer, session, options.thresholds())
                schedule = Schedule(self.interval, time.monotonic())
                while not self._asked.stopped:
                    tell(TickBegan())
                    tell(self._tick(engine))
                    schedule = self._wait(schedule)
        except BaseException as error:  # the screen ends, and whoever started it says why
            tell(FeedEnded(error))

    def _tick(self, engine: Engine) -> News:
        """Judged by the one before it, as the agent does. Raises what the first one raises."""
        key = self._asked.open
        one = None if key is None or self._last is None else find(self._last, key)
        try:
            if one is None or one.id is None:
                ticked = engine.tick()
            else:
                of = frozenset({ContainerId(one.id)})
                devices = DeviceRequest(_DEVICES_SECONDS, of)
                ticked = engine.tick(MAPPINGS_BUDGET, of, with_processes=True, devices=devices)
            _require_cgroups(ticked.report)
            measured = _measured(self._view, ticked.report)
        except (NumauditError, OSError, ValueError) as error:
            if self._last is None:
                raise
            return Failed(explain(error))
        self._last = ticked.report
        return measured if key is None else _opened(measured, key, PromiseAccounts.of(self._observer, ticked.snapshot))

    def _wait(self, schedule: Schedule) -> Schedule:
        """Until the next tick is due, or asked for; the schedule from then on."""
        asked = self._asked
        due = schedule.next_due(time.monotonic())
        with asked.changed:
            while not asked.stopped and not asked.at_once:
                if asked.interval is not None:
                    schedule.restart(asked.interval, time.monotonic())
                    due, asked.interval = schedule.due, None
                left = due - time.monotonic()
                if left <= 0 and not asked.paused:
                    return schedule
                asked.changed.wait(None if asked.paused else left)
            asked.at_once, asked.interval = False, None
        return Schedule(self.interval, time.monotonic())


class CapturedFeed:
    """A captured tree: one tick, and nothing more."""

    interval = 0.0

    def __init__(self, observer: Observer, view: ReportSelection, root: str) -> None:
        self.captured: str | None = root
        self._observer, self._view = observer, view
        self._tell: Callable[[News], None] | None = None
        self._measured: TickFigures | None = None
        self._accounts: PromiseAccounts | None = None

    def start(self, tell: Callable[[News], None]) -> None:
        self._tell = tell
        threading.Thread(target=self._run, args=(tell,), name="tick", daemon=True).start()

    def _run(self, tell: Callable[[News], None]) -> None:
        try:
            ticked = observe_whole(self._observer, MAPPINGS_BUDGET, None, with_processes=True)
            self._measured = _measured(self._view, ticked.report)
            self._accounts = PromiseAccounts.of(self._observer, ticked.snapshot)
            tell(self._measured)
        except BaseException as error:
            tell(FeedEnded(error))

    def open(self, key: RowKey | None) -> None:
        if key is not None and self._tell and self._measured and self._accounts:
            self._tell(_opened(self._measured, key, self._accounts))

    def set_interval(self, seconds: float) -> None:
        """A tree that never changes has none."""

    def set_paused(self, paused: bool) -> None:
        """It is always."""

    def stop(self) -> None:
        """It has no probes."""


def _require_cgroups(report: Report) -> None:
    """Raises Unavailable where the cgroups cannot be read: an empty table would say that there are none."""
    for one in report.sources:
        if one.source == "cgroups" and one.state not in ("ok", "partial"):
            raise Unavailable(f"no container could be read: {one.reason}")


def _measured(view: ReportSelection, whole: Report) -> TickFigures:
    """Raises InputError when nothing is called as the view says."""
    return TickFigures(whole, view.rows(view.subject(whole)))


def _opened(measured: TickFigures, key: RowKey, accounts: PromiseAccounts) -> TickFigures:
    """With how the container came to its promise, if a kubelet has a part in it."""
    one = find(measured.report, key)
    of_pod = one is not None and one.pod_uid is not None and one.container is not None
    placement = accounts.of_container(one) if one is not None and of_pod else None
    return replace(measured, opened=Opened(key, placement))
