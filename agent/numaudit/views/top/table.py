"""The rows of the screen of `numaudit top`: which containers they are, in which order, and the line of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import compress

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from numaudit.api.selection import KEYS, ordered, with_words
from numaudit.report.kinds import is_small_group
from numaudit.report.values import ContainerReport, Report
from numaudit.views.top.columns import Grid, Sortable, container_columns, container_grid, drawn
from numaudit.views.trends import RowKey, Trends, key_of

_TREND = 10
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
        lines = [drawn(trends.remote(one)[-_TREND:]) for one in containers] if trends.have_begun() else ()
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
