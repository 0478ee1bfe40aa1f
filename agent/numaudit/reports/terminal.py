"""What all tables for people share: the console, plain tables, sizes, and names from outside made printable."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

UNKNOWN = "?"
_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_WIDER_THAN_ANY_PATH = 1 << 16


def console() -> Console:
    """Standard output: colour and line width only for a terminal; a pipe gets whole lines."""
    width = None if sys.stdout.isatty() else _WIDER_THAN_ANY_PATH
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def new_table(*columns: str) -> Table:
    """A plain table; `>` in front of a name aligns its column right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in columns:
        right = name.startswith(">")
        table.add_column(Text(name.removeprefix(">"), "bold"), justify="right" if right else "left", no_wrap=True)
    return table


def print_table(table: RenderableType, out: Console) -> None:
    """Print without the blanks that fill the last column."""
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        out.file.write(line.rstrip() + "\n")


def size(value: int | None) -> str:
    """Bytes in binary units, one decimal below 100: 1.5G, 50.1M, 4K, 0; `?` when not known."""
    if value is None:
        return UNKNOWN
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            amount = round(value / unit, 1)
            return f"{amount:.1f}{letter}" if abs(amount) < 100 and value % unit else f"{amount:.0f}{letter}"
    return str(value)


def share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return UNKNOWN
    return "-" if whole == 0 else f"{round(100 * part / whole, 1) + 0:.1f}%"


def or_unknown(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def printable(text: str) -> str:
    """The text on one line: control characters, line ends and broken UTF-8 as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
