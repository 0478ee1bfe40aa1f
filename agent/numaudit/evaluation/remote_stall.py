"""Upper bound of the time that a container's CPUs waited for its counted remote accesses."""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.encoding.value import Value
from numaudit.evaluation.rates import cpu_seconds, increase
from numaudit.pmu.stall import LatencyOrigin, Penalty, stall
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Locality
from numaudit.topology.machine import Machine


class StalledOnNode(Value, frozen=True, gc=False):
    """The part of CPUs of one node, since the measurement began."""

    cpu_numa_node: int
    numa_node: int | None
    """The node whose memory was used, where there is only one other; null = the processor does not say which."""
    seconds_low: float
    """Lower end."""
    seconds_high: float
    """Upper end."""


class RemoteStall(Value, frozen=True):
    """Estimated from above: as if each remote access were waited for alone, while cores overlap and prefetch them.

    `low` takes the latency of the nearest other node, `high` that of the farthest.
    """

    latency: LatencyOrigin
    """Origin of the latencies: calibrated on this machine, published for its CPU family, or assumed (ratio)."""
    latency_source: str
    """Description of the source of the latencies."""
    seconds_low: float
    """Since the measurement began."""
    seconds_high: float
    """Upper end of the same."""
    by_cpu_node: tuple[StalledOnNode, ...]
    """The same by the CPU's node."""
    rate_low: float | None
    """CPU seconds per second since the previous tick; null = there is none."""
    rate_high: float | None
    """Upper end of the same."""
    share_low: float | None
    """Of its CPU time in the same time, 0 to 1; null = it did not run, or its CPU time was not measured."""
    share_high: float | None
    """Upper end of the same."""


def remote_stall(snapshot: Snapshot, container: ContainerId, before: Snapshot | None = None) -> RemoteStall | None:
    """None = its accesses were not counted, or the latency of a node it ran on is not known."""
    counted = None if snapshot.pmu is None else snapshot.pmu.get(container)
    penalty = snapshot.penalty
    if counted is None or penalty is None or not counted.by_node:
        return None
    remote = _remote(counted.by_node)
    since = stall(remote, penalty)
    if since is None:
        return None
    earlier = None if before is None or before.pmu is None else before.pmu.get(container)
    ran = cpu_seconds(snapshot, container, before)
    lately = stall(
        _remote(increase(counted.by_node, None if earlier is None else earlier.by_node)),
        penalty,
        None if ran is None else sum(ran.values()),
    )
    seconds = 0.0 if before is None else snapshot.taken_at - before.taken_at
    rate = None if lately is None or seconds <= 0 else lately.rate * (1 / seconds)
    share = None if lately is None else lately.share
    return RemoteStall(
        penalty.origin,
        penalty.source,
        since.rate.low,
        since.rate.high,
        tuple(_on_nodes(remote, penalty, snapshot.machine)),
        rate_low=None if rate is None else rate.low,
        rate_high=None if rate is None else rate.high,
        share_low=None if share is None else share.low,
        share_high=None if share is None else share.high,
    )


def _remote(by_node: Mapping[tuple[int, Locality], int]) -> dict[int, float]:
    return {node: count for (node, locality), count in by_node.items() if locality == "remote"}


def _on_nodes(remote: Mapping[int, float], penalty: Penalty, machine: Machine) -> list[StalledOnNode]:
    found = []
    for node, count in sorted(remote.items()):
        part = stall({node: count}, penalty)
        others = [other for other in machine.with_memory if other != node]
        if part is not None:
            found.append(StalledOnNode(node, others[0] if len(others) == 1 else None, part.rate.low, part.rate.high))
    return found
