"""`numaudit assert`: a gate for performance tests and CI."""
# ruff: noqa: N999 -- a verb has a module of its name, which is imported by name

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from numaudit.api.selection import narrow
from numaudit.cli import options
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INCONCLUSIVE
from numaudit.cli.manager.junit import encode
from numaudit.cli.manager.sizes import Size
from numaudit.cli.names import ContainerName
from numaudit.cli.observe.report import observe
from numaudit.cli.progress import Duration
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable, brief
from numaudit.kernel.host import is_named_pipe
from numaudit.report.gates.gate import GateCheck, Limits, judge_gate, worst_state
from numaudit.report.values import Report
from numaudit.run import command as commands
from numaudit.run.group import group_of_its_own
from numaudit.run.watch import Watch, due
from numaudit.snapshot import ContainerId

_EXITS = {"passed": 0, "failed": EXIT_FINDINGS, "inconclusive": EXIT_INCONCLUSIVE}
_SECONDS = 10.0
_COMMAND = "numaudit.assert.command"


class Share(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A share such as 5% or 0.05."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(%?)", text, re.ASCII)
        share = -1.0 if match is None else float(match[1]) / (100 if match[2] else 1)
        if not 0 <= share <= 1:
            self.fail(f"{brief(text)!r} is not a share such as 5% or 0.05", param, ctx)
        return share


class Gate(click.Command):
    """What comes after `--` is a command, what comes before it a container."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(
    cls=Gate,
    epilog="""\b
Examples:
  numaudit assert --max-remote 5% -- ./benchmark
  numaudit assert --max-remote-pages 5% -- ./benchmark
  numaudit assert --max-remote 5% --max-spilled 0 --duration 30s prod/mysql-0/db
  numaudit assert --max-migrated 64Mi --junit numa.xml -- make bench

\b
Exit codes: 0 within all limits, 1 beyond a limit, 5 too little evidence for either, 2 usage, 3 this host cannot
measure. When the command fails, the exit status is its own, and nothing is judged.
""",
)
@click.option(
    "--max-remote",
    type=Share(),
    metavar="SHARE",
    help="Maximum share of accesses to other nodes, such as 5% or 0.05. It needs hardware counters.",
)
@click.option(
    "--max-remote-pages",
    type=Share(),
    metavar="SHARE",
    help="Maximum share of its memory that is used remotely, however often.",
)
@click.option(
    "--max-spilled", type=Size(least=0), metavar="SIZE", help="Maximum size of its memory outside the promised nodes."
)
@click.option(
    "--max-migrated",
    type=Size(least=0),
    metavar="SIZE",
    help="Maximum size of the memory that the kernel migrates meanwhile.",
)
@click.option("--duration", type=Duration(), metavar="TIME", help="Time to measure a container (default 10s).")
@click.option("--junit", type=options.FilePath(dir_okay=False), metavar="FILE", help="File for a report in JUnit XML.")
@click.argument("which", required=False, type=ContainerName(), metavar="[NAME | -- COMMAND [ARGS]...]")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    max_remote: float | None,
    max_remote_pages: float | None,
    max_spilled: int | None,
    max_migrated: int | None,
    duration: float | None,
    junit: Path | None,
    which: str | None,
) -> int:
    """Measure a container, or a command while it runs, and compare it with limits.

    NAME is a pod, a container or a cgroup, as for `numaudit report`. It passes or fails only when the evidence is
    certain. Accesses are counted only by hardware counters. Without them, use --max-remote-pages, which judges by the
    pages that NUMA balancing sees used.
    """
    limits = Limits(max_remote, max_remote_pages, max_spilled, max_migrated)
    if limits == Limits():
        raise InputError("nothing to judge: give --max-remote, --max-remote-pages, --max-spilled or --max-migrated")
    arguments = ctx.meta.get(_COMMAND)
    if (arguments is None) == (which is None) or arguments == ():
        raise InputError("give either a container to measure, or a command after --")
    if arguments is not None and duration is not None:
        raise InputError("--duration is for containers: a command is measured until it ends")
    _check_writable(junit)
    if arguments is None:
        report: Report | None = narrow(observe(Observer.of(options.host(None)), None, duration or _SECONDS), which)
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
    for one in checks:
        click.echo(f"{one.state}: {one.container}: {one.demand}: {one.evidence}", err=arguments is not None)
    return _EXITS[worst_state(checks)]


def _measured(arguments: Sequence[str]) -> tuple[int, Report | None]:
    """The command's exit status, and its report at the last tick; None = it ended before there was one."""
    host = options.host(None)
    observer = Observer.of(host)
    with commands.signals_kept() as mask, group_of_its_own(host) as group, observer.open_probes() as session:
        session.require_any()
        commands.end_if_asked()
        watch = Watch(Engine(observer, session, options.thresholds()), ContainerId(group.id), "command")
        status = commands.start(arguments, group.path, mask).wait(due(), watch.tick)
    return status, watch.report()


def _checks(report: Report | None, limits: Limits, name: str) -> tuple[GateCheck, ...]:
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
        raise InputError(f"--junit {junit}: {error.strerror}") from None


def _write(junit: Path | None, checks: Sequence[GateCheck], failed: str | None = None) -> None:
    if junit is not None:
        junit.write_bytes(encode(checks, failed))
