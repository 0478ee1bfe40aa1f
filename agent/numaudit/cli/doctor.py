"""`numaudit doctor`: what this host can measure."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from numaudit.cli import options
from numaudit.doctor.checks import examine
from numaudit.views import document


@click.command(
    epilog="""\b
Examples:
  numaudit doctor
  numaudit doctor -o json
"""
)
@options.output("table", "json")
@options.root
def command(output: str, root: Path | None) -> None:
    """Say what this host can measure, and for what it cannot: why, and what to do."""
    checks = examine(options.host(root))
    if output == "json":
        sys.stdout.buffer.write(document.encode("Doctor", document.Doctor(checks)))
        return
    from numaudit.views import machine_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    machine_tables.print_doctor(checks, terminal.console())
