"""Upper bound of the time that remote accesses cost: their number x the time that one takes longer than a local one.

An upper bound, since a core overlaps accesses and prefetches ahead of them. The distances of SLIT are no latencies and
are never used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from numaudit.pmu.families import PublishedLatency

ASSUMED_LOCAL_NS = (60.0, 100.0)
"""Of local memory, where nothing is known of the CPU: the least and the most."""
ASSUMED_RATIO = (1.5, 2.6)
"""Of remote to local latency, likewise. Holds what families.yaml has for servers of two sockets."""

CpuAndMemoryNode = tuple[int, int]
"""The CPU's node and the memory's."""
LatencyOrigin = Literal["calibrated", "published", "ratio"]
"""Measured here; a constant of the CPU family; or assumed, with wide bounds."""
_NONE: Mapping[int, float] = {}


class Bounds(Struct, frozen=True):
    """The least and the most that something is."""

    low: float
    high: float

    def __mul__(self, factor: float) -> Bounds:
        return Bounds(self.low * factor, self.high * factor)

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def at_most(self, limit: float) -> Bounds:
        return Bounds(min(self.low, limit), min(self.high, limit))


class LatencyTable(Struct, frozen=True):
    """Time that a load takes, measured on this machine."""

    ns: Mapping[CpuAndMemoryNode, float]
    """By pair of nodes, local pairs too."""
    source: str
    """Time and method of the measurement."""


class Penalty(Struct, frozen=True):
    """By how many ns a remote access takes longer than a local one."""

    by_cpu_node: Mapping[int, Bounds]
    """To the nearest and to the farthest other node. With two nodes both are the same, unless they are assumed."""
    origin: LatencyOrigin
    source: str
    remote_cache: float | None = None
    """Likewise, for a line from a cache of another socket; None = not known."""


class Stall(Struct, frozen=True):
    """An estimate, and an upper bound at both ends: for the nearest node and for the farthest."""

    rate: Bounds
    """CPU seconds per second."""
    share: Bounds | None
    """Of the CPU time, 0 to 1; None = it did not run, or that is not known."""
    origin: LatencyOrigin


def penalty(
    nodes: Collection[int],
    table: LatencyTable | None = None,
    latency: PublishedLatency | None = None,
    hertz: float | None = None,
) -> Penalty:
    """The best that is known for CPUs of these nodes: measured here, else the family's constant, else assumed.

    `nodes`: those with CPUs. A table that lacks a local or all remote pairs of one of them is not used. `hertz`: the
    cores' clock, for constants that are in cycles; without it those are not used.
    """
    if table is not None:
        measured = {node: bounds for node in nodes if (bounds := _measured(table, node)) is not None}
        if len(measured) == len(nodes):
            return Penalty(measured, "calibrated", table.source)
    ns = None if latency is None else _ns_per_unit(latency, hertz)
    if latency is not None and ns is not None:
        extra = (latency.remote - latency.local) * ns
        cache = max(0.0, latency.remote_cache - latency.local) * ns
        return Penalty(dict.fromkeys(nodes, Bounds(extra, extra)), "published", latency.source, cache)
    low, high = (local * (ratio - 1) for local, ratio in zip(ASSUMED_LOCAL_NS, ASSUMED_RATIO, strict=True))
    return Penalty(dict.fromkeys(nodes, Bounds(low, high)), "ratio", "assumed")


def _measured(table: LatencyTable, cpu_node: int) -> Bounds | None:
    local = table.ns.get((cpu_node, cpu_node))
    remote = [ns for (cpu, memory), ns in table.ns.items() if cpu == cpu_node != memory]
    if local is None or not remote:
        return None
    return Bounds(max(0.0, min(remote) - local), max(0.0, max(remote) - local))


def _ns_per_unit(latency: PublishedLatency, hertz: float | None) -> float | None:
    if latency.unit == "ns":
        return 1.0
    return 1e9 / hertz if hertz else None


def stall(
    remote: Mapping[int, float],
    cost: Penalty,
    cpu_rate: float | None = None,
    remote_cache: Mapping[int, float] = _NONE,
) -> Stall | None:
    """Time that a container's remote accesses cost; None = for one of its nodes there is no latency.

    `remote`: remote accesses per second, by the node of the CPU that made them. `remote_cache`: likewise, answered by
    a cache of another socket; they cost nothing where their latency is not known. `cpu_rate`: the container's CPU
    seconds per second, which no stall exceeds.
    """
    if any(node not in cost.by_cpu_node for node, rate in remote.items() if rate):
        return None
    rate = Bounds(0.0, 0.0)
    for node, accesses in remote.items():
        if accesses:
            rate += cost.by_cpu_node[node] * (accesses * 1e-9)
    cached = sum(remote_cache.values()) * (cost.remote_cache or 0.0) * 1e-9
    rate += Bounds(cached, cached)
    if cpu_rate is None:
        return Stall(rate, None, cost.origin)
    rate = rate.at_most(cpu_rate)
    return Stall(rate, rate * (1 / cpu_rate) if cpu_rate else None, cost.origin)
