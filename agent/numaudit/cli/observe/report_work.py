"""Print one report, or one of a measurement, for `numaudit report`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TextIO

import click
from msgspec import Struct

from numaudit.api.selection import first, in_order_of, narrow, of_verdicts, shown_of
from numaudit.cli import EXIT_FINDINGS, EXIT_INTERRUPTED, messages, options, printing
from numaudit.encoding.value import Origin
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.engine.rank_search import container_of, process_id
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.kernel.host import Host
from numaudit.kernel.origin import host_name, node_name, origin_of
from numaudit.report.gates import Shortfalls, not_accepted, shortfalls
from numaudit.report.values import Report
from numaudit.report.words import is_small_remainder
from numaudit.snapshot import ContainerId

if TYPE_CHECKING:
    from rich.console import Console

MAPPINGS_BUDGET = 2.0
"""Seconds for numa_maps of processes, and as long again for threads."""
_SECOND_TICK = 1.0
"""Seconds."""
_DEVICES_SECONDS = 0.5
"""For the devices of containers: seconds in which some ten thousand descriptors are read."""
_KEY_BYTES = 32
_OF_A_CHECKOUT = ".venv/bin/numaudit"
"""The program, as `make report` starts it."""


class ReportSelection(Struct, frozen=True):
    """Contents of a report that the options of `numaudit report` select."""

    which: str | None = None
    namespace: str | None = None
    verdicts: Collection[str] | None = None
    sort: str = "verdict"
    top: int | None = None
    wide: bool = False
    has_all: bool = False
    """Does the output show what groups hold themselves, also next to nothing? Tables and pages leave that out."""
    nodes: bool = False
    """With the tables of nodes?"""
    processes: bool = False
    """With the processes of each container?"""
    hide: Callable[[Report, Report], Report] | None = None
    """Makes a report without names, of what was narrowed and of the whole; None = names are shown."""

    def subject(self, whole: Report) -> Report:
        """The selected part of the report. Raises InputError when nothing is called so."""
        subject = narrow(whole, self.which, self.namespace)
        return subject if self.hide is None else self.hide(subject, whole)

    def containers(self, whole: Report) -> frozenset[ContainerId]:
        """Those that it selects and that run. Raises InputError when nothing is called so."""
        found = narrow(whole, self.which, self.namespace).containers
        return frozenset(ContainerId(one.id) for one in found if one.id is not None)

    def rows(self, subject: Report) -> Report:
        """The rows that are shown of it."""
        chosen = subject if self.verdicts is None else of_verdicts(subject, self.verdicts)
        ordered = in_order_of(chosen, self.sort)
        if self.top is None:
            return ordered
        return first(ordered, self.top, lambda one: self.has_all or not is_small_remainder(one))

    def print(self, whole: Report, file: TextIO | None = None) -> Console:
        """Print the tables, on standard output if no file is given; returns the console. Raises as `subject`."""
        from numaudit.views.terminal import one_container, report_tables, terminal

        shown = self.rows(self.subject(whole))
        out = terminal.console(whole_lines=self.wide, file=file)
        of, is_named = len(whole.containers), self.which is not None
        report_tables.print_report(
            shown, out, wide=self.wide, nodes=self.nodes, of=of, is_named=is_named, next_step=_elsewhere()
        )
        if self.which is not None:
            one_container.print_processes(shown, out)
        if self.which is not None or self.wide:
            one_container.print_devices(shown, out, is_named=self.which is not None)
        if self.processes:
            one_container.print_process_tables(shown, out)
        if self.wide:
            report_tables.print_matrix(shown, out)
            report_tables.print_accesses(shown, out)
            report_tables.print_moved_pages(shown, out)
        return out


class ReportOptions(Struct, frozen=True, kw_only=True):
    """Options of `numaudit report`, by the names that click gives them."""

    which: str | None
    namespace: str | None
    output: str
    verdict: frozenset[str] | None
    sort: str
    top: int | None
    duration: float | None
    nodes: bool
    processes: bool
    fail_below: float | None
    fail_on: frozenset[str] | None
    redact: bool
    root: Path | None

    def refuse_what_does_not_fit(self) -> None:
        """Raises InputError for options that do not fit each other."""
        if self.duration is not None and self.root is not None:
            raise InputError("--duration measures the running kernel, and --root reads a captured tree: leave out one")
        if self.sort == "cpu" and self.duration is None and self.root is None:
            raise InputError("--sort cpu orders by what is measured: add --duration 10s")
        if self.processes and not (self.which or self.namespace):
            raise InputError(
                "--processes reads every thread: name the containers (`numaudit report NAME --processes`, or "
                "--namespace)"
            )
        named = ", ".join(name for name in NOT_WHERE_BOUND if name in (self.fail_on or ()))
        if named and not self.processes:
            raise InputError(f"--fail-on {named}: only --processes judges ranks; add it, with the name of containers")

    def selection(self, hide: Callable[[Report, Report], Report] | None) -> ReportSelection:
        """The rows to show, without names if there is something that hides them."""
        return ReportSelection(
            self.which, self.namespace, self.verdict, self.sort, self.top,
            self.output == "wide", self.output in ("wide", "json"), self.nodes, self.processes, hide,
        )  # fmt: skip


def run(asked: ReportOptions) -> int:
    """Print what the options ask for; the exit code. Raises InputError for options that do not fit, and Unavailable."""
    asked.refuse_what_does_not_fit()
    key = os.urandom(_KEY_BYTES) if asked.redact else None
    host = options.host(asked.root)
    view = asked.selection(None if key is None else _hiding(host, asked.root, key))
    interrupted = Event()
    observer = Observer.of(host)
    try:
        whole = observe_whole(
            observer,
            MAPPINGS_BUDGET,
            asked.duration,
            interrupted,
            selected=view.containers if asked.which or asked.namespace else None,
            with_processes=asked.processes,
        ).report
    except InputError as error:
        raise InputError(f"{error}{_if_a_process(asked.which, observer)}") from None
    if asked.sort == "cpu" and asked.root is not None and whole.rates is None:
        raise InputError("--sort cpu: this capture has one reading of its counters; capture again, or sort otherwise")
    report = view.subject(whole)
    shown = view.rows(report)
    origin = _origin(host, shown, key)
    if asked.output in ("json", "html"):
        _write(asked.output, shown, origin)
        if len(shown.containers) < len(report.containers):
            click.echo(f"numaudit: {shown_of(len(shown.containers), len(whole.containers))}", err=True)
    else:
        printing.print_origin(origin, host, view.print(whole))
    if interrupted.is_set():
        return EXIT_INTERRUPTED
    return EXIT_FINDINGS if _fails(report, asked.fail_on or (), asked.fail_below) else 0


def _elsewhere() -> str:
    """How to see another host, by commands that run as they stand: in a checkout, by its Makefile."""
    program = messages.program()
    if program == _OF_A_CHECKOUT and Path("Makefile").is_file():
        steps = "`make capture HOST=root@server` captures it by ssh and reports on it; `make lab` boots four nodes"
    else:
        capture = f"{program} capture --from root@server host.tar.xz"
        steps = f"`{capture}` (by ssh), then `{program} report --root host.tar.xz`"
    return f"To see a host with several nodes: {steps}. `{program} doctor` shows what this host can measure."


def _if_a_process(which: str | None, observer: Observer) -> str:
    """The verb that answers for it, where the name that nothing has is the id of a process."""
    pid = process_id(which)
    if pid is None or container_of(observer, pid) is None:
        return ""
    return f"; {pid} is a process: `numaudit ranks {pid}` shows where it is bound"


def _write(output: str, shown: Report, origin: Origin) -> None:
    if output == "json":
        printing.write_json("Report", shown, origin)
    else:
        from numaudit.views.page.report_page import report_page

        sys.stdout.buffer.write(report_page(shown, origin).encode())


def observe_whole(
    observer: Observer,
    numa_maps_budget: float | None,
    duration: float | None,
    interrupted: Event | None = None,
    *,
    selected: Callable[[Report], frozenset[ContainerId]] | None = None,
    with_processes: bool = False,
) -> Ticked:
    """One tick, or one at either end of a measurement; where nothing can be measured, one tick and the reason.

    Ctrl-C ends a measurement early, where `interrupted` is
    there to say so. Bytes that are out of place are measured twice, for memory.numa_stat may lag by a second.
    `selected`: the containers of a report whose mappings, devices and processes are read; None = those of all, and the
    devices of those with a promise. What it raises ends this at the first tick.
    """
    engine = Engine(observer, thresholds=options.thresholds(), accepted=options.accepted_rules(), counts_from_load=True)
    if duration is not None:
        with observer.open_probes() as session:
            try:
                session.require_any()
            except Unavailable as reason:
                click.echo(f"numaudit: {reason}; this is the report without a measurement", err=True)
                return observe_whole(observer, numa_maps_budget, None, selected=selected, with_processes=with_processes)
            engine.session = session
            report = engine.tick().report
            of = None if selected is None else selected(report)
            if with_processes:
                engine.tick(numa_maps_of=of, with_processes=True)
            try:
                messages.wait(duration, "measuring")
            except KeyboardInterrupt:
                if interrupted is None:
                    raise
                interrupted.set()
                click.echo("numaudit: interrupted; this is what was measured until now", err=True)
            devices = DeviceRequest(_DEVICES_SECONDS, of)
            return engine.tick(numa_maps_budget, of, with_processes=with_processes, devices=devices)
    of = None if selected is None else selected(engine.tick().report)
    devices = DeviceRequest(_DEVICES_SECONDS, of)
    ticked = engine.tick(numa_maps_budget, of, with_processes=with_processes, devices=devices)
    if ticked.judgements.needs_another_tick:
        if observer.host.is_live:
            messages.wait(_SECOND_TICK, "measuring again, because memory is outside its promised nodes")
        ticked = engine.tick(numa_maps_budget, of, with_processes=with_processes)
    return ticked


def _origin(host: Host, report: Report, key: bytes | None) -> Origin:
    """Of the report; with a key to hide names by, the host's is hidden too."""
    origin = origin_of(host, report.taken_at)
    if key is None or origin.host is None:
        return origin
    from numaudit.api.redact import hidden_name

    return Origin(hidden_name(origin.host, key), origin.taken_at)


def _hiding(host: Host, root: Path | None, key: bytes) -> Callable[[Report, Report], Report]:
    """Hides the names of a report, by one key until the process ends."""
    from numaudit.api.redact import redact

    names = _names_of_host(host, root)
    return lambda report, whole: redact(report, key, whole, names)


def _names_of_host(host: Host, root: Path | None) -> tuple[str, ...]:
    """Names that texts may use for the host, and paths where they may place a captured tree."""
    names = [origin_of(host).host, *(() if root is not None else (host_name(), node_name(os.environ)))]
    paths = () if root is None else (str(root), str(root.absolute()))
    return (*paths, *(part for name in names if name for part in (name, name.partition(".")[0])))


def _fails(report: Report, verdicts: Collection[str], ratio: float | None) -> bool:
    """Is there a container with one of the verdicts, or less aligned than the ratio? Says on stderr which.

    Raises Unavailable when there is none and the ratio of some is not known.
    """
    found = not_accepted(report, verdicts) if verdicts else ()
    below = Shortfalls() if ratio is None else shortfalls(report, ratio)
    for message in (*found, *below.messages):
        click.echo(f"numaudit: {message}", err=True)
    if not found:
        below.require_an_answer()
    return bool(found) or below.failed
