"""The rows of `numaudit top`: containers and nodes, as lines of a given width. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from numaudit.report.columns import can_promise, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows, worst
from numaudit.report.values import ContainerReport, Report
from numaudit.views.terminal.container_table import fill
from numaudit.views.terminal.fit import Filled, fit

_GAP = 2
_NAME_SHARE = 0.4
"""Of the width: names say which row is meant, and all other columns are on the page of one container, too."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The head of a table and its rows, a line each."""

    head: Text
    rows: tuple[Text, ...]


def container_grid(report: Report, shown: Sequence[ContainerReport], width: int) -> Grid:
    """One row for each container; columns that have no room are left out."""
    promises = can_promise(report)
    filled = [
        fill(column, place, shown, None if promises else place.leaves_unpromised)
        for column, place in columns_of("top", report)
    ]
    kept, _ = fit(filled, width, _NAME_SHARE)
    return _grid(kept)


def node_grid(report: Report, most: int, width: int) -> Grid:
    """One row for each node; of more than `most` the worst."""
    rows = node_rows(report)
    shown = worst(rows, most)
    kept, _ = fit([fill(column, place, shown) for column, place in placed(NODE_COLUMNS, "top", report)], width)
    grid = _grid(kept)
    left = len(rows) - len(shown)
    more = () if not left else (Text(f"and {left} more {'node' if left == 1 else 'nodes'}", "dim"),)
    return Grid(grid.head, (*grid.rows, *more))


def _grid(columns: Sequence[Filled]) -> Grid:
    widths = [column.width for column in columns]
    right = [column.title.startswith(">") for column in columns]
    layout = list(zip(widths, right, strict=True))
    head = _line([Text(column.title.lstrip(">~"), "bold") for column in columns], layout)
    return Grid(head, tuple(_line(row, layout) for row in zip(*(column.cells for column in columns), strict=True)))


def _line(cells: Sequence[str | Text], layout: Sequence[tuple[int, bool]]) -> Text:
    line = Text(no_wrap=True, end="")
    for number, (cell, (width, right)) in enumerate(zip(cells, layout, strict=True)):
        blanks = " " * (width - (cell.cell_len if isinstance(cell, Text) else cell_len(cell)))
        line.append(" " * _GAP if number else "")
        if right:
            line.append(blanks)
        line.append(cell) if isinstance(cell, str) else line.append_text(cell)
        if not right:
            line.append(blanks)
    return line
