"""Holders of a node's memory: the containers with most of it, and the sum over all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.names import display_name
from numaudit.report.sums.remainders import is_small_remainder
from numaudit.report.values import Report

_NAMED = 6


@dataclass(frozen=True, slots=True)
class Occupant:
    """A holder of a node's memory."""

    name: str
    bytes: int
    mark: str | None = None
    """A word for what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """All of one node."""

    largest: tuple[Occupant, ...]
    others: int
    """Number of further holders."""
    bytes_of_others: int
    bytes: int
    """Of all together."""

    @classmethod
    def of(cls, all_of: Iterable[Occupant]) -> Self:
        largest = sorted(all_of, key=lambda one: (-one.bytes, one.name))
        rest = largest[_NAMED:]
        whole = sum(one.bytes for one in largest)
        return cls(tuple(largest[:_NAMED]), len(rest), sum(one.bytes for one in rest), whole)


def occupants(report: Report, node: int) -> Occupants:
    """By their judged bytes on the node."""
    return Occupants.of(
        Occupant(display_name(one), row.judged, _mark(one.verdict.name if one.verdict else ""))
        for one in report.containers
        for row in one.resident or ()
        if row.numa_node == node and row.judged and not is_small_remainder(one)
    )


def _mark(verdict: str) -> str | None:
    return verdict if verdict in MISALIGNED else None
