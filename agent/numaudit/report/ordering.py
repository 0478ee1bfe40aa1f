"""The rows of a report in another order than by verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from numaudit.report.names import display_name
from numaudit.report.values import ContainerReport, Report


def _file_bytes(one: ContainerReport) -> int | None:
    """Of the nodes of which it is known."""
    known = [row.file for row in one.resident or () if row.file is not None]
    return sum(known) if known else None


BY_AMOUNT: Mapping[str, Callable[[ContainerReport], float | None]] = {
    "judged": lambda one: one.judged_bytes,
    "misplaced": lambda one: one.misplaced_bytes,
    "remote": lambda one: one.remote_bytes,
    "file": _file_bytes,
    "cpu": lambda one: None if one.cpu_seconds is None else sum(on.seconds for on in one.cpu_seconds),
}
"""Key -> what is compared; the largest comes first, and what is not known last."""
KEYS = ("verdict", *BY_AMOUNT, "name")
"""The first is the order that a report has."""


def in_order_of(report: Report, key: str) -> Report:
    """Rows that are equal keep the order by verdict."""
    return replace(report, containers=ordered(report.containers, key))


def ordered(containers: Sequence[ContainerReport], key: str, reverse: bool = False) -> tuple[ContainerReport, ...]:
    """Those of one report. `reverse`: the other way round, but what is not known still comes last."""
    if key == "verdict":
        return tuple(reversed(containers) if reverse else containers)
    if key == "name":
        return tuple(sorted(containers, key=display_name, reverse=reverse))
    amount = BY_AMOUNT[key]
    sign = 1 if reverse else -1
    return tuple(sorted(containers, key=lambda one: _unknown_last(amount(one), sign)))


def _unknown_last(amount: float | None, sign: int) -> tuple[bool, float]:
    return amount is None, sign * (amount or 0)
