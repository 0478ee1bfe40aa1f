"""The lines above and below the rows of `numaudit top`, and its help. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from numaudit.errors import printable
from numaudit.report.columns import columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS
from numaudit.report.values import Report
from numaudit.views.terminal.report_tables import sources_by_trouble

INTERVALS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
"""Seconds; what + and - choose from."""

COLUMNS = (
    *((column.heading(place), column.help) for column, place in columns_of("top") if column.help),
    *((column.title, column.help) for column, _ in placed(NODE_COLUMNS, "top") if column.help),
)


@dataclass(frozen=True, slots=True)
class Status:
    """Contents of the first line."""

    where: str
    """Name of the host, or the captured tree."""
    captured: bool
    interval: float
    taken_at: float | None = None
    """Seconds since the epoch; None = no tick is done yet."""
    paused: bool = False
    stale: bool = False
    failure: str | None = None
    """Of the last tick."""
    rows: str = ""
    """Numbers of rows by kind; empty = no tick is done yet."""


def title(status: Status) -> Text:
    """`numaudit top  12:00:05, every 5 s  PAUSED  node-1  5 containers`, which is cut off where there is no room."""
    line = Text(no_wrap=True, end="")
    line.append("numaudit top  ", "bold")
    if status.captured:
        line.append("captured; it never changes")
    elif status.taken_at is None:
        line.append("measuring ...")
    else:
        line.append(f"{clock(status.taken_at)}, every {status.interval:g} s")
    if status.paused:
        line.append("  PAUSED", "bold yellow")
    if status.stale:
        line.append("  STALE", "bold red")
    line.append(f"  {printable(status.where)}")
    line.append(f"  {status.rows}" if status.rows else "", "dim")
    return line


def failure(status: Status, width: int) -> Text | None:
    """Up to three lines on the tick that failed; None = it went well."""
    if status.failure is None:
        return None
    what = f"FAILED: {printable(status.failure)}"
    before = "" if status.taken_at is None else f"below is what there was at {clock(status.taken_at)}"
    return in_lines([*cut(what, width, 2), before], "bold red")


def in_lines(lines: Iterable[str], style: str) -> Text:
    """One text of them, in one style."""
    return Text("\n".join(lines), style, no_wrap=True)


def clock(at: float) -> str:
    """Local time of day."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


def not_measured(report: Report) -> str:
    """Short text about unknown figures of this host; empty = nothing is missing."""
    what = [one.what for one in report.unknown]
    what += [source for sources in sources_by_trouble(report).values() for source in sources]
    return f"not measured: {', '.join(what)}; ? says why" if what else ""


def why_not_measured(report: Report) -> Iterator[str]:
    """A line for each reason."""
    for unknown in report.unknown:
        yield f"{unknown.what}: {printable(unknown.reason)}"
    for why, sources in sources_by_trouble(report).items():
        yield f"{', '.join(sources)}: {printable(why)}"


def foot(place: str, sort: str, reverse: bool, text: str, width: int) -> Text:
    """The keys, how the rows are ordered, and where we are; the last stays where there is little room."""
    order = f"s sort: {sort}{' reversed' if reverse else ''}"
    words = f"/ filter: {printable(text)}" if text else "/ filter"
    keys = ["q quit", order, words, "Enter open", "r reverse", "p pause", "? help"]
    room = width - len(place) - 2
    line = ""
    for key in keys:
        longer = f"{line}  {key}" if line else key
        if len(longer) > room:
            break
        line = longer
    return Text(f"{line}{' ' * max(2, width - len(line) - len(place))}{place}", "dim", no_wrap=True, end="")


def cut(text: str, width: int, lines: int) -> list[str]:
    """The text in this many lines, broken at blanks; what has no room is left out."""
    words = text.split(" ")
    done: list[str] = []
    while words and len(done) < lines - 1:
        line = words.pop(0)
        while words and len(line) + 1 + len(words[0]) <= width:
            line += f" {words.pop(0)}"
        done.append(_begin(line, width))
    return [*done, _begin(" ".join(words), width)] if words else done


def _begin(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
