"""Admit a command, start it, and report where its memory was, for `numaudit run`."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

from numaudit.cli import messages, options
from numaudit.config import yaml_file
from numaudit.errors import NumauditError, Unavailable
from numaudit.kernel.host import Host, may_exist
from numaudit.kubelet.sources.process import locate
from numaudit.memorymanager.commands import CommandRequest
from numaudit.run import command as commands
from numaudit.run.holding import Holding, RunCgroups, hold, require_no_static_kubelet, require_other_folder
from numaudit.snapshot import ContainerId


def run(
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
    """The command's exit status, or why it was not started. Raises NumauditError and OSError."""
    host = options.host(None)
    folder = _state_dir() if state_dir is None else state_dir
    kubelet = locate(host)
    require_other_folder(kubelet, folder)
    if not beside_kubelet:
        require_no_static_kubelet(kubelet)
    huge = {size: asked for size, asked in ((1 << 21, huge_2mi), (1 << 30, huge_1gi)) if asked is not None}
    here = RunCgroups(host, folder, parent, _configuration(config))
    status = None
    try:
        with (
            commands.deferred_signals() as mask,
            hold(here, CommandRequest(memory, cpus or 0, huge), _name(arguments)) as held,
        ):
            status = _watched(host, arguments, held, mask) if report else _start(arguments, held, mask).wait()
        if held.group.path.exists():
            messages.say(
                NumauditError(f"the command left processes in {held.group.path}; they keep its memory until they end")
            )
    except commands.NotStarted as error:
        messages.say(error)
        return error.exit_code
    except NumauditError as error:
        if status is None:
            raise
        messages.say(error)
    return status


def _start(arguments: tuple[str, ...], held: Holding, mask: Set[int]) -> commands.RunningCommand:
    commands.raise_if_signalled()
    return commands.start(arguments, held.group.path, mask)


def _watched(host: Host, arguments: tuple[str, ...], held: Holding, mask: Set[int]) -> int:
    """The same with a report on standard error at the end, for standard output is the command's."""
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer  # (takes longer than starting a command)
    from numaudit.run.watch import CommandWatch, due, promise_of
    from numaudit.views.terminal import report_tables, terminal

    observer = Observer.of(host)
    with observer.open_probes() as session:
        engine, group = Engine(observer, session, options.thresholds()), ContainerId(held.group.id)
        watch = CommandWatch(engine, group, held.placement.container, promise_of(held.placement))
        status = _start(arguments, held, mask).wait(due(), watch.tick)
    report = watch.report()
    if report is None:
        messages.say(Unavailable(f"no report: {watch.problem or 'the command ended before it could be measured'}"))
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
    """Configuration in the file; None = there is none. Raises InputError that names the file."""
    if path is None:
        path = Path("/etc/numaudit/run.yaml")
        if not may_exist(path):
            return None
    return yaml_file.values(path, "the configuration")
