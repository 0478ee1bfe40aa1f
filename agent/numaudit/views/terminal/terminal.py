"""Helpers of all tables: the console, plain tables, and names from outside made printable."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from numaudit import __version__
from numaudit.encoding.value import Origin
from numaudit.errors import printable
from numaudit.report.words import in_utc
from numaudit.topology.quantity import plural

_WIDER_THAN_ANY_PATH = 1 << 16
_NARROWEST = 20
_GAP = 2
_AT_ONCE = 1000
"""Rows."""
_HANGING = 4
_LONG_WORD = 16
"""A longer one, such as a path, may be broken."""
TableRow = tuple[str | Text, ...]
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def console(*, whole_lines: bool = False, file: TextIO | None = None) -> Console:
    """Standard output, or another file: colour and line width only for a terminal; a pipe, and `whole_lines`, get
    whole lines."""
    file = sys.stdout if file is None else file
    width = None if file.isatty() and not whole_lines else _WIDER_THAN_ANY_PATH
    out = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    out.width = max(out.width, _NARROWEST)  # COLUMNS=0 would show nothing at all
    return out


def new_table(*columns: str) -> Table:
    """A plain table; `>` in front of a name aligns its column right, `~` lets its text go on in a second line."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_edge=False)
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        folds = name.startswith("~")
        table.add_column(Text(name.lstrip(">~"), "bold"), justify=justify, no_wrap=not folds, overflow="fold")
    return table


def print_rows(titles: Iterable[str], rows: Iterable[TableRow], out: Console) -> None:
    """A plain table of these rows."""
    table = new_table(*titles)
    for row in rows:
        table.add_row(*row)
    print_table(table, out)


def print_table(table: Table, out: Console) -> None:
    """Print without the blanks that fill the last column.

    Columns come closer in a narrow terminal. No figure is ever cut off, for what is left of it would be
    another figure: a terminal that is still too narrow breaks the lines itself.
    """
    widths = [max(_length(cell) for cell in (column.header, *column.cells)) for column in table.columns]
    fits = sum(widths) + _GAP * (len(widths) - 1) <= out.width
    if fits or all(column.no_wrap for column in table.columns):
        _print_rows(table, widths, _GAP if fits else 1, out)
    else:
        _print_folded(table, out)


def _print_rows(table: Table, widths: Sequence[int], gap: int, out: Console) -> None:
    """A line for each row: rich takes ten times as long, which counts where there are thousands."""
    rows = zip(*((column.header, *column.cells) for column in table.columns), strict=True)
    layout = [(width, column.justify == "right") for width, column in zip(widths, table.columns, strict=True)]
    while some := list(islice(rows, _AT_ONCE)):
        with out.capture() as captured:
            out.print(Segments([one for row in some for one in _line(row, layout, gap)]), crop=False, end="")
        _write_lines(captured.get(), out)


def _line(row: Sequence[RenderableType], layout: Sequence[tuple[int, bool]], gap: int) -> Iterator[Segment]:
    """Its cells with blanks between them; what is not styled comes in one piece."""
    plain = ""
    for cell, (width, right) in zip(row, layout, strict=True):
        blanks = " " * (width - _length(cell))
        plain += blanks if right else ""
        if isinstance(cell, Text) and cell.style:
            yield Segment(plain)
            yield Segment(cell.plain, Style.parse(str(cell.style)))
            plain = ""
        else:
            plain += str(cell)
        plain += " " * gap if right else blanks + " " * gap
    yield Segment(f"{plain}\n")


def _print_folded(table: Table, out: Console) -> None:
    """Texts of folding columns go on in a second line."""
    for column in table.columns:
        column.min_width = _least_width(column)
    least = sum((column.min_width or 0) + table.padding[1] for column in table.columns) - table.padding[1]
    options = out.options.update_width(max(out.width, least))
    with out.capture() as captured:
        out.print(Segments(out.render(table, options)), crop=False)
    _write_lines(captured.get(), out)


def _write_lines(text: str, out: Console) -> None:
    out.file.writelines(f"{line.rstrip()}\n" for line in text.splitlines())


def _length(cell: RenderableType) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(str(cell))


def _least_width(column: Column) -> int:
    """The places of its longest line, or where lines may be broken, of its longest word."""
    texts = [str(cell) for cell in (column.header, *column.cells)]
    if column.no_wrap:
        return max(map(cell_len, texts))
    return min(_LONG_WORD, max((cell_len(word) for text in texts for word in text.split()), default=0))


def print_note(text: str, out: Console, style: str = "") -> None:
    """One line; a terminal too narrow for it gets several, all but the first indented.

    Blanks at the beginning of the text set in all of them.
    """
    if cell_len(text) <= out.width:
        out.print(Segments([Segment(text, Style.parse(style)), Segment.line()]), crop=False)
        return
    indent = " " * (len(text) - len(text.lstrip(" ")))
    lines = Text(text.lstrip(" "), style).wrap(out, max(out.width - len(indent) - _HANGING, _HANGING))
    for number, line in enumerate(lines):
        line.rstrip()
        out.print(Text.assemble(indent + (" " * _HANGING if number else ""), line))


def print_command(text: str, out: Console) -> None:
    """One line however long it is, so that it can be copied as it stands."""
    out.print(Segments([Segment(text, Style.parse("bold")), Segment.line()]), crop=False)


def print_origin(origin: Origin, kernel: str | None, out: Console, *, is_capture: bool = False) -> None:
    """The last line below a table: host, kernel and time of its values, and the program's version.

    What is not known is left out; of a capture it also says how old it is.
    """
    taken_at = origin.taken_at
    at = None if taken_at is None else in_utc(taken_at)
    if is_capture:
        at = "captured" if taken_at is None else f"captured {at}, {_age(time.time() - taken_at)}"
    parts = (origin.host, None if kernel is None else f"Linux {kernel}", at, f"numaudit {__version__}")
    out.print()
    print_note(printable("; ".join(one for one in parts if one is not None)), out, "dim")


def _age(seconds: float) -> str:
    if seconds < -_UNITS[-1][0]:
        return f"which is later than this host's clock ({in_utc(time.time())})"
    for size, name in _UNITS:
        if seconds >= size:
            return f"{plural(int(seconds // size), name)} ago"
    return "just now"
