"""`numaudit agent`: the daemon."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import click

from numaudit.cli import options
from numaudit.cli.settings_options import load_settings, settings_options
from numaudit.daemon import memory
from numaudit.doctor.checks import examine
from numaudit.kubelet.client import Connection
from numaudit.observer import Observer
from numaudit.overhead.calibration import calibrate
from numaudit.overhead.limiter import Keeper


@click.command(
    epilog="""\b
Examples:
  numaudit agent
  numaudit agent --config /etc/numaudit/agent.yaml --listen :9746
  numaudit agent --interval 30s --set otlp.endpoint=http://collector:4318
"""
)
@settings_options
@options.root
def command(
    config: Path | None, listen: str | None, interval: str | None, assignments: tuple[str, ...], root: Path | None
) -> None:
    """Look at this host again and again, and serve what was found to Prometheus and OpenTelemetry."""
    memory.keep_small()
    loaded = load_settings(config, listen, interval, assignments)
    kubelet = loaded.settings.kubelet
    connection = Connection(kubelet.url, kubelet.token_file, kubelet.ca_file, kubelet.log_file)
    observer = Observer.of(options.host(root), connection)
    # Programs are loaded by a process of its own, which is started before this one grows.
    session = observer.open_probes(loaded.settings.probes)
    from numaudit.daemon import logs, loop  # noqa: PLC0415 (after the programs are loaded)
    from numaudit.daemon.notify import Notifier  # noqa: PLC0415
    from numaudit.exporters.facts import Feature  # noqa: PLC0415

    limit = logs.set_up(loaded.settings.log.level, loaded.settings.log.format)
    for warning in loaded.warnings:
        logs.log.warning("%s", warning)
    features = tuple(
        Feature(check.name.replace(" ", "_"), check.state != "missing", None if check.state == "ok" else check.detail)
        for check in examine(observer.host, session)
    )
    limit_of_overhead = loaded.settings.overhead.max_cpu_percent / 100
    keeper = Keeper(session, limit_of_overhead, calibrate(session), observer.inventory)
    memory.search_cycles_rarely()
    with closing(keeper):
        loop.Daemon(loaded.settings, observer, session, features, limit, Notifier.of(os.environ), keeper=keeper).run()
