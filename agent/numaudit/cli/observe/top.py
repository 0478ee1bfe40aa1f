"""`numaudit top`: the report on a live screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from numaudit.cli import EXIT_INTERRUPTED, options
from numaudit.cli.parameters import SORT_KEYS, ContainerName, Duration, NamespaceName, VerdictList
from numaudit.errors import InputError

_INTERVAL = 5.0
"""Seconds."""


@click.command(
    epilog="""\b
Examples:
  numaudit top
  numaudit top -n prod --verdict drifted,spilled
  numaudit top mysql-0 --interval 1s
  numaudit top --root ./captured

Exit codes: 0 ended by q, 2 usage, 3 this host cannot answer, 130 interrupted.
"""
)
@click.argument("which", required=False, type=ContainerName(), metavar="[NAME]")
@click.option(
    "-n", "--namespace", type=NamespaceName(), metavar="NAME", help="Restrict the report to this Kubernetes namespace."
)
@click.option(
    "--verdict",
    type=VerdictList(),
    metavar="VERDICT[,VERDICT]",
    help="Show only containers with one of these verdicts.",
)
@click.option(
    "--sort", type=click.Choice(SORT_KEYS), default=SORT_KEYS[0], show_default=True, help="Initial order of the rows."
)
@click.option(
    "--interval", type=Duration(), metavar="TIME", help="Time between two measurements (1s, 500ms, 1m; default 5s)."
)
@options.root
def command(
    *,
    which: str | None,
    namespace: str | None,
    verdict: frozenset[str] | None,
    sort: str,
    interval: float | None,
    root: Path | None,
) -> int:
    """Show the report live: sort it, filter it, open one container, or pause; `?` lists the keys.

    NAME restricts it as in `numaudit report`. BPF measures accesses and CPU time, as far as this host allows.
    """
    _require_a_terminal()
    if interval is not None and root is not None:
        raise InputError("--interval measures the running kernel, and --root reads a captured tree: leave out one")
    from numaudit.cli.observe.report_work import ReportSelection
    from numaudit.cli.observe.top_feed import CapturedFeed, LiveFeed
    from numaudit.engine.observer import Observer
    from numaudit.kernel.origin import origin_of
    from numaudit.views.top.app import Top

    host = options.host(root)
    observer = Observer.of(host)
    view = ReportSelection(which, namespace, verdict)
    feed = LiveFeed(observer, view, interval or _INTERVAL) if root is None else CapturedFeed(observer, view, str(root))
    top = Top(feed, origin_of(host).host or "this host", sort, ascii_only=not _shows_unicode())
    try:
        interrupted = top.run()
    finally:
        feed.stop()
    if top.error is not None:
        raise top.error
    return EXIT_INTERRUPTED if interrupted else 0


def _require_a_terminal() -> None:
    """Raises InputError: keys come from standard input, and the screen is drawn on standard error."""
    instead = "`numaudit report` needs none"
    streams = {"input": sys.__stdin__, "output": sys.__stdout__, "error": sys.__stderr__}
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            raise InputError(f"top needs a terminal, and standard {name} is none; {instead}")
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        raise InputError(f"top needs a terminal that can move its cursor, and TERM is {kind!r}; {instead}")


def _shows_unicode() -> bool:
    """Python writes UTF-8 in the C locale, whose terminals may show something else."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"
    return locale not in ("C", "POSIX") and (sys.__stderr__ is not None and sys.__stderr__.encoding == "utf-8")
