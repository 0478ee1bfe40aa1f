"""`numaudit ranks`: the processes that a launcher binds to nodes or CPUs, and where they are. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.parameters import ContainerName, VerdictList


@click.command(
    epilog="""\b
Examples:
  numaudit ranks
  numaudit ranks 4105
  numaudit ranks vllm-0
  numaudit ranks 'python*' -o json
  numaudit ranks --fail-on misaligned

Exit codes: 0 fine, 1 as --fail-on asks, 2 usage, 3 this host cannot answer.
"""
)
@click.argument("which", required=False, type=ContainerName(), metavar="[PID|NAME]")
@options.output("table", "wide", "json")
@click.option(
    "--fail-on",
    type=VerdictList(of_containers=False, of_ranks=True),
    metavar="VERDICT[,VERDICT]",
    help="Exit with 1 when a rank has one of these verdicts, such as first-touch-before-bind; `misaligned` stands for "
    "all of them. Exit with 3 when that is unknown.",
)
@options.root
def command(**given: options.Given) -> int:
    """Show the processes that mpirun, srun, torchrun, numactl and others bind to nodes or CPUs, and where they are.

    Processes that are bound by their memory policy alone count, too. The worst come first, each with the reason, and
    above them the commands that bring them to where they were bound. PID restricts this to one process, NAME to a pod,
    a container or a cgroup as `numaudit report` takes it, or to processes of that name.
    """
    from numaudit.cli.observe.ranks_work import RanksOptions, run

    return run(RanksOptions(**given))
