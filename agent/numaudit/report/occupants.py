"""Holders of a node's memory: the containers with most of it, and the sum over all; and one container's memory by two
nodes: given, sampled and moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from msgspec import Struct

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.kinds import is_small_remainder
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name

NodePair = tuple[int | None, int | None]
"""Two nodes; None = not known."""


class Pairs(NamedTuple):
    """Amounts by pair of nodes, and one that is of no pair."""

    amounts: Mapping[NodePair, int]
    beside: int


def given(one: ContainerReport) -> dict[NodePair, int]:
    """Bytes by the node of the CPU that asked and the node of the page."""
    return {(pair.cpu_numa_node, pair.numa_node): pair.bytes for pair in one.allocated or ()}


def sampled(one: ContainerReport) -> Pairs:
    """Pages by the node of the CPU that used them and their own; beside: those that moved to the CPU's node by it."""
    pages: Counter[NodePair] = Counter()
    for kind in one.hint_faults or ():
        pages[kind.cpu_numa_node, kind.numa_node] += kind.pages
    return Pairs(pages, sum(kind.pages for kind in one.hint_faults or () if "migrated" in kind.flags))


def moved(one: ContainerReport) -> Pairs:
    """Bytes that NUMA balancing moved, by the node they were on and the one they went to; beside: those that stayed."""
    pairs = one.migrated_between or ()
    bytes_: dict[NodePair, int] = {(pair.from_numa_node, pair.to_numa_node): pair.bytes for pair in pairs}
    return Pairs(bytes_, sum(pair.failed_bytes for pair in pairs))


_NAMED = 6


class Occupant(Struct, frozen=True):
    """A holder of a node's memory."""

    name: str
    bytes: int
    mark: str | None = None
    """A word for what is wrong with it."""
    outside: bool | None = None
    """Is the node outside the promised ones? None = nothing was promised."""


class Occupants(Struct, frozen=True):
    """All of one node."""

    largest: tuple[Occupant, ...]
    others: int
    """Number of further holders."""
    bytes_of_others: int
    bytes: int
    """Of all together."""
    promised: int = 0
    """Of those that were promised this node."""
    outside: int = 0
    """Of those that were promised others."""

    @classmethod
    def of(cls, all_of: Iterable[Occupant]) -> Self:
        """Those outside their promise first, of these and of the others the largest."""
        largest = sorted(all_of, key=lambda one: (not one.outside, -one.bytes, one.name))
        rest = largest[_NAMED:]
        return cls(
            tuple(largest[:_NAMED]),
            len(rest),
            sum(one.bytes for one in rest),
            sum(one.bytes for one in largest),
            sum(one.bytes for one in largest if one.outside is False),
            sum(one.bytes for one in largest if one.outside),
        )

    @property
    def unpromised(self) -> int:
        """Of those that nothing was promised to."""
        return self.bytes - self.promised - self.outside


def occupants(report: Report, node: int) -> Occupants:
    """By their judged bytes on the node."""
    return Occupants.of(
        Occupant(display_name(one), row.judged, _mark(one.verdict.name if one.verdict else ""), _outside(one, node))
        for one in report.containers
        for row in one.resident or ()
        if row.numa_node == node and row.judged and not is_small_remainder(one)
    )


def _outside(one: ContainerReport, node: int) -> bool | None:
    promised = None if one.intended is None else one.intended.memory_nodes
    return node not in promised if promised else None


def _mark(verdict: str) -> str | None:
    return verdict if verdict in MISALIGNED else None
