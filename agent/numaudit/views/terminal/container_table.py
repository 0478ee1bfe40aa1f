"""The table of containers: the report's columns, fitted into a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from numaudit.report.cells import Tone
from numaudit.report.columns import Column, ColumnPlaces, Row, columns_of
from numaudit.report.values import ContainerReport, Report
from numaudit.views.terminal.fit import Filled, filled_table, fit, left_out

_NODE_COLUMNS = 8
_TWO_NODES = len("N0:99.9M N1:99.9M")
STYLES: dict[Tone | None, str] = {"good": "green", "unknown": "yellow", "bad": "red", None: ""}


def container_table(
    report: Report, shown: Sequence[ContainerReport], wide: bool, width: int
) -> tuple[Table, tuple[str, ...]]:
    """The table, and the titles of the columns that do not fit into this width."""
    nodes = [node.numa_node for node in report.nodes]
    columns = columns_of("table", report, wide=wide)
    for apart in (nodes, ()) if len(nodes) <= _NODE_COLUMNS else ((),):
        filled = [one for column, place in columns for one in _filled(column, place, shown, apart)]
        kept, has_room = fit(filled, width)
        if has_room:
            break
    return filled_table(kept), left_out(filled, kept)


def _filled(
    column: Column[ContainerReport], place: ColumnPlaces, shown: Sequence[ContainerReport], apart: Sequence[int]
) -> list[Filled]:
    """The column; or one for each of these nodes, if it can be taken apart."""
    if column.of_node is None:
        return [fill(column, place, shown)]
    if not apart:
        return [Filled(f"~{column.title}", place.leaves, [column.text(one) for one in shown], _TWO_NODES)]
    return [Filled(f">N{node}", place.leaves, [column.of_node(node, one) for one in shown]) for node in apart]


def fill(column: Column[Row], place: ColumnPlaces, rows: Sequence[Row], rank: int | None = None) -> Filled:
    """The column with its cells, for `fit`. `rank`: when it leaves, if not as its place says."""
    name = f"{'>' if column.is_number else ''}{column.heading(place)}"
    leaves = place.leaves if rank is None else rank
    cells = [column.text(row) for row in rows]
    if column.tone is None:
        return Filled(name, leaves, cells)
    tones = map(column.tone, rows)
    return Filled(name, leaves, [Text(cell, STYLES[tone]) for cell, tone in zip(cells, tones, strict=True)])


def explained(report: Report, *, wide: bool) -> Iterator[str]:
    """`ALLOWED = nodes that its memory may be on.`, for each column that needs it."""
    for column, _ in columns_of("table", report, wide=wide):
        if column.help:
            yield f"{column.title} = {column.help}."
