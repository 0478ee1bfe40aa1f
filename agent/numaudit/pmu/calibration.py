"""Measured latency and bandwidth from each node's CPUs to each node's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import field

from numaudit.encoding.value import Timestamp, Value
from numaudit.pmu.stall import LatencyTable
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet

_BEST = 3
"""Rounds whose agreement shows that the best one is no accident."""
_SAME = 0.05
"""Latencies that differ by less tell no node from another: a busy machine moves them as much."""


class Fingerprint(Value, frozen=True):
    """Properties that must be the same for a calibration to hold: machines that were bought together share one."""

    cpu: str
    """As the kernel identifies it."""
    distances: Mapping[int, Mapping[int, int]]
    """Node -> node -> SLIT."""

    @classmethod
    def of(cls, machine: Machine, cpus: Iterable[object]) -> Fingerprint:
        """`cpus`: what identifies its kinds of CPUs; none = the kernel does not say."""
        return cls(
            " and ".join(map(str, cpus)) or "of an unknown kind",
            {node.id: dict(node.distances) for node in machine.nodes},
        )

    def differs_from(self, other: Fingerprint) -> str | None:
        """In what, for a message; None = they are the same."""
        if self.cpu != other.cpu:
            return f"its CPU is {self.cpu}, here it is {other.cpu}"
        if set(self.distances) != set(other.distances):
            return f"its nodes are {_listed(self.distances)}, here they are {_listed(other.distances)}"
        return None if self.distances == other.distances else "its distances between nodes are not those here"


def _listed(nodes: Iterable[int]) -> str:
    return str(NodeSet.from_ids(nodes))


class Figure(Value, frozen=True):
    """The best of several rounds."""

    value: float
    """The best round."""
    rounds: int
    """Number of rounds."""
    spread: float
    """By how much the best three differ, as a share of the best."""
    is_stable: bool
    """True when the rounds agree; on a busy machine they may never do."""


class PlacementEvidence(Value, frozen=True):
    """Nodes of the pages and CPUs of a measurement, as the kernel reported them afterwards."""

    pages: Mapping[int, int]
    """Node -> pages, by move_pages(2)."""
    elsewhere: int
    """Pages that are on no node."""
    cpu_nodes: tuple[int, ...]
    """Nodes on which the CPUs found themselves, by getcpu(2)."""
    huge_page_bytes: int
    """With less than `bytes` of the calibration, latencies include the walk of page tables."""


class PairSpeed(Value, frozen=True):
    """From one node's CPUs to one node's memory. A figure is None where `reason` says why."""

    cpu_numa_node: int
    numa_node: int
    latency_ns: Figure | None = field(default=None, name="latencyNanoseconds")
    """Of a load that waits for memory, on an otherwise idle path."""
    bytes_per_second: Figure | None = None
    """Read by all CPUs of the node at once."""
    evidence: PlacementEvidence | None = None
    """Nodes of its pages and CPUs; null = it was not measured."""
    reason: str | None = None
    """Reason why a figure is missing; null = none is."""


class Calibration(Value, frozen=True):
    """All pairs of one machine."""

    machine: Fingerprint
    """Kind of machine that was measured."""
    bytes: int
    """Amount of memory that each measurement used; more than the caches hold."""
    pairs: tuple[PairSpeed, ...]
    """Each pair of a node's CPUs and a node's memory."""
    measured_at: Timestamp = field(name="takenAt")
    """Time of the measurement."""
    notes: tuple[str, ...] = ()
    """Notes on the use of the figures."""

    def table(self) -> LatencyTable:
        """Latencies by which a stall is estimated."""
        day = datetime.fromtimestamp(self.measured_at, UTC).date()
        return LatencyTable(self.latencies(), f"numaudit doctor --calibrate, {day}")

    def latencies(self) -> dict[tuple[int, int], float]:
        """Nanoseconds by the CPU's node and the memory's node, of the pairs that were measured."""
        return {
            (pair.cpu_numa_node, pair.numa_node): pair.latency_ns.value
            for pair in self.pairs
            if pair.latency_ns is not None
        }


def best_of(values: Sequence[float], within: float, highest: bool = False) -> Figure:
    """The lowest (or highest) of at least one round; stable when the best three agree `within` this share of it.

    Other work on the machine only ever makes a round worse, so the best one is the nearest to the truth.
    """
    best = sorted(values, reverse=highest)[:_BEST]
    spread = abs(best[-1] - best[0]) / best[0]
    return Figure(best[0], len(values), spread, len(best) == _BEST and spread <= within)


def misplaced(evidence: PlacementEvidence, cpu_node: int, memory_node: int) -> str | None:
    """Reason why a measurement does not stand for its pair; None = it does."""
    wrong = {node: count for node, count in evidence.pages.items() if node != memory_node}
    if wrong or evidence.elsewhere:
        total = sum(evidence.pages.values()) + evidence.elsewhere
        where = [f"{count} on node {node}" for node, count in wrong.items()]
        where += [f"{evidence.elsewhere} on none"] if evidence.elsewhere else []
        return f"of {total} pages that belong on node {memory_node}, {', '.join(where)}"
    astray = sorted({node for node in evidence.cpu_nodes if node != cpu_node})
    return f"it ran on CPUs of node {astray[0]}, not of node {cpu_node}" if astray else None


def notes_on(latencies: Mapping[tuple[int, int], float]) -> tuple[str, ...]:
    """Notes on the figures as a whole."""
    local = [ns for (cpu, memory), ns in latencies.items() if cpu == memory]
    remote = [ns for (cpu, memory), ns in latencies.items() if cpu != memory]
    if not remote:
        return ("no pair of two nodes was measured, so there is no figure for remote memory",)
    if not local or max(*local, *remote) <= min(*local, *remote) * (1 + _SAME):
        return (
            "all pairs are equal within 5 %: this machine's memory is not really at different distances (an emulator, "
            "a guest whose memory is elsewhere, or interleaving by the firmware), so a remote share costs nothing here",
        )
    if min(remote) < min(local) * (1 - _SAME):
        return ("a remote pair is faster than every local one: the nodes shown to this kernel are not the real ones",)
    return ()
