"""`numaudit report --watch`: the report again and again, until Ctrl-C."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Collection
from datetime import datetime
from math import ceil
from typing import Any

from numaudit.cli.exits import EXIT_INTERRUPTED
from numaudit.cli.messages import reader_has_gone
from numaudit.cli.observe.report_ticks import TickSource
from numaudit.cli.observe.report_view import ReportSelection
from numaudit.daemon.ticks.schedule import Schedule
from numaudit.engine.observer import Observer
from numaudit.errors import NumauditError, printable
from numaudit.kernel.host import explain
from numaudit.probes.probe import ProbeKind
from numaudit.report.values import Report

_HOME, _END_OF_LINE, _REST = "\033[H", "\033[K", "\033[J"
"""Go to the first line; clear to the end of the line; clear all that is below."""


def watch(
    observer: Observer,
    view: ReportSelection,
    seconds: float,
    numa_maps_budget: float | None,
    kinds: Collection[ProbeKind[Any]] | None = None,
) -> int:
    """Draw a report at every tick; the exit code, once it is interrupted or its reader has gone.

    Raises what the first tick raises. What a later one raises is said above the report of the last that went well.
    """
    schedule = Schedule(seconds, time.monotonic())
    drawn, drawn_at = "", ""
    try:
        with observer.open_probes(kinds) as session:
            ticks = TickSource(observer, session)
            while True:
                headline = f"{_now()}, every {seconds:g} s; Ctrl-C ends it"
                try:
                    drawn, drawn_at = _text(view, ticks.take(numa_maps_budget).report), _now()
                except (NumauditError, OSError, ValueError) as error:
                    if not drawn:
                        raise
                    headline += f"; FAILED: {explain(error)}; below is what there was at {drawn_at}"
                _show(headline, drawn)
                if reader_has_gone():
                    return 0
                pause(schedule.next_due(time.monotonic()) - time.monotonic())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def pause(seconds: float) -> None:
    """Wait for the next tick, if it is not due already."""
    time.sleep(max(0.0, seconds))


class _Frame(io.StringIO):
    """Text for standard output: it has colours, and fits, where that is a terminal."""

    def isatty(self) -> bool:
        return sys.stdout.isatty()


def _text(view: ReportSelection, report: Report) -> str:
    frame = _Frame()
    view.print(report, frame)
    return frame.getvalue()


def _show(headline: str, text: str) -> None:
    """Over the last drawing on a terminal, as much as it has lines for; a pipe gets all, and an empty line."""
    lines = [printable(headline), *text.splitlines()]
    if sys.stdout.isatty():
        lines = cut(lines, *shutil.get_terminal_size())
        sys.stdout.write(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in lines) + _REST)
    else:
        sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


def cut(lines: list[str], columns: int, rows: int) -> list[str]:
    """The lines for which there is room, and how many more there are."""
    from rich.text import Text

    room = rows - 2
    for taken, line in enumerate(lines):
        room -= max(1, ceil(Text.from_ansi(line).cell_len / max(1, columns)))
        if room < 0:
            return [*lines[:taken], f"... {len(lines) - taken} more lines; --top N shows fewer rows"]
    return lines


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
