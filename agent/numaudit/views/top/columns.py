"""The rows of `numaudit top`: containers and nodes, which and in which order, as lines of a given width. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, compress

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from numaudit.api.selection import KEYS, key_of_column, ordered, with_words
from numaudit.report.columns import can_promise, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS, NodeRow, worst
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import is_small_group
from numaudit.views.terminal.fit import Filled, fill, fit
from numaudit.views.trends import KEPT, RowKey, Trends, key_of

Shares = Sequence[int | None]
"""Per cent at each of the last ticks, the newest last; None = not known."""


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
    lately: Callable[[int], Shares] | None = None
    """Remote shares, by place in the grid."""

    def __len__(self) -> int:
        return len(self.numbers)

    def line(self, number: int) -> Text:
        place = self.numbers[number]
        return self.grid.row(place, () if self.lately is None else self.lately(place))


class RowTable:
    """The rows of one tick. Keys that change their order or number do not make their cells again.

    `trends`: None where nothing moves.
    """

    def __init__(self, report: Report, trends: Trends | None, width: int) -> None:
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
        trends, numbers = self._trends, [places[id(one)] for one in shown]
        lately = None if trends is None else lambda place: trends.remote(containers[place])
        return Rows(grid, numbers, [key_of(one) for one in shown], folded, lately)

    @cached_property
    def _unfolded(self) -> tuple[ContainerReport, ...]:
        return tuple(one for one in self._report.containers if not is_small_group(one))

    @cached_property
    def _of_all(self) -> tuple[Sortable, ...]:
        return container_columns(self._report, self._report.containers)

    @cached_property
    def _of_unfolded(self) -> tuple[Sortable, ...]:
        kept = [not is_small_group(one) for one in self._report.containers]
        return tuple((replace(one, cells=list(compress(one.cells, kept))), key) for one, key in self._of_all)

    def _grid(self, everything: bool, sort: str) -> Grid:
        if (everything, sort) not in self._grids:
            columns = self._of_all if everything else self._of_unfolded
            lately = "" if self._trends is None else LATELY[self._trends.of_what]
            self._grids[everything, sort] = container_grid(columns, self._width, sort, lately)
        return self._grids[everything, sort]


_LEVELS = "▁▂▃▄▅▆▇█"


def drawn(shares: Shares) -> str:
    """A block for each: the lowest for nothing, the next for a little, the full one for 100 %; a blank = not known."""
    return "".join(" " if one is None else _LEVELS[-(-one * (len(_LEVELS) - 1) // 100)] for one in shares)


_GAP = 2
_NAME_SHARE = 0.42
"""Of the width: names say which row is meant, and all other columns are on the page of one container, too."""
LATELY = {"bytes": "REMOTE LATELY", "accesses": "REMOTE ACCESSES LATELY"}
"""Title of what is drawn of the last ticks, by what it is a share of."""
_LATELY_LEAVES, _LATELY_STYLE = 1, "cyan"
BAR, _BAR_LEAVES = "MEMORY", 2
_LEAST_BAR = 10


class Grid(Struct, frozen=True):
    """A table: its columns with their cells, which become a line where a row is seen."""

    columns: tuple[Filled, ...]
    sorts: tuple[str | None, ...] = ()
    """Of each column the key that sorts by it."""
    lately: str = ""
    """Title of the last ticks, which end each row; empty = there are none."""
    ticks: int = 0
    """Width of these."""

    @property
    def width(self) -> int:
        return sum(column.width + _GAP for column in self.columns) - _GAP + (_GAP + self.ticks if self.ticks else 0)

    def with_ticks(self, lately: str, ticks: int) -> Grid:
        """The same, and the last ticks in so many places, but under their whole title."""
        return replace(self, lately=lately, ticks=max(len(lately), min(ticks, KEPT)))

    def head(self, sort: str | None = None, reverse: bool = False) -> Text:
        """The titles. A mark in the gap beside it shows the column that the rows are sorted by."""
        line = Text(no_wrap=True, end="")
        mark = "▲" if reverse != (sort == "name") else "▼"
        by = None if sort is None or sort not in self.sorts else self.sorts.index(sort)
        for number, column in enumerate(self.columns):
            title, here = column.title.lstrip(">~"), mark if number == by else ""
            if _is_right(column):
                before, text, after = column.width + 1, f"{here}{title}", 1
            else:
                before, text, after = 0, f"{title}{here}", column.width + 1
            before, after = max(0, before - len(text)), after if _is_right(column) else after - len(text)
            line.append(" " * (before + (1 if number and not _is_right(column) else 0)))
            line.append(text, "bold underline" if here else "bold")
            line.append(" " * after)
        line.right_crop(1)
        return line.append(f"{' ' * _GAP}{self.lately:>{self.ticks}}", "bold") if self.ticks else line

    def sort_at(self, x: int) -> str | None:
        """The key of the column whose title, or half of the gap beside it, is at this place; None = there is none."""
        ends = accumulate(column.width + _GAP for column in self.columns)
        return next((key for key, end in zip(self.sorts, ends, strict=True) if 0 <= x + 1 < end), None)

    def row(self, number: int, lately: Shares = ()) -> Text:
        """One line. The newest of the last ticks is at its right end."""
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
        if self.ticks:
            line.append(" " * _GAP)
            line.append(f"{drawn(lately[-self.ticks :]):>{self.ticks}}", _LATELY_STYLE)
        return line


Sortable = tuple[Filled, str | None]
"""A column, and the key that sorts by it."""


def container_columns(report: Report, shown: Sequence[ContainerReport]) -> tuple[Sortable, ...]:
    """All that a row may have, with a cell for each container."""
    promises = can_promise(report)
    return tuple(
        (fill(column, place, shown, None if promises else place.leaves_unpromised), key_of_column(column))
        for column, place in columns_of("top", report)
    )


def container_grid(columns: Sequence[Sortable], width: int, sort: str | None = None, lately: str = "") -> Grid:
    """Columns that have no room are left out, but never the one that sorts the rows. `lately`: title of the ticks."""
    stay = [replace(one, rank=0) if key is not None and key == sort else one for one, key in columns]
    kept, _ = fit([*stay, *_ticks(lately)], width, _NAME_SHARE)
    keys = {one.title: key for one, key in columns}
    shown = [one for one in kept if one.title in keys]
    grid = Grid(tuple(shown), tuple(keys[one.title] for one in shown))
    return grid if len(shown) == len(kept) else grid.with_ticks(lately, width - grid.width - _GAP)


def node_grid(
    report: Report, rows: Sequence[NodeRow], most: int, width: int, trends: Trends | None = None
) -> tuple[Text, ...]:
    """The titles and a line for each node; of more than `most` the worst. `trends`: None where nothing moves."""
    shown = worst(rows, most)
    columns = [(fill(column, place, shown), None) for column, place in placed(NODE_COLUMNS, "top", report)]
    columns.append((Filled(BAR, _BAR_LEAVES, [bar(row, _LEAST_BAR) for row in shown]), None))
    grid = container_grid(columns, width, lately="" if trends is None else LATELY["bytes"])
    if grid.columns[-1].title == BAR:
        grid = _with_wide_bars(grid, shown, width)
    lately = [() if trends is None else trends.remote_of_node(row.node.numa_node) for row in shown]
    left = len(rows) - len(shown)
    more = () if not left else (Text(f"and {left} more {'node' if left == 1 else 'nodes'}", "dim"),)
    return (grid.head(), *map(grid.row, range(len(shown)), lately), *more)


def _with_wide_bars(grid: Grid, rows: Sequence[NodeRow], width: int) -> Grid:
    """Bars and ticks share the room that is left."""
    least = len(grid.lately)
    spare = width - grid.width + grid.ticks - least
    ticks = min(KEPT, least + spare // 2) if grid.ticks else 0
    bars = [bar(row, _LEAST_BAR + spare + least - ticks) for row in rows]
    *others, last = grid.columns
    return replace(grid, columns=(*others, replace(last, cells=bars)), ticks=ticks)


def _ticks(lately: str) -> Iterable[Filled]:
    """The place of the last ticks, which are drawn where a row is seen."""
    return [Filled(lately, _LATELY_LEAVES, [lately])] if lately else []


def bar(row: NodeRow, width: int) -> Text:
    """Bar of a node's memory; none where it is not known. A part that exists is never rounded to nothing."""
    used, total = row.node.used_bytes, row.node.total_bytes
    if used is None or not total:
        return Text()
    full = min(width, -(-used * width // total))
    wrong = min(full, -(-row.elsewhere.either * width // total))
    return Text.assemble(("▓" * wrong, "red"), ("█" * (full - wrong), "cyan"), ("░" * (width - full), "dim"))


def _is_right(column: Filled) -> bool:
    return column.title.startswith(">")
