"""Fits tables, above all that of containers, into a terminal: columns are left out, long names lose their middle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise, takewhile

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from numaudit.report.cells import Tone, by_node
from numaudit.report.columns import Column, ColumnPlaces, Placed, Row, columns_of, explained
from numaudit.report.values import ContainerReport, Report
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_NODE_COLUMNS = 8
_NAME_SHARE = 0.3
"""Of the width of the table of containers."""
_ZEROS = {"0": ".", "0.0%": "."}
STYLES: dict[Tone | None, str] = {"good": "green", "unknown": "yellow", "bad": "red", None: ""}


def container_table(
    report: Report, shown: Sequence[ContainerReport], wide: bool, width: int
) -> tuple[Table, tuple[str, ...]]:
    """The table, and the titles of the columns that do not fit into this width.

    Memory by node has a column for each node, or else names as many nodes as leave room for the containers' names.
    """
    nodes = [node.numa_node for node in report.nodes]
    columns = columns_of("table", report, wide=wide)
    for form in (*([nodes] if len(nodes) <= _NODE_COLUMNS else []), None, 2, 1):
        filled = [one for column, place in columns for one in _filled(column, place, shown, form)]
        kept, has_room = fit(filled, width, _NAME_SHARE)
        if has_room:
            break
    others = ("other nodes (+)",) if any(re.search(r" \+\d+$", str(cell)) for one in kept for cell in one.cells) else ()
    return filled_table(kept), (*left_out(filled, kept), *others)


def _filled(
    column: Column[ContainerReport],
    place: ColumnPlaces,
    shown: Sequence[ContainerReport],
    form: Sequence[int] | int | None,
) -> list[Filled]:
    """The column; or one for each of these nodes, if it can be taken apart, or the nodes with the most memory."""
    if column.of_node is None:
        return [_without_zeros(fill(column, place, shown))]
    if form is None or isinstance(form, int):
        return [Filled(column.title, place.leaves, [by_node(one, form) for one in shown])]
    return [
        _without_zeros(Filled(f">N{node}", place.leaves, [column.of_node(node, one) for one in shown])) for node in form
    ]


def _without_zeros(column: Filled) -> Filled:
    """A number that is 0 is a dot, so that the others are seen."""
    if not column.title.startswith(">"):
        return column
    return replace(column, cells=[_ZEROS.get(str(cell), cell) for cell in column.cells])


def fill(column: Column[Row], place: ColumnPlaces, rows: Sequence[Row], rank: int | None = None) -> Filled:
    """The column with its cells, for `fit`. `rank`: when it leaves, if not as its place says."""
    name = f"{'>' if column.is_number else '~' if column.folds else ''}{column.heading(place)}"
    leaves = place.leaves if rank is None else rank
    cells = [column.text(row) for row in rows]
    if column.tone is None:
        return Filled(name, leaves, cells, column.least)
    tones = map(column.tone, rows)
    return Filled(name, leaves, [Text(cell, STYLES[tone]) for cell, tone in zip(cells, tones, strict=True)])


def print_columns(
    columns: Sequence[Placed[Row]],
    rows: Sequence[Row],
    out: Console,
    *,
    indent: str = "",
    more: str = "",
    explains: bool = False,
) -> None:
    """A table of as many columns as have room, and the names of the others. `more`: what shows those."""
    filled = [fill(column, place, rows) for column, place in columns]
    kept, _ = fit(filled, out.width - len(indent))
    gone = left_out(filled, kept)
    if indent:
        mark = ">" if kept[0].title.startswith(">") else ""
        cells = [f"{indent}{one}" for one in kept[0].cells]
        kept[0] = replace(kept[0], title=f"{mark}{indent}{kept[0].title.removeprefix(mark)}", cells=cells)
    print_table(filled_table(kept), out)
    if gone:
        print_note(f"{indent}left out: {_in_words(filled, gone)}{more}", out)
    if explains:
        print_explained([pair for pair in columns if pair[0].heading(pair[1]) not in gone], out)


def _in_words(columns: Sequence[Filled], gone: Sequence[str]) -> str:
    """`STRANDED (all 0); SYSTEM, FREE (no room)`"""
    cells = {column.title.lstrip(">~"): {str(cell) for cell in column.cells} for column in columns}
    zero = [title for title in gone if "0" in cells[title] <= {"", "0"}]
    others = [title for title in gone if title not in zero]
    said = ((zero, "all 0"), (others, "no room"))
    return "; ".join(f"{', '.join(titles)} ({why})" for titles, why in said if titles)


def print_explained(columns: Iterable[Placed[Row]], out: Console) -> None:
    """`ALLOWED = nodes that its memory may be on.`, for each column that needs it: as many in a line as have room."""
    line, room = "", min(out.width, _LINE)
    for heading, said in explained(columns):
        sentence = f"{heading} = {said}."
        if line and len(line) + 1 + len(sentence) > room:
            print_note(line, out, "dim")
            line = ""
        line += f" {sentence}" if line else sentence
    if line:
        print_note(line, out, "dim")


_GAP = 2
_LINE = 120
"""Columns that what explains the tables fills, before a narrower terminal breaks it again."""
_SHORTEST_NAME = 24
"""Before a name gets shorter than that, columns leave."""
_SHORTEST_OF_ALL = 16
"""Of a name for which no more columns can leave."""


class Filled(Struct, frozen=True, dict=True):
    """One column of `new_table` with its cells. Columns of the highest rank leave first; those of rank 0 stay."""

    title: str
    rank: int
    cells: Sequence[str | Text]
    least: int | None = None
    """The width at which the column can still be read, where that is less than its content's."""

    @cached_property
    def width(self) -> int:
        """The width of its content, in terminal cells."""
        return max(map(_length, (self.title.lstrip(">~"), *self.cells)))

    @property
    def least_width(self) -> int:
        return self.width if self.least is None else min(self.width, self.least)

    @property
    def is_empty(self) -> bool:
        return not any(_length(cell) for cell in self.cells)


