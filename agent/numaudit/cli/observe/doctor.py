"""`numaudit doctor`: sources of figures on this host, a test of them, and the speed of its memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import EXIT_CANNOT_ANSWER, EXIT_FINDINGS, EXIT_INCONCLUSIVE, options
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host, explain

if TYPE_CHECKING:
    from numaudit.api.document import SelfTestCheck

_EXITS = {"all": 0, "some": EXIT_FINDINGS, "none": EXIT_CANNOT_ANSWER}


@click.command(
    epilog="""\b
Examples:
  numaudit doctor
  numaudit doctor -o json
  numaudit doctor --require residency,'access hint_faults'
  numaudit doctor --selftest
  numaudit doctor --calibrate
  numaudit doctor --calibrate --store ./this-kind-of-machine.json

Exit codes: 0 all sources that such a host can have work (of accesses one is enough), 1 some (or a required one) do
not, or a check of the self-test fails, 2 usage, 3 nothing can be measured, 5 the self-test is inconclusive: the
machine is too busy.
"""
)
@options.output("table", "json")
@click.option(
    "--require",
    metavar="SOURCE[,SOURCE]",
    help="Exit with 0 if all of these sources work, and with 1 if not; the others do not count.",
)
@click.option(
    "--selftest",
    is_flag=True,
    help="Test instead whether numaudit distinguishes near and far memory here: for some seconds, two small processes "
    "use both, in two cgroups of their own. It needs root.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure instead latency and read bandwidth from each node's CPUs to each node's memory, and store them for "
    "reports and the agent, also of other machines of the same model. It takes some seconds for each pair of nodes and "
    "keeps all CPUs of one node busy: run it while the machine is idle. It needs a C compiler.",
)
@click.option(
    "--store",
    "target",
    type=options.FilePath(dir_okay=False),
    help=f"With --calibrate: file for the figures, by default {Host().calibration}.",
)
@options.root
def command(
    output: str, require: str | None, selftest: bool, calibrate: bool, target: Path | None, root: Path | None
) -> int:
    """Check what this host can measure; for the rest, say why not and what to do.

    Missing hardware does not count as a failure.
    """
    if target is not None and not calibrate:
        raise click.UsageError("--store names the file for the figures of --calibrate: add --calibrate")
    if not selftest and not calibrate:
        return _examine(output, require, options.host(root))
    if root is not None:
        raise click.UsageError("--selftest and --calibrate work on a running host, and --root names a captured one")
    if require is not None or (selftest and calibrate):
        raise click.UsageError("--selftest, --calibrate and --require have one answer each: run them one by one")
    return _test(output) if selftest else _calibrate(output, target or Host().calibration)


def _examine(output: str, require: str | None, host: Host) -> int:
    from numaudit.cli import printing
    from numaudit.doctor import outcome
    from numaudit.doctor.checks import examine, names

    needed = None if require is None else outcome.required(require, names())
    checks = examine(host)
    found = outcome.doctor(checks)
    if output == "json":
        printing.json_of_host("Doctor", found, host)
    else:
        from numaudit.views.terminal import machine_tables

        with printing.table_of_host(host) as out:
            machine_tables.print_doctor(found, out, is_capture=not host.is_live)
    if needed is None:
        return _EXITS[outcome.outcome(checks)]
    lacking = outcome.lacking(checks, needed)
    for name in lacking:
        click.echo(f"numaudit: --require: {name} does not work here; its line says why", err=True)
    return EXIT_FINDINGS if lacking else 0


def _test(output: str) -> int:
    from numaudit.api.document import SelfTest
    from numaudit.cli import printing
    from numaudit.doctor.selftest import selftest

    checks = selftest(Host())
    if output == "json":
        printing.json_of_host("SelfTest", SelfTest(checks), Host())
    else:
        from numaudit.views.terminal import machine_tables, terminal

        machine_tables.print_selftest(checks, terminal.console())
    if all(one.state == "not tried" for one in checks):
        raise Unavailable("no part of the self-test could run on this host; the table says why")
    return _exit_code(checks)


def _exit_code(checks: Sequence[SelfTestCheck]) -> int:
    """A failure comes before what is inconclusive, and that before a pass."""
    states = {one.state for one in checks}
    if "failed" in states:
        return EXIT_FINDINGS
    return EXIT_INCONCLUSIVE if "inconclusive" in states else 0


def _calibrate(output: str, target: Path) -> int:
    """The figures are printed before they are stored, so that none is lost where that fails."""
    from numaudit.api import document
    from numaudit.doctor.calibrate import calibrate
    from numaudit.kernel.origin import origin_of

    found = calibrate(Host(), _progress)
    text = document.encode("Calibration", found, origin_of(Host(), found.measured_at))
    if output == "json":
        sys.stdout.buffer.write(text)
    else:
        from numaudit.views.terminal import machine_tables, terminal

        machine_tables.print_calibration(found, terminal.console())
    sys.stdout.flush()
    _store(target, text)
    return 0


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"measuring: {line}", err=True)


def _store(path: Path, text: bytes) -> None:
    """Raises Unavailable."""
    from numaudit.kernel.own_files import replace_file

    try:
        if path == Host().calibration:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(path, text, mode=0o644)
    except OSError as error:
        why = explain(error, str(path)).replace("read", "write", 1)
        raise Unavailable(f"the figures were not stored: {why}; choose another file with --store") from error
    click.echo(f"stored in {path}", err=True)
