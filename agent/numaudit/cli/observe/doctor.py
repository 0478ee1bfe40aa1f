"""`numaudit doctor`: sources of figures on this host, and remedies for those that do not work."""

from __future__ import annotations

from pathlib import Path

import click

from numaudit.cli import options
from numaudit.cli.exits import EXIT_CANNOT_ANSWER, EXIT_FINDINGS

_EXITS = {"all": 0, "some": EXIT_FINDINGS, "none": EXIT_CANNOT_ANSWER}


@click.command(
    epilog="""\b
Examples:
  numaudit doctor
  numaudit doctor -o json
  numaudit doctor --require residency,'access hint_faults'
Exit codes: 0 all sources work, 1 some (or a required one) do not, 2 usage, 3 nothing can be measured.
"""
)
@options.output("table", "json")
@click.option(
    "--require",
    metavar="SOURCE[,SOURCE]",
    help="Exit with 0 when all these sources work, and with 1 when one of them does not. Other sources do not count.",
)
@options.root
def command(output: str, require: str | None, root: Path | None) -> int:
    """Check what this host can measure, and say why not and what to do for the rest.

    Hardware that this machine does not have does not count as a failure.
    """
    from numaudit.cli import json_output
    from numaudit.doctor import outcome
    from numaudit.doctor.checks import examine, names
    from numaudit.doctor.questions import doctor

    needed = None if require is None else outcome.required(require, names())
    host = options.host(root)
    checks = examine(host)
    found = doctor(checks)
    if output == "json":
        json_output.of_host("Doctor", found, host)
    else:
        from numaudit.cli import table
        from numaudit.views.terminal import doctor_table

        with table.of_host(host) as out:
            doctor_table.print_doctor(found, out, is_capture=not host.is_live)
    if needed is None:
        return _EXITS[outcome.outcome(checks)]
    lacking = outcome.lacking(checks, needed)
    for name in lacking:
        click.echo(f"numaudit: --require: {name} does not work here; its line says why", err=True)
    return EXIT_FINDINGS if lacking else 0
