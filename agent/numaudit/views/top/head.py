"""The lines above and below the rows of `numaudit top`, and its help. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from numaudit.errors import printable
from numaudit.report.values import Report
from numaudit.views.notes import not_known, sources_in_trouble
from numaudit.views.terminal.notes import text_of
from numaudit.views.top.table import RowChoice, Rows

INTERVALS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
"""Seconds; what + and - choose from."""
_NAME = "numaudit top"


class Status(Struct, frozen=True):
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
    reading: bool = False
    """Does a tick run now?"""
    rows: str = ""
    """Numbers of rows by kind; empty = no tick is done yet."""


def title(status: Status, width: int) -> Text:
    """`numaudit top  node-1  5 containers       reading ...  12:00:05, every 5 s`; the left side is cut if need be."""
    state = Text.assemble(*_state(status), no_wrap=True, end="")
    line = Text.assemble((_NAME, "bold"), f"  {printable(status.where)}", no_wrap=True, end="")
    line.append(f"  {status.rows}" if status.rows else "", "dim")
    room = max(len(_NAME), width - state.cell_len - 2)
    line.truncate(room, overflow="ellipsis")
    return Text.assemble(line, " " * max(2, width - line.cell_len - state.cell_len), state, no_wrap=True, end="")


def _state(status: Status) -> Iterator[tuple[str, str]]:
    if status.captured:
        yield "captured", ""
        if status.taken_at is None:
            yield " reading ...", "dim"
        return
    if status.reading:
        yield "reading ...  ", "dim"
    if status.stale:
        yield "STALE  ", "bold red"
    if status.paused:
        yield "PAUSED  ", "bold yellow"
    yield "no figures yet, " if status.taken_at is None else f"{clock(status.taken_at)}, ", ""
    yield f"every {status.interval:g} s", ""


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


def summary(report: Report, width: int, most: int) -> Text:
    """The report's sentence in at most so many lines, and what is not measured in one."""
    lines = [in_lines(cut(report.summary.text, width, most), "bold")]
    missing = not_measured(report)
    lines += [in_lines(cut(missing, width, 1), "yellow")] if missing else []
    return Text("\n", no_wrap=True).join(lines)


def not_measured(report: Report) -> str:
    """Short text about unknown figures of this host; empty = nothing is missing."""
    what = [one.what for one in report.unknown]
    what += [sources for sources, _ in sources_in_trouble(report)]
    return f"not measured: {', '.join(what)}; ? says why" if what else ""


def why_not_measured(report: Report) -> Iterator[str]:
    """A line for each reason."""
    yield from map(text_of, not_known(report))
    yield from (printable(f"{sources}: {why}") for sources, why in sources_in_trouble(report))


def place(chosen: int, rows: Rows | None, total: int) -> str:
    """`1 of 11, 19 small folded`; `total`: the number of all rows."""
    if not rows:
        return f"0 of 0 ({total} in all)" if total else "0 of 0"
    said = f"{chosen + 1} of {len(rows)}"
    if rows.folded:
        return f"{said}, {rows.folded} small folded"
    return said if len(rows) == total else f"{said} ({total} in all)"


def foot(place: str, choice: RowChoice, width: int) -> Text:
    """The keys, how the rows are ordered, and where we are; the last stays where there is little room."""
    order = f"sort: {choice.sort.lower()}{' reversed' if choice.reverse else ''}"
    words = f"filter: {printable(choice.text)}" if choice.text else "filter"
    fold = "fold small" if choice.shows_all else "all"
    return keys_line(
        (("q", "quit"), ("?", "help"), ("s", order), ("/", words), ("Enter", "open"), ("a", fold), ("p", "pause")),
        place,
        width,
    )


def keys_line(keys: Iterable[tuple[str, str]], place: str, width: int) -> Text:
    """Each key with what it does, as far as there is room, and at the right end where we are."""
    line = Text(no_wrap=True, end="")
    for key, does in keys:
        if line.cell_len + len(key) + cell_len(does) + 3 > width - len(place) - 2:
            break
        line.append("  " if line else "")
        line.append(key, "bold")
        line.append(f" {does}", "dim")
    return line.append(f"{' ' * max(2, width - line.cell_len - len(place))}{place}", "dim")


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
