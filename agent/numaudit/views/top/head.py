"""The lines above and below the rows of `numaudit top`, its keys, and its help. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from numaudit.errors import printable
from numaudit.report.columns import columns_of, explained
from numaudit.report.values import Report
from numaudit.views.notes import not_known, sources_in_trouble
from numaudit.views.terminal.report_tables import text_of
from numaudit.views.top.columns import LATELY, RowChoice, Rows

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


class Keys(Struct, frozen=True):
    """Some keys that belong together."""

    label: str
    does: str
    actions: tuple[tuple[str, str], ...] = ()
    """Textual's names of keys, and the action; none for the mouse."""


KEYS = (
    Keys(
        "j k Down Up",
        "move, or scroll a page",
        (("down", "move(1)"), ("up", "move(-1)"), ("j", "step(1)"), ("k", "step(-1)")),
    ),
    Keys("PgDn PgUp", "a screen on, or back", (("pagedown", "page(1)"), ("pageup", "page(-1)"))),
    Keys("g G Home End", "to the first, the last", (("home,g", "end(-1)"), ("end,G", "end(1)"))),
    Keys("Enter", "open the container", (("enter", "enter"),)),
    Keys("Esc", "back; clear the filter", (("escape", "close"),)),
    Keys("/", "filter names, verdicts", (("slash", "filter"),)),
    Keys("s S", "next, previous order", (("s", "sort(1)"), ("S", "sort(-1)"))),
    Keys("r", "reverse the order", (("r", "reverse"),)),
    Keys("a", "show, fold small groups", (("a", "fold"),)),
    Keys("p Space", "pause; go on with a tick", (("p,space", "pause"),)),
    Keys("+ -", "measure less, more often", (("plus", "interval(1)"), ("minus", "interval(-1)"))),
    Keys("? h", "this help", (("h,question_mark", "help"),)),
    Keys("q", "back from a page, quit", (("q", "quit_or_back"),)),
    Keys("Ctrl-C", "quit with exit code 130", (("ctrl+c", "leave(True)"),)),
    Keys("Ctrl-Z", "to the shell; fg returns", (("ctrl+z", "suspend_process"),)),
    Keys("click", "choose; twice: open"),
    Keys("click title", "sort by it; reverse"),
)
NOT_WHILE_TYPING = (
    "step", "page", "end", "enter", "filter", "sort", "reverse", "fold", "pause", "interval", "help", "quit_or_back",
)  # fmt: skip
"""Actions whose keys are a filter's, while one is typed. Of those that move, only the arrows still do."""
NOT_ON_A_PAGE = ("sort", "reverse", "filter", "fold")
"""Actions whose keys do nothing on a page."""
OF_A_PAGE = (("Esc q", "back"), ("j k g G PgUp PgDn", "scroll"), ("?", "help"), ("Ctrl-C", "quit"))
"""Those that the last line of a page names."""

_LABEL = max(cell_len(one.label) for one in KEYS)
_KEYS_WIDTH = _LABEL + 2 + max(cell_len(one.does) for one in KEYS)
_GAP = 3


def help_lines(report: Report | None, titles: str, width: int, *, captured: bool = False) -> list[Text]:
    """`titles`: the line above the rows, and that above the nodes; only columns in it are explained."""
    lines = [*_keys(width), Text()]
    shown = [(title, said) for title, said in _explained() if title in titles]
    if shown:
        wide = max(cell_len(title) for title, _ in shown)
        lines += [row for title, said in shown for row in _entry(title, said, wide, width)]
        lines.append(Text())
    missing = ["accesses and CPU time: this is a captured tree, where nothing runs"] if captured else []
    missing += [] if report is None else why_not_measured(report)
    lines.append(Text("not measured here" if missing else "everything that can be measured is measured here", "bold"))
    return lines + [Text(line, "dim") for line in missing]


def _explained() -> Iterator[tuple[str, str]]:
    yield "▓█░", "a node's memory: ▓ misplaced or remote, █ otherwise used, ░ free"
    share = "at each of the last ticks; full = 100 %, blank = not known"
    yield LATELY["bytes"], f"share of bytes that were remote {share}"
    yield LATELY["accesses"], f"share of accesses that were remote {share}"
    yield from explained(columns_of("top"))


def _entry(title: str, said: str, wide: int, width: int) -> Iterator[Text]:
    for number, line in enumerate(cut(said, max(20, width - wide - 2), 2)):
        yield Text.assemble((f"{'' if number else title:<{wide}}  ", "bold"), line)


def _keys(width: int) -> Iterator[Text]:
    """Side by side, as far as there is room."""
    across = max(1, (width + _GAP) // (_KEYS_WIDTH + _GAP))
    down = -(-len(KEYS) // across)
    for row in range(down):
        yield _row(KEYS[row::down])


def _row(keys: Sequence[Keys]) -> Text:
    line = Text()
    for number, one in enumerate(keys):
        line.append(" " * (number * (_KEYS_WIDTH + _GAP) - line.cell_len))
        line.append(f"{one.label:<{_LABEL}}  ", "bold")
        line.append(one.does)
    return line
