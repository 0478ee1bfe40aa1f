"""Accesses of a container: from where is its memory used? What one source says, which source's word counts, and at most
how long its CPUs waited for the remote ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import field

from numaudit.encoding.value import Value
from numaudit.evaluation.rates import cpu_seconds, increase
from numaudit.pmu.stall import LatencyOrigin, Penalty, stall
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Locality
from numaudit.topology.machine import Machine


class Counted(Value, frozen=True):
    """The processor's counts lately, and their basis. Older counts weigh less."""

    accesses: int
    """All that were counted."""
    remote_accesses: int
    """Those to another node's memory."""
    unit: Literal["lines", "loads"]
    """lines of the cache, or load instructions."""
    basis: str
    """The set of events, by its name in docs/measuring.md."""
    includes_prefetch: bool | None
    """null = on some CPUs of this kind."""
    multiplexed: bool
    """The counters were shared with others since the previous tick, so a part of the count is made up for."""


Source = Literal["pmu", "hint_faults", "expected"]
Of = Literal["accesses", "pages", "expectation"]
"""The base of a share: accesses that were counted; memory that was seen used, however often; or accesses if every byte
were used equally, which nobody measured."""


class RemoteUse(Value, frozen=True):
    """Memory that was used from another node."""

    cpu_numa_node: int
    numa_node: int
    bytes: int
    """Bytes of the node's memory that were used from the CPU's node."""


class UsedRemotely(Value, frozen=True):
    """Memory that was seen used from another node in one scan pass. Of what was not seen nothing follows."""

    at_least_bytes: int
    """In pages as the kernel maps them: a used byte of a huge page counts 2 MiB. A byte counts once, however often it
    was used."""
    by_pair: tuple[RemoteUse, ...]
    """The same by pair of nodes, the most first."""
    memory_bytes: int | None
    """Memory that its processes map: its own memory and that of others; null = not known."""
    passes_since: int
    """Later scan passes that were through: 0 = it is of the newest one. The kernel may leave memory out of a pass."""


class Access(Value, frozen=True):
    """One source's figures of one container's memory accesses lately."""

    source: Source
    of: Of
    """Base of its ratio."""
    remote_ratio: float | None
    """Share that was on another node, of what `of` names. null = this source cannot tell, as pages never can."""
    lower: float | None = None
    """Lower end of the share: of accesses, the counted share itself; of pages, the share of its memory that was seen
    used from other nodes. null = not known."""
    upper: float | None = None
    """Upper end of the share of accesses. null = not known, as of pages always."""
    reason: str | None = None
    """Reason why there is no ratio."""
    age: float | None = field(default=None, name="ageSeconds")
    """Seconds since this was seen: of pages, since the oldest of them was; else the mean age of the counts.
    null = there are none."""
    counted: Counted | None = None
    """null for a source that does not count."""
    used_remotely: UsedRemotely | None = None
    """null for a source that does not sample pages, or saw none used from another node."""


class Measured(Value, frozen=True):
    """The measurement that counts: what verdict, gate, metric, table, live screen and page say."""

    source: Source
    of: Literal["accesses", "pages"]
    """Base of its share."""
    lower: float
    """Of accesses, the share that was remote; of pages, the share of its memory that was used from other nodes, at
    least."""
    used_remotely: UsedRemotely | None = None
    """null where accesses were counted."""
    age: float | None = field(default=None, name="ageSeconds")
    """Of the samples or counts, as in the source's entry of `accesses`."""

    @property
    def is_exact(self) -> bool:
        """Were all accesses counted?"""
        return self.of == "accesses"


def measured(accesses: Iterable[Access]) -> Measured | None:
    """Measurement of the best source; sources come in their order. None = no source has measured anything.

    An expectation is no measurement, and pages that were not seen used from another node say nothing at all.
    """
    for access in accesses:
        if access.lower is None:
            continue
        if access.of == "accesses":
            return Measured(access.source, "accesses", access.lower, age=access.age)
        if access.used_remotely is not None:
            return Measured(access.source, "pages", access.lower, access.used_remotely, access.age)
    return None


def saw_nothing(accesses: Iterable[Access]) -> bool:
    """Did hint faults look, and see no page used from another node? What they had seen before is over then."""
    return any(access.of == "pages" and access.lower == 0.0 for access in accesses)


class StalledOnNode(Value, frozen=True, gc=False):
    """The part of CPUs of one node, since the measurement began."""

    cpu_numa_node: int
    numa_node: int | None
    """The node whose memory was used, where there is only one other; null = the processor does not say which."""
    seconds_low: float
    """Lower end."""
    seconds_high: float


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
