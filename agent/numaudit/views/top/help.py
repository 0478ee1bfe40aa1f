"""The help of `numaudit top`, for one screen: keys, the columns that are shown, and what is not measured here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from numaudit.report.columns import columns_of, explained
from numaudit.report.values import Report
from numaudit.views.top import head
from numaudit.views.top.columns import TREND_HELP
from numaudit.views.top.keys import KEYS, Keys

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
    missing += [] if report is None else head.why_not_measured(report)
    lines.append(Text("not measured here" if missing else "everything that can be measured is measured here", "bold"))
    return lines + [Text(line, "dim") for line in missing]


def _explained() -> Iterator[tuple[str, str]]:
    yield "▓█░", "a node's memory: ▓ misplaced or remote, █ otherwise used, ░ free"
    yield "TREND", TREND_HELP
    yield from explained(columns_of("top"))


def _entry(title: str, said: str, wide: int, width: int) -> Iterator[Text]:
    for number, line in enumerate(head.cut(said, max(20, width - wide - 2), 2)):
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
