"""The rows of a report in another order than by verdict. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from numaudit.report.columns import COLUMNS, Column
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name

BY_AMOUNT = {column.sort: column.value for column in COLUMNS if column.sort is not None and column.value is not None}
"""Key -> what is compared; the largest comes first, and what is not known last."""
KEYS = ("verdict", *BY_AMOUNT, "name")
"""The first is the order that a report has."""
_BY_TITLE = {column.title: column for column in COLUMNS}


def key_of_column(column: Column[ContainerReport]) -> str:
    """The key that sorts by this column: a word of KEYS where there is one, else its title."""
    return {"CONTAINER": "name", "VERDICT": "verdict", "WHY": "verdict"}.get(column.title, column.sort or column.title)


def in_order_of(report: Report, key: str) -> Report:
    """Rows that are equal keep the order by verdict."""
    return replace(report, containers=ordered(report.containers, key))


def ordered(containers: Sequence[ContainerReport], key: str, reverse: bool = False) -> tuple[ContainerReport, ...]:
    """Those of one report, by a word of KEYS or the title of a column: amounts the largest first, texts by letter.

    `reverse`: the other way round, but what is not known still comes last.
    """
    if key == "verdict":
        return tuple(reversed(containers) if reverse else containers)
    if key == "name":
        return tuple(sorted(containers, key=display_name, reverse=reverse))
    column = _BY_TITLE.get(key)
    if column is not None and column.value is None:
        return tuple(sorted(containers, key=column.text, reverse=reverse))
    amount = BY_AMOUNT[key] if column is None or column.value is None else column.value
    sign = 1 if reverse else -1
    return tuple(sorted(containers, key=lambda one: _unknown_last(amount(one), sign)))


def _unknown_last(amount: float | None, sign: int) -> tuple[bool, float]:
    return amount is None, sign * (amount or 0)
