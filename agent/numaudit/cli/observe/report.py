"""`numaudit report`: where each container's memory was promised, and where it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from secrets import token_bytes
from threading import Event
from typing import Any

import click
from click.core import ParameterSource

from numaudit.api.ordering import KEYS
from numaudit.api.redact import hidden_name
from numaudit.api.redact import redact as without_names
from numaudit.api.selection import shown_of
from numaudit.cli import json_output, options, progress
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INTERRUPTED
from numaudit.cli.names import ContainerName, NamespaceName
from numaudit.cli.observe import report_watch
from numaudit.cli.observe.report_view import View
from numaudit.cli.observe.report_watch import Interval
from numaudit.cli.progress import Duration
from numaudit.cli.verdict_list import VerdictList
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.errors import InputError
from numaudit.kernel.host import Host
from numaudit.kernel.origin import node_name, origin_of
from numaudit.probes.first_touch import FIRST_TOUCH
from numaudit.probes.kinds import kinds_by_default
from numaudit.probes.probe import Kind
from numaudit.report.gates.fail_below import Shortfalls, shortfalls
from numaudit.report.gates.fail_on import not_accepted
from numaudit.report.values import Report
from numaudit.value import Origin

_SECOND_TICK = 1.0
"""Seconds."""


@click.command(
    epilog="""\b
Examples:
  numaudit report
  numaudit report --duration 10s --matrix
  numaudit report --sort remote --top 20
  numaudit report --verdict drifted,spilled
  numaudit report mysql-0 --fail-below 0.95
  numaudit report --fail-on drifted,spilled,cpu-remote
  numaudit report prod/mysql-0/db -o json
  numaudit report -n prod 'web-*'
  numaudit report system.slice
  numaudit report mysql-0 --watch 2s
  numaudit report --root ./captured -o wide
  numaudit report -o html > report.html
  numaudit report --redact -o html > public.html
