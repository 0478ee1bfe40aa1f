"""`numaudit run`: a command on nodes of its own. Its options."""

from __future__ import annotations

import os
from typing import Any

import click

from numaudit.cli import EXIT_NOT_BEGUN, messages, options
from numaudit.cli.parameters import Size
from numaudit.errors import NumauditError


class Runs(click.Command):
    """A verb whose exit status is that of a command: its own failures have one exit code of their own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 -- click's own
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            error.show()
            raise click.exceptions.Exit(EXIT_NOT_BEGUN) from None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 -- click's own
        try:
            return super().invoke(ctx)
        except (NumauditError, OSError) as error:
            if os.environ.get("NUMAUDIT_DEBUG"):
                raise
            messages.say(error)
            return EXIT_NOT_BEGUN


@click.command(
    cls=Runs,
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  numaudit run --memory 5Gi -- ./server
  numaudit run --memory 5Gi --cpus 2 -- ./server --port 8080
  numaudit run --memory 1Gi --hugepages-2Mi 512Mi --report -- ./job
  numaudit state show /var/lib/numaudit/memory_manager_state

Exit codes: the command's own, 128 + N if signal N ended it, 125 if numaudit failed before it began, 126 if it cannot
be executed, 127 if it does not exist, 130 if interrupted before it began.
""",
)
@click.option(
    "--memory",
    type=Size(),
    required=True,
    metavar="SIZE",
    help="Memory to reserve for the command, such as 512Mi or 5Gi.",
)
@click.option(
    "--cpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of whole CPUs to reserve for the command, near its memory.",
)
@click.option(
    "--hugepages-2Mi", "huge_2mi", type=Size(), metavar="SIZE", help="Memory to reserve in huge pages of 2 MiB."
)
@click.option(
    "--hugepages-1Gi", "huge_1gi", type=Size(), metavar="SIZE", help="Memory to reserve in huge pages of 1 GiB."
)
@click.option(
    "--report", is_flag=True, help="Print on standard error, when the command has ended, where its memory was."
)
@click.option(
    "--config",
    type=options.FilePath(),
    metavar="FILE",
    help="File with the system's reservation and the policies. Default: /etc/numaudit/run.yaml if it exists.",
)
@click.option(
    "--state-dir",
    type=options.FilePath(file_okay=False),
    metavar="DIR",
    help="Folder of the state files. Default: /var/lib/numaudit, or $XDG_STATE_HOME/numaudit without root.",
)
@click.option(
    "--cgroup",
    "parent",
    default="/numaudit",
    show_default=True,
    metavar="PATH",
    help="Parent cgroup of the commands' cgroups. It must not contain processes itself.",
)
@click.option(
    "--beside-kubelet", is_flag=True, help="Run even if a kubelet with a static policy promises nodes on this host."
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
def command(**given: options.Given) -> int:
    """Run a command with memory reserved on NUMA nodes, on a host without Kubernetes.

    The kubelet's static Memory Manager, and with --cpus its static CPU Manager, decides whether there is room and on
    which nodes. The command runs in a cgroup that is restricted to them. Its memory stays reserved until it ends.
    """
    from numaudit.cli.manager.run_work import run

    return run(**given)
