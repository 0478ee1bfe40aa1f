"""The composition of the agent: its settings, what observes, what limits, and the loop that runs them."""

from __future__ import annotations

import os
from contextlib import closing

from numaudit.collectors.table import kinds_named
from numaudit.config.loading import Loaded
from numaudit.daemon import memory
from numaudit.doctor.checks import examine
from numaudit.kernel.host import Host
from numaudit.kubelet.client import Connection
from numaudit.observer import Observer
from numaudit.overhead.calibration import calibrate
from numaudit.overhead.limiter import Limiter


def run(loaded: Loaded, host: Host) -> None:
    """Work until a signal. Raises Unavailable when the host shows no nodes or no cgroups, InputError for settings."""
    memory.keep_small()
    settings = loaded.settings
    kubelet = settings.kubelet
    observer = Observer.of(host, Connection(kubelet.url, kubelet.token_file, kubelet.ca_file, kubelet.log_file))
    # Programs are loaded by a process of its own, which is started before this one grows.
    session = observer.open_probes(kinds_named(settings.probes))
    from numaudit.daemon import logs, loop  # noqa: PLC0415 (after the programs are loaded)
    from numaudit.daemon.notify import Notifier  # noqa: PLC0415
    from numaudit.exporters.facts import Feature  # noqa: PLC0415

    log_limit = logs.set_up(settings.log.level, settings.log.format)
    for warning in loaded.warnings:
        logs.log.warning("%s", warning)
    features = tuple(map(Feature.of, examine(observer.host, session)))
    limiter = Limiter(session, settings.overhead.max_cpu_percent / 100, calibrate(session), observer.inventory)
    memory.search_cycles_rarely()
    with closing(limiter):
        loop.Daemon(settings, observer, session, features, log_limit, Notifier.of(os.environ), limiter=limiter).run()
