"""`numaudit run`: a command on nodes of its own."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path
from typing import Any

import click

from numaudit.cli import messages, options
from numaudit.cli.exits import EXIT_NOT_BEGUN
from numaudit.cli.manager.sizes import Size
from numaudit.config import yaml_file
from numaudit.errors import NumauditError, Unavailable, printable
from numaudit.kernel.host import Host, may_be_there
from numaudit.kubelet.sources.process import locate
from numaudit.memorymanager.commands import Wanted
from numaudit.run import command as commands
from numaudit.run.holding import Holding, Place, hold, refuse_a_kubelets_folder, refuse_beside_a_kubelet
from numaudit.snapshot import ContainerId


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
            say(error)
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

\b
Exit codes: the command's own, 128 + N when signal N ended it, 125 when numaudit failed before it began,
126 when it cannot be executed, 127 when there is none, 130 interrupted before it began.
""",
)
@click.option("--memory", type=Size(), required=True, metavar="SIZE", help="Memory of its own, such as 512Mi or 5Gi.")
@click.option(
    "--cpus", type=click.IntRange(min=1), metavar="N", help="Number of whole CPUs of its own, near its memory."
)
@click.option("--hugepages-2Mi", "huge_2mi", type=Size(), metavar="SIZE", help="Memory in huge pages of 2 MiB.")
@click.option("--hugepages-1Gi", "huge_1gi", type=Size(), metavar="SIZE", help="Memory in huge pages of 1 GiB.")
@click.option("--report", is_flag=True, help="Print on standard error where its memory was, after it has ended.")
@click.option(
    "--config",
    type=options.FilePath(),
    metavar="FILE",
    help="Configuration of the system's reservation and the policies. /etc/numaudit/run.yaml is read if it exists.",
)
@click.option(
    "--state-dir",
    type=options.FilePath(file_okay=False),
    metavar="DIR",
    help="Folder of the state files, by default /var/lib/numaudit, or $XDG_STATE_HOME/numaudit without root.",
)
@click.option(
    "--cgroup",
    "parent",
    default="/numaudit",
    show_default=True,
    metavar="PATH",
    help="Parent cgroup of the commands' cgroups. It must have no processes of its own.",
)
@click.option(
    "--beside-kubelet", is_flag=True, help="Run even if a kubelet with a static policy promises nodes on this host."
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
def command(
    *,
    memory: int,
    cpus: int | None,
    huge_2mi: int | None,
    huge_1gi: int | None,
    report: bool,
    config: Path | None,
    state_dir: Path | None,
    parent: str,
    beside_kubelet: bool,
    arguments: tuple[str, ...],
) -> int:
    """Run a command with memory on NUMA nodes of its own, on a host without Kubernetes.

    The kubelet's static Memory Manager, and with --cpus its static CPU Manager, decides whether there is room and on
    which nodes. The command runs in a cgroup that is restricted to them. Its memory stays reserved until it ends.
    """
    host = options.host(None)
    folder = _state_dir() if state_dir is None else state_dir
    kubelet = locate(host)
    refuse_a_kubelets_folder(kubelet, folder)
    if not beside_kubelet:
        refuse_beside_a_kubelet(kubelet)
    huge = {size: asked for size, asked in ((1 << 21, huge_2mi), (1 << 30, huge_1gi)) if asked is not None}
    here = Place(host, folder, parent, _configuration(config))
    status = None
    try:
        with commands.signals_kept() as mask, hold(here, Wanted(memory, cpus or 0, huge), _name(arguments)) as held:
            status = _watched(host, arguments, held, mask) if report else _start(arguments, held, mask).wait()
        if held.group.path.exists():
            say(NumauditError(f"the command left processes in {held.group.path}; they keep its memory until they end"))
    except commands.NotStarted as error:
        say(error)
        return error.exit_code
    except NumauditError as error:
        if status is None:
            raise
        say(error)
    return status


def say(error: Exception) -> None:
    """One message on standard error; of a refusal, a line for each part."""
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    lines = text.split("\n")
    click.echo("\n".join((f"numaudit: {printable(lines[0])}", *(f"  {printable(one)}" for one in lines[1:]))), err=True)


def _start(arguments: tuple[str, ...], held: Holding, mask: Set[int]) -> commands.Running:
    commands.end_if_asked()
    return commands.start(arguments, held.group.path, mask)


def _watched(host: Host, arguments: tuple[str, ...], held: Holding, mask: Set[int]) -> int:
    """The same with a report on standard error at the end, for standard output is the command's."""
    from numaudit.engine.engine import Engine  # noqa: PLC0415
    from numaudit.engine.observer import Observer  # noqa: PLC0415 (its imports take longer than starting a command)
    from numaudit.run.watch import Watch, due, promise_of  # noqa: PLC0415
    from numaudit.views.terminal import report_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    observer = Observer.of(host)
    with observer.open_probes() as session:
        engine, group = Engine(observer, session, options.thresholds()), ContainerId(held.group.id)
        watch = Watch(engine, group, held.placement.container, promise_of(held.placement))
        status = _start(arguments, held, mask).wait(due(), watch.tick)
    report = watch.report()
    if report is None:
        say(Unavailable(f"no report: {watch.problem or 'the command ended before it could be measured'}"))
    else:
        report_tables.print_report(report, terminal.console(whole_lines=True, file=messages.terminal()), wide=True)
    return status


def _name(arguments: tuple[str, ...]) -> str:
    return Path(arguments[0]).name[:63] or "command"


def _state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/numaudit")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "numaudit"


def _configuration(path: Path | None) -> object:
    """What the file says; None = there is none. Raises InputError that names the file."""
    if path is None:
        path = Path("/etc/numaudit/run.yaml")
        if not may_be_there(path):
            return None
    return yaml_file.values(path, "the configuration")
