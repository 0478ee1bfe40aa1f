"""Differences between two ticks and figures made of them, and recent measurements: amounts that count for less the
older they are. No clock: time is a field of a snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct, field

from numaudit.snapshot import BytesByNode, ContainerId, Snapshot
from numaudit.topology.nodeset import NodeSet

Key = TypeVar("Key", bound=Hashable)
Number = TypeVar("Number", int, float)
_LOCAL, _UNREACHABLE = 10, 255
"""Distances of the SLIT: of a node to itself, and of nodes without a connection."""


def increase(now: Mapping[Key, Number], before: Mapping[Key, Number] | None) -> dict[Key, Number]:
    """Growth of each counter. A counter that fell started again from 0: then all of it is growth."""
    if before is None:
        return dict(now)
    grown: dict[Key, Number] = {}
    for key, value in now.items():
        earlier = before.get(key)
        grown[key] = value if earlier is None or value < earlier else value - earlier
    return grown


def cpu_seconds(snapshot: Snapshot, container: ContainerId, before: Snapshot | None) -> dict[int, float] | None:
    """By node since the previous tick, or since the probe was loaded; None = not measured in both ticks."""
    if snapshot.cpu_time is None or (before is not None and before.cpu_time is None):
        return None
    earlier = None if before is None or before.cpu_time is None else before.cpu_time.get(container)
    return increase(snapshot.cpu_time.get(container, {}), earlier)


def expected_remote_ratio(by_node: BytesByNode, cpu_seconds: Mapping[int, float]) -> float | None:
    """Share of accesses that would be remote if every byte were used equally from wherever the CPUs ran.

    Sum over nodes n of (share of CPU time on n) x (share of bytes on other nodes). None when nothing ran or nothing is
    there.
    """
    total_bytes, total_time = sum(by_node.values()), sum(cpu_seconds.values())
    if not total_bytes or not total_time:
        return None
    local = sum([seconds * by_node.get(node, 0) for node, seconds in cpu_seconds.items()])
    return 1 - local / (total_bytes * total_time)


def distance_ratio(
    by_node: BytesByNode, cpu_seconds: Mapping[int, float], distances: Mapping[int, Mapping[int, int]]
) -> float | None:
    """Mean distance from the CPUs to the memory / 10, if every byte were used equally from wherever the CPUs ran.

    Sum over CPU nodes c and memory nodes n of (share of CPU time on c) x (share of bytes on n) x distance(c, n) / 10:
    1.0 = all is local. `distances`: from node -> to node -> distance, which need not be the same both ways. None when
    nothing ran or nothing is there, and when a pair of nodes that counts has no distance: the firmware gives none, or
    255, which means that the one cannot reach the other (ACPI 6.5, section 5.2.17).
    """
    total_bytes, total_time = sum(by_node.values()), sum(cpu_seconds.values())
    if not total_bytes or not total_time:
        return None
    weighted = 0.0
    for cpu_node, seconds in cpu_seconds.items():
        if not seconds:
            continue
        row = distances.get(cpu_node, {})
        for node, size in by_node.items():
            if not size:
                continue
            distance = row.get(node, _UNREACHABLE)
            if distance >= _UNREACHABLE:
                return None
            weighted += seconds * size * distance
    return weighted / (total_bytes * total_time * _LOCAL)


def share_outside(by_node: Mapping[int, Number], nodes: NodeSet) -> float | None:
    """The share of a sum that is on none of the nodes; None when there is nothing to share."""
    total = sum(by_node.values())
    if not total:
        return None
    inside, outside = nodes.mask, 0.0
    for node, value in by_node.items():
        if not inside >> node & 1:
            outside += value
    return outside / total


_HALVINGS = 4
"""Number of times that an amount has been halved when it is as old as the window is long."""
_NEGLIGIBLE = 0.01
"""Less than this of samples or seconds is forgotten."""
_CLEARLY = 0.5
"""A rate that was past its limit is past it until it is below this share of the limit."""


class Window(Struct, Generic[Key], frozen=True):
    """Amounts by key, such as seconds by node; a kind that was not seen is not in it."""

    amounts: Mapping[Key, float] = field(default_factory=dict)
    age: float = 0.0
    """Mean age of the amounts in seconds at the tick that the window was made in."""
    taken_at: float = 0.0
    """Seconds since the epoch of that tick."""

    @property
    def total(self) -> float:
        return sum(self.amounts.values())

    def after(self, added: Mapping[Key, float], taken_at: float, length: float) -> Window[Key]:
        """The window of a tick at `taken_at`, in which `added` was measured. `length` is the window's, in seconds.

        A clock that was set back makes nothing older or newer.
        """
        if not self.amounts:
            return Window(added, 0.0, taken_at) if added else self
        passed = max(0.0, taken_at - self.taken_at)
        weight = 0.5 ** (_HALVINGS * passed / length)
        amounts = {key: amount * weight for key, amount in self.amounts.items()}
        kept = total = sum(amounts.values())
        if kept < _NEGLIGIBLE:
            return Window(added, 0.0, taken_at)
        if added:
            for key, amount in added.items():
                amounts[key] = amounts.get(key, 0) + amount
            total = sum(amounts.values())
        return Window(amounts, (self.age + passed) * kept / total if total else 0.0, taken_at)


def is_past(limit: float, at_least: float, at_most: float, was_past: bool) -> bool:
    """Is a rate past its limit? Once it was, it is until all of its interval is clearly on the other side."""
    return at_least > limit or (was_past and at_most >= ends_at(limit))


def ends_at(limit: float) -> float:
    """A rate that was past its limit is so no longer when it is below this one."""
    return _CLEARLY * limit
