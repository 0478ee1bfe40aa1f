"""Memory by two nodes: given, sampled and moved, for one container."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from numaudit.report.values import ContainerReport

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
