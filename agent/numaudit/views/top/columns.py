"""The rows of `numaudit top`: containers and nodes, which and in which order, as lines of a given width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, compress

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from numaudit.api.selection import KEYS, key_of_column, ordered, with_words
from numaudit.report.columns import can_promise, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows, worst
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import is_small_group
from numaudit.views.terminal.fit import Filled, fill, fit
from numaudit.views.trends import RowKey, Trends, key_of

_TREND_TICKS = 10
"""Ticks that have room in a row."""


class RowChoice(Struct, frozen=True):
    """Choice of rows by the keys, and their order."""

    sort: str = KEYS[0]
    reverse: bool = False
    text: str = ""
    """Words of the filter."""
    shows_all: bool = False
    """With the small groups?"""


class Rows(Struct, frozen=True):
    """Rows that are shown. A line is made when it is seen."""

    grid: Grid
    numbers: Sequence[int]
    """Places in the grid."""
    keys: Sequence[RowKey]
    folded: int
    """Small groups that are left out."""

    def __len__(self) -> int:
        return len(self.numbers)

    def line(self, number: int) -> Text:
        return self.grid.row(self.numbers[number])


class RowTable:
    """The rows of one tick. Keys that change their order or number do not make their cells again."""

    def __init__(self, report: Report, trends: Trends, width: int) -> None:
        self._report, self._trends, self._width = report, trends, width
        self._grids: dict[tuple[bool, str], Grid] = {}

    def rows(self, choice: RowChoice) -> Rows:
        """Those that the choice leaves. A filter also finds what is folded."""
        everything = choice.shows_all or bool(choice.text.split())
        containers = self._report.containers if everything else self._unfolded
        places = {id(one): number for number, one in enumerate(containers)}
        shown = ordered(with_words(containers, choice.text), choice.sort, choice.reverse)
        folded = len(self._report.containers) - len(containers)
        grid = self._grid(everything, choice.sort)
        return Rows(grid, [places[id(one)] for one in shown], [key_of(one) for one in shown], folded)

    @cached_property
    def _unfolded(self) -> tuple[ContainerReport, ...]:
        return tuple(one for one in self._report.containers if not is_small_group(one))

    @cached_property
    def _of_all(self) -> tuple[Sortable, ...]:
        containers, trends = self._report.containers, self._trends
        lines = [drawn(trends.remote(one)[-_TREND_TICKS:]) for one in containers] if trends.have_begun() else ()
        return container_columns(self._report, containers, lines)

    @cached_property
    def _of_unfolded(self) -> tuple[Sortable, ...]:
        kept = [not is_small_group(one) for one in self._report.containers]
        return tuple((replace(one, cells=list(compress(one.cells, kept))), key) for one, key in self._of_all)

    def _grid(self, everything: bool, sort: str) -> Grid:
        if (everything, sort) not in self._grids:
            columns = self._of_all if everything else self._of_unfolded
            self._grids[everything, sort] = container_grid(columns, self._width, sort)
        return self._grids[everything, sort]


_LEVELS = "▁▂▃▄▅▆▇█"


def drawn(shares: Iterable[int | None]) -> str:
    """A block for each: the lowest for nothing, the next for a little, the full one for 100 %; a blank = not known."""
    return "".join(" " if one is None else _LEVELS[-(-one * (len(_LEVELS) - 1) // 100)] for one in shares)


_GAP = 2
_NAME_SHARE = 0.42
"""Of the width: names say which row is meant, and all other columns are on the page of one container, too."""
_TREND, _TREND_LEAVES = "TREND", 2
TREND_HELP = "remote share of its accesses, or if those are not measured of its bytes, at the last ticks; full = 100 %"
_BAR = {"!": ("▓", "red"), "#": ("█", ""), ".": ("░", "dim"), "[": ("", ""), "]": ("", "")}
"""Each letter of a node's bar, as it is drawn, and its style."""


