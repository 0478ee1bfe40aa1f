"""`numaudit doctor`: sources of figures on this host, and remedies for those that do not work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import options
from numaudit.cli.exits import EXIT_CANNOT_ANSWER, EXIT_FINDINGS
from numaudit.cli.observe.selftest import exit_code
from numaudit.kernel.host import Host

if TYPE_CHECKING:
    from numaudit.api.selftest_document import SelfTest
    from numaudit.pmu.calibration import Calibration

_EXITS = {"all": 0, "some": EXIT_FINDINGS, "none": EXIT_CANNOT_ANSWER}


@click.command(
    epilog="""\b
Examples:
  numaudit doctor
  numaudit doctor -o json
  numaudit doctor --require residency,'access hint_faults'
  numaudit doctor --selftest

Exit codes: 0 all sources work (of accesses one is enough), 1 some (or a required one) do not, or the self-test fails,
2 usage, 3 nothing can be measured, 5 the self-test is inconclusive.
"""
)
@options.output("table", "json")
@click.option(
    "--require",
    metavar="SOURCE[,SOURCE]",
    help="Exit with 0 if all of these sources work, and with 1 if not; the others do not count.",
)
@click.option(
    "--selftest", is_flag=True, help="Run `numaudit selftest` too, which tests the sources with a known workload."
)
@click.option(
    "--calibrate", is_flag=True, help="Run `numaudit calibrate` first, which measures and stores latency and bandwidth."
)
@options.root
def command(output: str, require: str | None, selftest: bool, calibrate: bool, root: Path | None) -> int:
    """Check what this host can measure; for the rest, say why not and what to do.

    Missing hardware does not count as a failure.
    """
    if root is not None and (selftest or calibrate):
        raise click.UsageError("--selftest and --calibrate work on a running host, and --root names a captured one")
    from msgspec import structs

    from numaudit.cli import json_output
    from numaudit.doctor import outcome
    from numaudit.doctor.checks import examine, names
    from numaudit.doctor.questions import doctor

    needed = None if require is None else outcome.required(require, names())
    host = options.host(root)
    calibration = _calibration() if calibrate else None
    checks = examine(host)
    tested = _self_test(host) if selftest else None
    found = structs.replace(doctor(checks), self_test=tested, calibration=calibration)
    if output == "json":
        json_output.of_host("Doctor", found, host)
    else:
        from numaudit.cli import table
        from numaudit.views.terminal import doctor_table

        with table.of_host(host) as out:
            doctor_table.print_doctor(found, out, is_capture=not host.is_live)
    of_the_test = 0 if tested is None else exit_code(tested.checks)
    if needed is None:
        return _EXITS[outcome.outcome(checks)] or of_the_test
    lacking = outcome.lacking(checks, needed)
    for name in lacking:
        click.echo(f"numaudit: --require: {name} does not work here; its line says why", err=True)
    return EXIT_FINDINGS if lacking else of_the_test


def _calibration() -> Calibration:
    from numaudit.cli.observe.calibrate import measured, store

    found, text = measured()
    store(Host().calibration, text)
    return found


def _self_test(host: Host) -> SelfTest:
    from numaudit.api.selftest_document import SelfTest
    from numaudit.selftest.selftest import selftest

    return SelfTest(selftest(host))
