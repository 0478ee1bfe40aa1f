"""`numaudit agent`: the daemon."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from numaudit.cli import options
from numaudit.cli.service.settings_options import load_settings, settings_options


@click.command(
    epilog="""\b
Examples:
  numaudit agent
  numaudit agent --config /etc/numaudit/agent.yaml --listen :9746
  numaudit agent --interval 30s --set otlp.endpoint=http://collector:4318

Exit codes: 0 ended by SIGTERM or SIGINT, 2 a setting is wrong, 3 this host cannot answer.
"""
)
@settings_options
@options.root
def command(
    config: Path | None, listen: str | None, interval: str | None, assignments: tuple[str, ...], root: Path | None
) -> None:
    """Observe this host at every tick (15 seconds by default), for Prometheus and OpenTelemetry."""
    from numaudit.daemon import start

    start.run(partial(load_settings, config, listen, interval, assignments), options.tree(root))