class Grid(Struct, frozen=True):
    """A table: its columns with their cells, which become a line where a row is seen."""

    columns: tuple[Filled, ...]
    sorts: tuple[str | None, ...] = ()
    """Of each column the key that sorts by it."""

    @property
    def width(self) -> int:
        return sum(column.width + _GAP for column in self.columns) - _GAP

    def head(self, sort: str | None = None, reverse: bool = False) -> Text:
        """The titles. A mark in the gap beside it shows the column that the rows are sorted by."""
        line = Text(no_wrap=True, end="")
        mark = "▲" if reverse != (sort == "name") else "▼"
        by = self.sorts.index(sort) if sort in self.sorts else None
        for number, column in enumerate(self.columns):
            title, here = column.title.lstrip(">~"), mark if number == by else ""
            if _is_right(column):
                before, text, after = column.width + 1, f"{here}{title}", 1
            else:
                before, text, after = 0, f"{title}{here}", column.width + 1
            before, after = max(0, before - len(text)), max(1, after - len(text)) if not _is_right(column) else after
            line.append(" " * (before + (1 if number and not _is_right(column) else 0)))
            line.append(text, "bold underline" if here else "bold")
            line.append(" " * after)
        line.right_crop(1)
        return line

    def sort_at(self, x: int) -> str | None:
        """The key of the column whose title, or half of the gap beside it, is at this place; None = there is none."""
        ends = accumulate(column.width + _GAP for column in self.columns)
        return next((key for key, end in zip(self.sorts, ends, strict=True) if 0 <= x + 1 < end), None)

    def row(self, number: int) -> Text:
        line = Text(no_wrap=True, end="")
        for place, column in enumerate(self.columns):
            cell = column.cells[number]
            blanks = " " * (column.width - (cell.cell_len if isinstance(cell, Text) else cell_len(cell)))
            line.append(" " * _GAP if place else "")
            if _is_right(column):
                line.append(blanks)
            line.append(cell) if isinstance(cell, str) else line.append_text(cell)
            if not _is_right(column):
                line.append(blanks)
        return line

    @property
    def rows(self) -> tuple[Text, ...]:
        return tuple(self.row(number) for number in range(len(self.columns[0].cells)))


Sortable = tuple[Filled, str | None]
"""A column, and the key that sorts by it."""


def container_columns(
    report: Report, shown: Sequence[ContainerReport], trends: Sequence[str] = ()
) -> tuple[Sortable, ...]:
    """All that a row may have, with a cell for each container.

    `trends`: of each container, drawn; empty = there are none yet.
    """
    promises = can_promise(report)
    columns: list[Sortable] = []
    for column, place in columns_of("top", report):
        leaves = None if promises else place.leaves_unpromised
        columns.append((fill(column, place, shown, leaves), key_of_column(column)))
        if trends and column.title == ("WHY" if promises else "CONTAINER"):
            columns.append((Filled(_TREND, _TREND_LEAVES, trends), None))
    return tuple(columns)


def container_grid(columns: Sequence[Sortable], width: int, sort: str | None = None) -> Grid:
    """Columns that have no room are left out, but never the one that sorts the rows."""
    stay = [(replace(one, rank=0) if key is not None and key == sort else one, key) for one, key in columns]
    kept, _ = fit([one for one, _ in stay], width, _NAME_SHARE)
    keys = {one.title: key for one, key in stay}
    return Grid(tuple(kept), tuple(keys[one.title] for one in kept))


def node_grid(report: Report, most: int, width: int) -> tuple[Text, ...]:
    """The titles and a line for each node; of more than `most` the worst."""
    rows = node_rows(report)
    shown = worst(rows, most)
    filled = [fill(column, place, shown) for column, place in placed(NODE_COLUMNS, "top", report)]
    kept, _ = fit([replace(one, cells=[_bar(cell) for cell in one.cells]) for one in filled], width)
    grid = Grid(tuple(kept))
    left = len(rows) - len(shown)
    more = () if not left else (Text(f"and {left} more {'node' if left == 1 else 'nodes'}", "dim"),)
    return (grid.head(), *grid.rows, *more)


def _bar(cell: str | Text) -> str | Text:
    """The cell; a bar as blocks in colours."""
    if isinstance(cell, Text) or not cell.startswith("["):
        return cell
    return Text.assemble(*(_BAR[letter] for letter in cell))


def _is_right(column: Filled) -> bool:
    return column.title.startswith(">")
