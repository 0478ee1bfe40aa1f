"""The rows of `numaudit top`: containers and nodes, as lines of a given width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.columns import can_promise, columns_of
from numaudit.report.values import ContainerReport, NodeReport, Report
from numaudit.report.words import judged_bytes, size
from numaudit.views.terminal.container_table import fill
from numaudit.views.terminal.fit import Filled, fit

_GAP = 2
_BAR = 20
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
    filled = []
    for column, place in columns_of("top", report):
        alone = None if promises else place.leaves_unpromised
        filled.append(fill(column, place.leaves if alone is None else alone, shown, place.heading))
    kept, _ = fit(filled, width, _NAME_SHARE)
    return _grid(kept)


def node_grid(report: Report, most: int, width: int) -> Grid:
    """One row for each node; of more than `most` those with the most misplaced bytes, then the fullest."""
    promised = _promised(report)
    misplaced = _misplaced_by_node(report) if promised is not None else _remote_by_node(report)
    by_need = sorted(report.nodes, key=lambda node: (-misplaced.get(node.numa_node, 0), node.free_bytes or 0))
    chosen = {node.numa_node for node in by_need[:most]}
    nodes = [node for node in report.nodes if node.numa_node in chosen]
    columns = [
        Filled("NODE", 0, [str(node.numa_node) for node in nodes]),
        Filled("", 3, [_bar(node, misplaced) for node in nodes]),
        Filled(">TOTAL", 2, [size(node.total_bytes) for node in nodes]),
        Filled(">USED", 0, [size(_used(node)) for node in nodes]),
        Filled(">FREE", 0, [size(node.free_bytes) for node in nodes]),
    ]
    if promised is not None:
        columns.append(Filled(">PROMISED", 1, [size(promised.get(node.numa_node)) for node in nodes]))
    what = "MISPLACED" if promised is not None else "REMOTE"
    columns.append(
        Filled(f">{what}", 0, [_red_if_any(misplaced.get(node.numa_node, 0)) for node in nodes]),
    )
    kept, _ = fit(columns, width)
    grid = _grid(kept)
    left = len(report.nodes) - len(nodes)
    more = () if not left else (Text(f"and {left} more {'node' if left == 1 else 'nodes'}", "dim"),)
    return Grid(grid.head, (*grid.rows, *more))


def _red_if_any(value: int) -> Text:
    return Text(size(value), "red" if value else "")


def _used(node: NodeReport) -> int | None:
    return None if node.total_bytes is None or node.free_bytes is None else node.total_bytes - node.free_bytes


def _promised(report: Report) -> dict[int, int] | None:
    """By node, from the Memory Manager's map; None = there is none."""
    if report.memory_manager is None:
        return None
    return {table.numa_node: table.reserved for table in report.memory_manager.tables if table.type == MEMORY}


def _misplaced_by_node(report: Report) -> dict[int, int]:
    """Bytes on each node of containers that were promised others."""
    return _bytes_by_node(
        (one, one.intended.memory_nodes)
        for one in report.containers
        if one.intended is not None and one.intended.memory_nodes
    )


def _remote_by_node(report: Report) -> dict[int, int]:
    """Bytes on each node of containers that may use none of its CPUs."""
    return _bytes_by_node((one, one.allowed_cpu_nodes) for one in report.containers if one.allowed_cpu_nodes)


def _bytes_by_node(wanted: Iterable[tuple[ContainerReport, Iterable[int]]]) -> dict[int, int]:
    """By node, outside those that each container should be on."""
    sums: dict[int, int] = {}
    for one, nodes in wanted:
        right = set(nodes)
        for row in one.resident or ():
            if row.numa_node not in right:
                sums[row.numa_node] = sums.get(row.numa_node, 0) + judged_bytes(row)
    return sums


def _bar(node: NodeReport, misplaced: dict[int, int]) -> str:
    """`[!!#####.....]`: ! misplaced, # otherwise used, . free. What is there is never rounded to nothing."""
    used = _used(node)
    if used is None or not node.total_bytes:
        return ""
    full = min(_BAR, -(-used * _BAR // node.total_bytes))
    wrong = min(full, -(-misplaced.get(node.numa_node, 0) * _BAR // node.total_bytes))
    return f"[{'!' * wrong}{'#' * (full - wrong)}{'.' * (_BAR - full)}]"


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