Exit codes: 0 fine, 1 as --fail-below or --fail-on asks, 2 usage, 3 this host cannot answer, 130 interrupted.
"""
)
@click.argument("which", required=False, type=ContainerName(), metavar="[NAME]")
@click.option(
    "-n", "--namespace", type=NamespaceName(), metavar="NAME", help="Restrict the report to this Kubernetes namespace."
)
@options.output("table", "wide", "json", "html")
@click.option(
    "--numa-maps-budget",
    type=options.Number(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for reading numa_maps of processes (mapping kinds and memory policies). 0 skips them, and is the "
    "default with --watch.",
)
@click.option(
    "--duration",
    type=Duration(),
    metavar="TIME",
    help="Measure for this long (10s, 1m), with BPF: where containers run, get memory and use it.",
)
@click.option(
    "--watch",
    type=Interval(),
    is_flag=False,
    flag_value="5s",
    metavar="[TIME]",
    help="Report every TIME (default 5s) until Ctrl-C, and measure with BPF where that is possible.",
)
@click.option(
    "--matrix",
    is_flag=True,
    help="Show allocated, sampled and migrated pages for each pair of nodes; needs --duration or --watch.",
)
@click.option(
    "--first-touch",
    is_flag=True,
    help="Sample the first access to pages too, by CPU's node and page's node; needs --duration or --watch.",
)
@click.option(
    "--fail-below",
    type=options.Number(0, 1),
    metavar="RATIO",
    help="Exit with 1 when a container has less than this share of its judged bytes on its promised nodes, or is "
    "drifted, cpu-remote or remote-access; exit with 3 when that is unknown.",
)
@click.option(
    "--fail-on",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Exit with 1 when a container has one of these verdicts, such as drifted,cpu-remote,unknown; exit with 3 when "
    "the kubelet's promises are unknown.",
)
@click.option(
    "--verdict",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Show only containers with one of these verdicts; --fail-below and --fail-on still judge all.",
)
@click.option(
    "--sort",
    type=click.Choice(KEYS),
    default=KEYS[0],
    show_default=True,
    help="Order of the rows: the worst verdict first, the largest amount first, or by name; cpu needs --duration or "
    "--watch.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show only the first N rows; --fail-below and --fail-on still judge all.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Hide the names of namespaces, pods, containers, cgroups, processes, files and this host, for publishing the "
    "report. The same name becomes the same word within one report, but not in the next.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print on standard error how long each source took.")
@options.root
@click.pass_context
def command(
    context: click.Context,
    *,
    which: str | None,
    namespace: str | None,
    output: str,
    verdict: frozenset[str] | None,
    sort: str,
    top: int | None,
    numa_maps_budget: float,
    duration: float | None,
    watch: float | None,
    matrix: bool,
    first_touch: bool,
    fail_below: float | None,
    fail_on: frozenset[str] | None,
    redact: bool,
    verbose: bool,
    root: Path | None,
) -> int:
    """Show where each container's memory is, and whether it was promised there.

    Without Kubernetes it shows systemd units and plain cgroups instead of containers. NAME restricts the report to a
    pod, namespace/pod, pod/container, container id (or its beginning), runtime, or cgroup with all below it. If nothing
    has that name, it is a pattern ('web-*') or the beginning of a name. With NAME the report also lists the processes
    that have memory on the wrong nodes.
    """
    _refuse_what_does_not_fit(
        {"--matrix shows": matrix, "--first-touch takes": first_touch, "--sort cpu orders by": sort == "cpu"},
        duration,
        watch,
        root,
    )
    key = token_bytes() if redact else None
    hide = None if key is None else _hiding(root, key)
    has_all = output in ("wide", "json")
    view = View(which, namespace, verdict, sort, top, output == "wide", has_all, matrix, hide)
    host = options.host(root)
    observer = Observer.of(host)
    kinds = (*kinds_by_default(), FIRST_TOUCH) if first_touch else kinds_by_default()
    if watch is not None:
        if output in ("json", "html") or fail_on is not None or fail_below is not None:
            raise InputError(
                "--watch draws tables until Ctrl-C: leave out -o json and html, --fail-on and --fail-below"
            )
        is_given = context.get_parameter_source("numa_maps_budget") is not ParameterSource.DEFAULT
        return report_watch.watch(observer, view, watch, (numa_maps_budget or None) if is_given else None, kinds)
    interrupted = Event()
    whole = observe(observer, numa_maps_budget or None, duration, kinds, interrupted)
    report = view.subject(whole)
    shown = view.rows(report)
    if output == "json":
        json_output.write("Report", shown, _origin(host, shown, key))
    elif output == "html":
        from numaudit.views.page.report_page import report_page  # noqa: PLC0415 (for this output only)

        sys.stdout.buffer.write(report_page(shown).encode())
    else:
        view.print(whole)
    if output in ("json", "html") and len(shown.containers) < len(report.containers):
        click.echo(f"numaudit: {shown_of(len(shown.containers), len(whole.containers))}", err=True)
    if verbose:
        click.echo(f"Read in: {_timings(report)}", err=True)
    if interrupted.is_set():
        return EXIT_INTERRUPTED
    return EXIT_FINDINGS if _fails(report, fail_on or (), fail_below) else 0


def _refuse_what_does_not_fit(
    measured: Mapping[str, bool], duration: float | None, watch: float | None, root: Path | None
) -> None:
    """Raises InputError. `measured`: what is asked for that only a measurement shows, in words."""
    for option, time in (("--duration", duration), ("--watch", watch)):
        if time is not None and root is not None:
            raise InputError(f"{option} measures the running kernel, and --root reads a captured tree: leave out one")
    if duration is not None and watch is not None:
        raise InputError("--watch measures from one report to the next, and --duration once: leave out one")
    for said, is_asked_for in measured.items():
        if is_asked_for and duration is None and watch is None:
            raise InputError(f"{said} what is measured: add --duration 10s, or --watch")


def observe(
    observer: Observer,
    numa_maps_budget: float | None,
    duration: float | None,
    kinds: Collection[Kind[Any]] | None = None,
    interrupted: Event | None = None,
) -> Report:
    """The report of `observe_whole`."""
    return observe_whole(observer, numa_maps_budget, duration, kinds, interrupted).report


def observe_whole(
    observer: Observer,
    numa_maps_budget: float | None,
    duration: float | None,
    kinds: Collection[Kind[Any]] | None = None,
    interrupted: Event | None = None,
) -> Ticked:
    """One tick, or one at either end of a measurement. Raises Unavailable when there is nothing to measure with.

    Ctrl-C ends a measurement early, where `interrupted` is there to say so.
    Bytes that are out of place are measured twice, for memory.numa_stat may lag by a second.
    """
    engine = Engine(observer, thresholds=options.thresholds(), counts_from_load=True)
    if duration is not None:
        with observer.open_probes(kinds) as engine.session:
            engine.session.require_any()
            engine.tick()
            try:
                progress.wait(duration, "measuring")
            except KeyboardInterrupt:
                if interrupted is None:
                    raise
                interrupted.set()
                click.echo("numaudit: interrupted; this is what was measured until now", err=True)
            return engine.tick(numa_maps_budget)
    ticked = engine.tick(numa_maps_budget)
    if ticked.judgements.needs_another_tick:
        if observer.host.is_live:
            progress.wait(_SECOND_TICK, "measuring again, since bytes are out of place")
        ticked = engine.tick(numa_maps_budget)
    return ticked


def _origin(host: Host, report: Report, key: bytes | None) -> Origin:
    """Of the report; with a key to hide names by, the host's is hidden too."""
    origin = origin_of(host, report.taken_at)
    if key is None or origin.host is None:
        return origin
    return Origin(hidden_name(origin.host, key), origin.taken_at)


def _hiding(root: Path | None, key: bytes) -> Callable[[Report, Report], Report]:
    """Hides the names of a report, by one key until the process ends."""
    names = _names_of_host(root)
    return lambda report, whole: without_names(report, key, whole, names)


def _names_of_host(root: Path | None) -> tuple[str, ...]:
    """What texts may call this host, or where they may say that a captured tree lies."""
    if root is not None:
        return str(root), str(root.absolute())
    host = os.uname().nodename
    return host, host.partition(".")[0], node_name(os.environ) or host


def _timings(report: Report) -> str:
    """How long each source took."""
    return ", ".join(f"{one.source} {one.seconds * 1000:.0f} ms" for one in report.sources if one.seconds is not None)


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
