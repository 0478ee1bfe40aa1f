"""The agent's start: its settings, its probes, what observes and limits, and then the agent itself."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from numaudit.config.loading import Loaded
from numaudit.daemon import logs
from numaudit.daemon.loading import Loading
from numaudit.daemon.service import Inbox, Services
from numaudit.engine.observer import Observer
from numaudit.engine.overhead import Limiter
from numaudit.kernel.host import Host
from numaudit.probes.kinds import kinds_named

# <malloc.h> of glibc
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_THRESHOLD = 128 << 10

_OBJECTS, _YOUNG, _MIDDLE = 100_000, 20, 10
_SWITCH_SECONDS = 0.0002
"""A scrape during a tick gives the interpreter up at each system call, and gets it back after this time each.

Measured with 1,000 containers, ticks of 1 s and four scrapers: 99 % of scrapes within 6 ms instead of 14 by the usual
5 ms. Among 500 clients that attack, health takes a quarter of the time that it takes by 1 ms. A tick takes as much CPU
time as before.
"""


def run(read_settings: Callable[[], Loaded], host: Host) -> None:
    """Work until a signal. Raises Unavailable when the host shows no nodes or no cgroups, InputError for settings."""
    limit_heap()
    loaded = read_settings()
    settings = loaded.settings
    log_limit = logs.set_up(settings.log.level, settings.log.format)
    for warning in loaded.warnings:
        logs.log.warning("%s", warning)
    observer = Observer.of(replace(host, connection=settings.kubelet.connection))
    services = Services()
    loading = Loading(kinds_named(settings.probes), observer.probe_loader, Inbox())
    # Programs are loaded by a process of its own, while this one imports the rest.
    services.start(loading)
    import numaudit.kubelet.intent.intent_of  # noqa: F401, PLC0415 (before the package may be upgraded)
    from numaudit.daemon.agent import Agent  # noqa: PLC0415
    from numaudit.daemon.loop import Notifier  # noqa: PLC0415
    from numaudit.daemon.reload import Reload  # noqa: PLC0415
    from numaudit.engine.collectors.table import of_probes  # noqa: PLC0415
    from numaudit.engine.engine import Engine  # noqa: PLC0415

    of_probes()

    limit = settings.overhead.max_cpu_percent / 100
    limiter = Limiter(loading.session, limit, observer.inventory)
    engine = Engine(observer, loading.session, limiter=limiter)
    collect_garbage_rarely()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with closing(limiter):
        Agent.of(
            settings,
            engine,
            log_limit,
            notifier=Notifier.of(os.environ),
            loading=loading,
            reload=Reload(read_settings, loaded),
            services=services,
        ).run()


def limit_heap() -> bool:
    """Fix glibc's thresholds, which otherwise grow with the largest buffer, and give all threads one arena.

    Measured with 40 containers a second and OTLP: at most 73 instead of 99 MiB. False with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _THRESHOLD), (_M_TRIM_THRESHOLD, _THRESHOLD))
    return all(mallopt(option, value) == 1 for option, value in options)


def collect_garbage_rarely() -> None:
    """Let Python search for cycles of dead objects rarely. What is there now is never searched again.

    A tick of a thousand containers makes some 100,000 values and hardly any cycles; a search for these took a quarter
    of the tick, so that there is none while one goes on (`Ticker.tick`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, _YOUNG, _MIDDLE)
