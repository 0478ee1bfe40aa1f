"""Find and print the ranks of a host, for `numaudit ranks`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from pathlib import Path

import click
from msgspec import Struct

from numaudit.api.ranks_document import HostRanks, host_ranks, of_unread
from numaudit.api.selection import narrow
from numaudit.cli import EXIT_FINDINGS, options, printing
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.engine.rank_search import ROOT, container_of, find_ranks, process_id
from numaudit.errors import InputError, Unavailable, printable
from numaudit.evaluation.ranks.rank import Rank
from numaudit.kernel.origin import origin_of
from numaudit.report.words import display_name
from numaudit.snapshot import ContainerId


class RanksOptions(Struct, frozen=True, kw_only=True):
    """Options of `numaudit ranks`, by the names that click gives them."""

    which: str | None
    output: str
    fail_on: frozenset[str] | None
    root: Path | None


class _Asked(Struct, frozen=True):
    """Containers to read, and which of their ranks are meant."""

    containers: Collection[ContainerId] | None = None
    """None = all."""
    is_meant: Callable[[Rank], bool] | None = None
    """None = all."""
    nobody: str = "No process declares a placement"
    otherwise: InputError | None = None
    """Error if there is no such rank."""


def run(asked: RanksOptions) -> int:
    """Print what the options ask for; the exit code. Raises InputError for a name of nothing, and Unavailable."""
    host = options.host(asked.root)
    observer = Observer.of(host)
    ticked = Engine(observer, thresholds=options.thresholds()).tick()
    if ticked.snapshot.machine.cpu_problem is not None:
        raise Unavailable(f"the placement of processes cannot be judged: {ticked.snapshot.machine.cpu_problem}")
    found = _found(asked.which, observer, ticked)
    if asked.output == "json":
        printing.json_of_host("Ranks", found, host, ticked.report.taken_at)
    else:
        from numaudit.views.terminal import machine_tables, terminal

        out = terminal.console(whole_lines=asked.output == "wide")
        machine_tables.print_ranks(found, out, wide=asked.output == "wide")
        printing.print_origin(origin_of(host, ticked.report.taken_at), host, out)
    return EXIT_FINDINGS if asked.fail_on and _fails(found, asked.fail_on) else 0


def _found(which: str | None, observer: Observer, ticked: Ticked) -> HostRanks:
    wanted = _Asked() if which is None else _wanted(which, observer, ticked)
    read = find_ranks(observer, ticked.snapshot, wanted.containers)
    names = {ContainerId(one.id): display_name(one) for one in ticked.report.containers if one.id is not None}
    numbers = (read.processes, read.not_read, read.reason)
    found = host_ranks(read.snapshot, {**names, ROOT: "/"}, numbers, wanted.is_meant, wanted.nobody)
    if wanted.otherwise is not None and not found.items:
        raise wanted.otherwise
    return found


def _wanted(which: str, observer: Observer, ticked: Ticked) -> _Asked:
    """A process by its id; else containers, as a report finds them; else processes by their name or a pattern of it."""
    pid = process_id(which)
    if pid is not None and (id_ := container_of(observer, pid)) is not None:
        return _Asked((id_,), lambda rank: rank.pid == pid, f"Process {pid} declares no placement")
    try:
        found = narrow(ticked.report, which).containers
    except InputError as error:
        named = InputError(f"{error}; and no rank is a process with that id or name")
        return _Asked(None, lambda rank: fnmatchcase(rank.process or "", printable(which)), otherwise=named)
    return _Asked([ContainerId(one.id) for one in found if one.id is not None])


def _fails(found: HostRanks, verdicts: Collection[str]) -> bool:
    """Says which ranks do. Raises Unavailable when none is known to, and some are not known."""
    counted = [one for one in found.items if one.counts]
    wrong = [one for one in counted if one.verdict in verdicts]
    for one in wrong:
        click.echo(f"numaudit: {one.container!r}: {one.title}: {one.verdict}: {one.detail}", err=True)
    if not wrong and found.not_read:
        raise Unavailable(f"--fail-on: {of_unread(found.processes, found.not_read, found.not_read_reason)}")
    unknown = next((one for one in counted if one.verdict == "unknown"), None)
    if not wrong and unknown is not None:
        raise Unavailable(f"--fail-on: {unknown.title} is unknown: {unknown.detail}")
    return bool(wrong)