def fit(columns: Sequence[Filled], width: int, name_share: float = 0.25) -> tuple[list[Filled], bool]:
    """The columns that stay in a terminal of this width, names shortened; and whether they fit now.

    The first column has the names; others leave before those have less than this share of the width. A column with
    nothing in it leaves before any other.
    """
    kept = list(columns)
    least_name = min(columns[0].width, max(_SHORTEST_NAME, int(width * name_share)))
    while (leaving := _first_to_leave(kept)) is not None and _width_for_name(kept, width) < least_name:
        kept.remove(leaving)
    left = _width_for_name(kept, width)
    names = kept[0]
    shortened = shorten_apart([str(name) for name in names.cells], max(left, min(least_name, _SHORTEST_OF_ALL)))
    return [Filled(names.title, names.rank, shortened), *kept[1:]], left >= least_name


def filled_table(columns: Sequence[Filled]) -> Table:
    """The columns as a table."""
    table = new_table(*(column.title for column in columns))
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def left_out(columns: Sequence[Filled], kept: Sequence[Filled]) -> tuple[str, ...]:
    """The names of the columns that did not stay."""
    titles = {column.title for column in kept}
    return tuple(column.title.lstrip(">~") for column in columns if column.title not in titles)


def shorten_apart(names: Sequence[str], width: int) -> list[str]:
    """Each name in at most `width` places, and no two of them in the same way."""
    shown = {name: shorten(name, width) for name in names}
    for apart in (_where_they_differ, _numbered):
        count = Counter(shown.values())
        alike = sorted(name for name, short in shown.items() if count[short] > 1)
        shown |= apart(alike, width)
    return [shown[name] for name in names]


def _where_they_differ(names: Sequence[str], width: int) -> dict[str, str]:
    """Each around the first letter that sets it apart from those before and after it. `names` are in order."""
    between = [_common(*pair) for pair in pairwise(names)]
    first = [max(pair) for pair in zip([0, *between], [*between, 0], strict=True)]
    return {name: _around(name, at, width) for name, at in zip(names, first, strict=False)}


def _numbered(names: Sequence[str], width: int) -> dict[str, str]:
    """The last resort: `/a/b…c~17`."""
    digits = len(str(len(names)))
    return {
        name: f"{shorten(name, width - digits - 1)}~{number:0{digits}}" for number, name in enumerate(names, start=1)
    }


def _common(a: str, b: str) -> int:
    """Length of the prefix that both have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _around(name: str, at: int, width: int) -> str:
    """Its start, what is around the letter `at`, and its end: `/kubepods…-5c63-a7…d1.scope`."""
    part = (width - 2) // 4
    while True:
        begin = max(part, min(at - part // 2, len(name) - 3 * part))
        shown = f"{name[:part]}…{name[begin : begin + 2 * part]}…{name[-part:]}"
        if cell_len(shown) <= width or part == 1:
            return shown
        part -= 1


def shorten(name: str, width: int) -> str:
    """The name in at most `width` cells, without its middle if need be: `/system.slice/docker-d1d1…d1.scope`."""
    if cell_len(name) <= width:
        return name
    end = (width - 1) // 3
    start = width - 1 - end
    while cell_len(name[:start]) + 1 + cell_len(name[-end:]) > width and start:
        start, end = start - 1, max(1, end - 1)
    return f"{name[:start]}…{name[-end:]}"


def _first_to_leave(columns: Sequence[Filled]) -> Filled | None:
    leaving = [column for column in columns[1:] if column.rank]
    return max(leaving, key=lambda column: (column.is_empty, column.rank), default=None)


def _width_for_name(columns: Sequence[Filled], width: int) -> int:
    return width - sum(column.least_width + _GAP for column in columns[1:])


def _length(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)
