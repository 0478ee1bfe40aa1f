"""Sets of labels that containers have in common are remembered: each once, and not too many of them."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from numaudit.exporters.catalogue import values
from numaudit.exporters.metric import Columns
from numaudit.report.counters import AllocatedBytes, HintFaultsReport
from numaudit.report.values import NodeBytes

NODES, SETS = range(8), 6000
MOST_BYTES = 3 << 20
Reads = Callable[[Any], Columns]


def _resident(chance: random.Random) -> object:
    sizes = [[chance.choice((0, 1 << 20)) for _ in range(6)] for _ in NODES]
    return SimpleNamespace(resident=tuple(NodeBytes(node, *sizes[node]) for node in NODES))


def _hint_faults(chance: random.Random) -> object:
    pairs = [pair for pair in _pairs() if chance.random() < 0.5]
    faults = [
        HintFaultsReport(cpu, node, "local" if cpu == node else "remote", ("migrated",), 1) for cpu, node in pairs
    ]
    return SimpleNamespace(hint_faults=tuple(faults))


def _allocated(chance: random.Random) -> object:
    pairs = [pair for pair in _pairs() if chance.random() < 0.5]
    return SimpleNamespace(allocated=tuple(AllocatedBytes(cpu, node, 4096) for cpu, node in pairs))


def _pairs() -> list[tuple[int, int]]:
    return [(cpu, node) for cpu in NODES for node in NODES]


READS = [(_resident, values.resident), (_hint_faults, values.hint_faults), (_allocated, values.allocated)]


@pytest.mark.parametrize(("make", "read"), READS)
def test_sets_of_labels_that_come_and_go_take_little_memory(
    make: Callable[[random.Random], object], read: Reads
) -> None:
    """On eight nodes, over days: a new set whenever another type of memory comes to a node, or goes from it."""
    chance = random.Random(1)
    read(make(chance))
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(SETS):
            read(make(chance))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("make", "read"), READS)
def test_containers_with_the_same_labels_share_them(make: Callable[[random.Random], object], read: Reads) -> None:
    first, second = read(make(random.Random(2))), read(make(random.Random(2)))
    assert first.labels is second.labels
