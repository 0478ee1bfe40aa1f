"""Counters that only grow, by cgroup: what was added between two reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def added(
    later: Mapping[int, Mapping[Key, int]], earlier: Mapping[int, Mapping[Key, int]]
) -> dict[int, dict[Key, int]]:
    """Cgroup id -> key -> what `later` has more than `earlier`; what did not grow is left out.

    A counter that is smaller than before was deleted and started anew, so all of it is new.
    """
    result: dict[int, dict[Key, int]] = {}
    for cgroup, row in later.items():
        grown = added_to_row(row, earlier.get(cgroup, {}))
        if grown:
            result[cgroup] = grown
    return result


def added_to_row(later: Mapping[Key, int], earlier: Mapping[Key, int]) -> dict[Key, int]:
    """The same for one row of counters."""
    grown = {}
    for key, value in later.items():
        before = earlier.get(key, 0)
        if value != before:
            grown[key] = value - before if value > before else value
    return grown
