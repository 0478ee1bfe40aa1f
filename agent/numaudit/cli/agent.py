"""`numaudit agent`: the daemon."""

from __future__ import annotations

from pathlib import Path

import click

from numaudit.cli import options
from numaudit.cli.config import SettingsFlags, settings_flags


@click.command(
    epilog="""\b
Examples:
  numaudit agent
  numaudit agent --config /etc/numaudit/agent.yaml --listen :9746
  numaudit agent --interval 30s --set otlp.endpoint=http://collector:4318

Exit codes: 0 ended by SIGTERM or SIGINT, 2 a setting is wrong, 3 this host cannot answer.
"""
)
@click.option("--listen", metavar="HOST:PORT", help="Address of the HTTP server (setting `listen`).")
@click.option("--interval", metavar="TIME", help="Time between two ticks (setting `interval`).")
@settings_flags
@options.root
def command(flags: SettingsFlags, root: Path | None) -> None:
    """Observe this host at every tick (15 seconds by default), for Prometheus and OpenTelemetry."""
    from numaudit.daemon import start

    start.run(flags.load, options.tree(root))
