"""`numaudit assert`: a gate for performance tests and CI. Its options."""
# ruff: noqa: N999 -- a verb has a module of its name, which is imported by name

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.parameters import ContainerName, Duration, Size

_COMMAND = "numaudit.assert.command"


class Gate(click.Command):
    """Command line of the gate. Words after `--` are a command, words before it a container."""

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
  numaudit assert --max-remote 5% --max-spilled 0 --duration 30s prod/mysql-0/db
  numaudit assert --max-spilled 0 prod/mysql-0/db -o json
  numaudit assert --ranks prod/vllm-0
  numaudit assert --max-migrated 64Mi --junit numa.xml -- make bench

Exit codes: 0 within all limits, 1 beyond a limit, 2 usage, 3 this host cannot measure, 5 too little evidence for
either. If the command fails, its exit status is returned, and nothing is judged.
""",
)
@click.option(
    "--max-remote",
    type=options.Share(),
    metavar="SHARE",
    help="Maximum share of accesses to other nodes, such as 5% or 0.05. It needs hardware counters.",
)
@click.option(
    "--max-spilled", type=Size(least=0), metavar="SIZE", help="Maximum size of the memory outside the promised nodes."
)
@click.option(
    "--max-migrated",
    type=Size(least=0),
    metavar="SIZE",
    help="Maximum size of the memory that the kernel migrates while it measures.",
)
@click.option("--ranks", is_flag=True, help="Test that every rank is where its launcher was to bind it.")
@click.option(
    "--duration", type=Duration(), metavar="TIME", help="Time for which a container is measured (default 10s)."
)
@click.option("--junit", type=options.FilePath(dir_okay=False), metavar="FILE", help="File for a JUnit XML report.")
@options.output("table", "json")
@click.argument("which", required=False, type=ContainerName(), metavar="[NAME | -- COMMAND [ARGS]...]")
@click.pass_context
def command(ctx: click.Context, /, **given: options.Given) -> int:
    """Measure a container, or a command while it runs, and compare it with limits.

    NAME is a pod, a container or a cgroup, as for `numaudit report`. It passes or fails only if the evidence is
    certain. Only hardware counters count accesses: without them --max-remote is inconclusive.
    """
    from numaudit.cli.manager.assert_work import run

    return run(**given, arguments=ctx.meta.get(_COMMAND))
