"""Measure a container or a command and judge it by limits, for `numaudit assert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import click

from numaudit.api.selection import narrow
from numaudit.cli import EXIT_FINDINGS, EXIT_INCONCLUSIVE, options, printing
from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable, printable
from numaudit.kernel.host import is_named_pipe
from numaudit.report.gates import Assertion, GateCheck, GateLimits, judge_gate, worst_state
from numaudit.report.values import Report
from numaudit.run import command as commands
from numaudit.run.cgroup import own_group
from numaudit.run.watch import CommandWatch, due
from numaudit.snapshot import ContainerId

_EXITS = {"passed": 0, "failed": EXIT_FINDINGS, "inconclusive": EXIT_INCONCLUSIVE}
_SECONDS = 10.0
_PROCESSES_SECONDS = 10.0
"""Time limit for reading processes."""


def run(
    *,
    max_remote: float | None,
    max_spilled: int | None,
    max_migrated: int | None,
    ranks: bool,
    duration: float | None,
    junit: Path | None,
    output: str,
    which: str | None,
    arguments: tuple[str, ...] | None,
) -> int:
    """Print the judgements; the exit code. `arguments`: the command, None = a container is measured.

    Raises InputError for options that do not fit, and Unavailable.
    """
    limits = GateLimits(max_remote, max_spilled, max_migrated, ranks or None)
    if limits == GateLimits():
        raise InputError("nothing to judge: give --max-remote, --max-spilled, --max-migrated or --ranks")
    if (arguments is None) == (which is None) or arguments == ():
        raise InputError("give either a container to measure, or a command after --")
    if arguments is not None and duration is not None:
        raise InputError("--duration is for containers: a command is measured until it ends")
    if arguments is not None and output == "json":
        raise InputError("-o json is for containers: a command writes to standard output itself; use --junit FILE")
    if arguments is not None and ranks:
        raise InputError("--ranks is for containers: it looks at processes that run now")
    _check_writable(junit)
    if arguments is None:
        report: Report | None = _observed(which, duration, limits)
    else:
        try:
            status, report = _measured(arguments)
        except commands.NotStarted as error:
            _write(junit, (), str(error))
            click.echo(f"numaudit: {error}", err=True)
            return error.exit_code
        if status:
            failed = f"the command ended with status {status}, so nothing was judged"
            _write(junit, (), failed)
            click.echo(f"numaudit: {failed}", err=True)
            return status
    checks = _checks(report, limits, "command" if which is None else which)
    _write(junit, checks)
    if output == "json":
        printing.json_of_host("Assertion", Assertion(worst_state(checks), checks), options.host(None))
        return _EXITS[worst_state(checks)]
    for one in checks:
        click.echo(f"{one.state}: {one.container}: {one.demand}: {one.evidence}", err=arguments is not None)
    return _EXITS[worst_state(checks)]


def _observed(which: str | None, duration: float | None, limits: GateLimits) -> Report:
    """The containers of that name. Ranks alone need no measurement."""

    def selected(whole: Report) -> frozenset[ContainerId]:
        return frozenset(ContainerId(one.id) for one in narrow(whole, which).containers if one.id is not None)

    observer = Observer.of(options.host(None))
    needs_time = limits != GateLimits(ranks=True)
    return narrow(
        observe_whole(
            observer,
            _PROCESSES_SECONDS if limits.ranks else None,
            duration or (_SECONDS if needs_time else None),
            selected=selected,
            with_processes=bool(limits.ranks),
        ).report,
        which,
    )


def _measured(arguments: Sequence[str]) -> tuple[int, Report | None]:
    """The command's exit status, and its report at the last tick; None = it ended before there was one."""
    host = options.host(None)
    observer = Observer.of(host)
    with commands.deferred_signals() as mask, own_group(host) as group, observer.open_probes() as session:
        session.require_any()
        commands.raise_if_signalled()
        watch = CommandWatch(Engine(observer, session, options.thresholds()), ContainerId(group.id), "command")
        status = commands.start(arguments, group.path, mask).wait(due(), watch.tick)
    return status, watch.report()


def _checks(report: Report | None, limits: GateLimits, name: str) -> tuple[GateCheck, ...]:
    """Of every container that may have a verdict: sandboxes and what parent groups hold themselves are passed over."""
    if report is None:
        why = "it ended before it could be measured"
        return (GateCheck(name, "evidence", "inconclusive", why),)
    doubt = next((one.reason for one in report.sources if one.source == "migrations" and one.state != "ok"), None)
    found = [
        one for container in report.containers if container.verdict for one in judge_gate(container, limits, doubt)
    ]
    if not found:
        raise Unavailable(f"{name} has no container that runs; `numaudit report -o wide` lists all")
    return tuple(found)


def _check_writable(junit: Path | None) -> None:
    """Before a long measurement, not after it."""
    if junit is None:
        return
    if is_named_pipe(junit):
        raise InputError(f"--junit {junit}: is a named pipe, which may have no reader; give a file")
    try:
        junit.open("ab").close()
    except OSError as error:
        raise InputError(f"--junit {junit}: cannot write it: {error.strerror}; give another file") from None


def _write(junit: Path | None, checks: Sequence[GateCheck], failed: str | None = None) -> None:
    if junit is not None:
        junit.write_bytes(junit_xml(checks, failed))


_ELEMENTS = {"failed": "failure", "inconclusive": "skipped"}


def junit_xml(checks: Sequence[GateCheck], command_failed: str | None = None) -> bytes:
    """JUnit XML, which CI systems read: one test case for each check.

    `command_failed`: why nothing was judged; None = the checks were.
    """
    count = {state: sum(one.state == state for one in checks) for state in ("failed", "inconclusive")}
    suite = ElementTree.Element(
        "testsuite",
        name="numaudit assert",
        tests=str(len(checks) + (command_failed is not None)),
        failures=str(count["failed"]),
        errors=str(int(command_failed is not None)),
        skipped=str(count["inconclusive"]),
    )
    if command_failed is not None:
        case = ElementTree.SubElement(suite, "testcase", classname="numaudit", name="command")
        ElementTree.SubElement(case, "error", message=printable(command_failed))
    for one in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=printable(one.container), name=printable(one.demand))
        if one.state in _ELEMENTS:
            ElementTree.SubElement(case, _ELEMENTS[one.state], message=printable(f"{one.state}: {one.evidence}"))
        ElementTree.SubElement(case, "system-out").text = printable(one.evidence)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()
