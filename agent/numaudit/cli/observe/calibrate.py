"""`numaudit calibrate`: latency and bandwidth of this machine's memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import options
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host, explain

if TYPE_CHECKING:
    from numaudit.pmu.calibration import Calibration

_MOST_ROUNDS = 25


@click.command(
    epilog="""\b
Examples:
  numaudit calibrate
  numaudit calibrate --dry-run -o json
  numaudit calibrate --store ./this-kind-of-machine.json

Exit codes: 0 fine, 2 usage, 3 this host cannot answer, 130 interrupted.
"""
)
@options.output("table", "json")
@click.option(
    "--store",
    "target",
    type=options.FilePath(dir_okay=False),
    help=f"File for the figures, by default {Host().calibration}.",
)
@click.option(
    "--rounds",
    type=click.IntRange(3, 1000),
    metavar="N",
    default=_MOST_ROUNDS,
    show_default=True,
    help="Maximum number of rounds for each figure; a figure is done when its best three rounds agree.",
)
@click.option("--dry-run", is_flag=True, help="Measure and print the figures, but store nothing.")
def command(output: str, target: Path | None, rounds: int, dry_run: bool) -> None:
    """Measure latency and read bandwidth from each node's CPUs to each node's memory, and store them.

    It takes some seconds for each pair of nodes and keeps all CPUs of one node busy, so run it while the machine is
    idle. It needs a C compiler. Reports and the agent use the stored figures; machines of the same model can share one
    file.
    """
    if dry_run and target is not None:
        raise click.UsageError("--dry-run stores nothing, so --store has no effect: leave out one of them")
    found, text = measured(rounds)
    if output == "json":
        sys.stdout.buffer.write(text)
    else:
        from numaudit.views.terminal import calibration_tables, terminal

        calibration_tables.print_calibration(found, terminal.console())
    if not dry_run:
        sys.stdout.flush()
        store(target or Host().calibration, text)


def measured(rounds: int = _MOST_ROUNDS) -> tuple[Calibration, bytes]:
    """This machine's figures, and the document that is stored. Raises Unavailable."""
    from numaudit.api import document
    from numaudit.kernel.host import origin_of
    from numaudit.selftest.calibrate import calibrate

    found = calibrate(Host(), _progress, rounds)
    return found, document.encode("Calibration", found, origin_of(Host(), found.measured_at))


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"measuring: {line}", err=True)


def store(path: Path, text: bytes) -> None:
    """Raises Unavailable."""
    from numaudit.kernel.own_files import replace_file

    try:
        if path == Host().calibration:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(path, text, mode=0o644)
    except OSError as error:
        raise Unavailable(
            f"the figures were not stored: {explain(error, str(path)).replace('read', 'write', 1)}; "
            "choose another file with --store, or store nothing with --dry-run"
        ) from error
    click.echo(f"stored in {path}", err=True)
