"""The agent's main thread: ticks, between them what others ask for, and a clean end after a signal."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType

from msgspec import Struct

from numaudit.daemon import signals
from numaudit.daemon.loading import Loading
from numaudit.daemon.reload import Reloading
from numaudit.daemon.service import Inbox, Service, Services
from numaudit.daemon.ticks.ticker import Ticker

_log = logging.getLogger(__name__)
_LONGEST_SLEEP = 2.0
_TO_STOP = 2.0
"""Seconds that all services have to stop."""
_MOST_TO_STOP = 2.5
"""Seconds after which the process ends whatever has not stopped."""
_PROBES_WITHIN = 3.0
"""Seconds that the first tick waits for the probes. Later ones take part in the ticks after."""


class Notifier(Struct, frozen=True):
    """Tells systemd: ready, stopping, still alive. Without systemd it does nothing.

    Source: sd_notify(3), sd_watchdog_enabled(3).
    """

    address: str | None = None
    watchdog: float | None = None
    """Seconds without a sign of life after which systemd starts the service again."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Notifier:
        """From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        address = environment.get("NOTIFY_SOCKET") or None
        if address is not None and address.startswith("@"):
            address = "\0" + address[1:]
        usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
        watched = usec.isdigit() and int(usec) > 0 and pid == str(os.getpid())
        return cls(address, int(usec) / 1e6 if watched else None)

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if self.address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(message.encode(), self.address)
            except OSError:
                return  # systemd is restarting: the next sign of life will do


class Stopped(BaseException):
    """A signal asked the agent to end. It may interrupt anything, so only the loop may catch it."""


@dataclass(slots=True, repr=False)
class Loop:
    """Ticks until a signal stops it.

    It has no repr of its fields: signal.signal() makes one of the handler before, which is a method of this. That of a
    tick of 1,000 containers takes seconds and 100 MiB.
    """

    ticker: Ticker
    inbox: Inbox
    reloading: Reloading
    notifier: Notifier
    loading: Loading | None
    services: Services
    """Those that run already. They are stopped with all others."""
    _signal: signal.Signals | None = None

    def run(self, services: tuple[Service, ...], started: Callable[[], None]) -> None:
        """Start these services in their order, and work until SIGTERM or SIGINT; ends within three seconds of it.

        `started` is called when all services run. From the end on signals are ignored, and stay so: while the
        interpreter ends, Python would give all others their usual effect back, which is to die.
        """
        handlers = {
            signal.SIGTERM: self._on_end,
            signal.SIGINT: self._on_end,
            signal.SIGHUP: self._on_hang_up,
        }
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for service in services:
                self.services.start(service)
            started()
            self._work()
        except Stopped as reason:
            _log.info("stopping after %s", reason)
        finally:
            for number in (*handlers, signal.SIGUSR1, signal.SIGUSR2):
                signal.signal(number, signal.SIG_IGN)
            self.notifier.stopping()
            self.services.stop(_TO_STOP)
            _log.info("stopped after %d ticks", self.ticker.health.succeeded)

    def wait_until(self, end: float | None, still: Callable[[], bool] = lambda: True) -> None:
        """Until then, or the next tick is due (None), do what is asked for; with signs of life for systemd's watchdog.

        `still` may end it before. What waits already is done however late it is.
        """
        slice_ = min(_LONGEST_SLEEP, self.notifier.watchdog / 3 if self.notifier.watchdog else _LONGEST_SLEEP)
        left = slice_
        while left > 0:
            # Python drops an exception that a signal raises within a finaliser, so check here too.
            if self._signal is not None:
                raise Stopped(self._signal.name)
            left = (self.ticker.schedule.due if end is None else end) - time.monotonic() if still() else 0.0
            self.inbox.work(max(0.0, min(left, slice_)))
            self.reloading.when_due()
            self._notify_alive()

    def _on_hang_up(self, _number: int, _: FrameType | None) -> None:
        self.reloading.hang_up()
        self.inbox.put(self.reloading.after_hang_up)

    def _on_end(self, number: int, _: FrameType | None) -> None:
        if self._signal is not None:
            return
        self._signal = signal.Signals(number)
        last_resort = threading.Timer(_MOST_TO_STOP, _leave)
        last_resort.daemon = True
        last_resort.start()
        raise Stopped(self._signal.name)

    def _work(self) -> None:
        ticker = self.ticker
        if signals.early_hang_ups:
            self._on_hang_up(signal.SIGHUP, None)
        self.wait_until(time.monotonic() + _PROBES_WITHIN, lambda: self.loading is not None and self.loading.busy)
        ticker.schedule.begin(time.monotonic())
        while True:
            ticker.tick()
            self._notify_alive()
            if self.loading is not None:
                self.loading.start_when_due(time.monotonic())
            if ticker.health.succeeded == 1:
                self.notifier.ready(f"one tick every {ticker.schedule.interval:g} s")
            ticker.schedule.next_due(time.monotonic(), tuple(ticker.pages.scraped_at))
            self.wait_until(None)

    def _notify_alive(self) -> None:
        """systemd starts an agent again of which a service has died."""
        if not self.services.died():
            self.notifier.alive()


def _leave() -> None:
    """End at once. There is nothing to save, and the kernel unloads BPF programs with their descriptors."""
    _log.warning("some threads did not end within %g s; the agent exits without them", _MOST_TO_STOP)
    os._exit(0)
