"""A container's counters: the fields, and one list for containers that run and those that have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from numaudit.encoding.value import Value
from numaudit.snapshot import ContainerId, Resident, Snapshot
from numaudit.snapshot.counted import CountedAccesses, Locality, Migrated, MigratedPages, Sampled
from numaudit.topology.machine import Machine

Counts = TypeVar("Counts")
Pairs = Mapping[tuple[int, int | None], int]
"""(CPU's node, page's node) -> count. None = the page's node is not known."""


class NodeSeconds(Value, frozen=True, gc=False):
    """CPU time on one node."""

    numa_node: int
    seconds: float
    """CPU time on the node."""


class AllocatedBytes(Value, frozen=True, gc=False):
    """Bytes given by the page allocator: where the CPU was, and where the page is."""

    cpu_numa_node: int
    numa_node: int | None
    """null = the page's node is not known."""
    bytes: int
    """Bytes given since the measurement began."""


class HintFaultsReport(Value, frozen=True):
    """Hint faults of one kind."""

    cpu_numa_node: int
    numa_node: int
    """Node of the memory; after a migration, its new node."""
    locality: Literal["local", "remote"]
    """A page that was moved to the CPU's node was remote when it was used."""
    flags: tuple[str, ...]
    """The kernel's: migrated, no_group, shared, local, migrate_fail."""
    pages: int
    """Base pages; one that is sampled again counts again. A huge page of 2 MiB counts as 512."""


class CountedAccessesReport(Value, frozen=True, gc=False):
    """Memory accesses that the processor counted: where the CPU was, and whether the memory was its node's own."""

    cpu_numa_node: int
    locality: Locality
    """Locality of the memory: local to the node, remote, or unknown."""
    unit: Literal["lines", "loads"]
    """lines of the cache, most with prefetched ones; or load instructions."""
    count: int
    """Number of accesses since the measurement began."""


class MigratedReport(Value, frozen=True):
    """Pages that a container's tasks moved, for one reason. They need not be its own pages."""

    reason: str
    """The kernel's: numa_misplaced, syscall_or_cpuset, compaction, ..."""
    bytes: int
    failed_bytes: int


class MigratedBetweenReport(Value, frozen=True):
    """Pages that a container's tasks moved when they used them, by NUMA balancing (`numa_misplaced`)."""

    from_numa_node: int | None
    """null = the page's node is not known."""
    to_numa_node: int
    bytes: int
    failed_bytes: int


class TaskMoveReport(Value, frozen=True):
    """Tasks of a container that NUMA balancing moved, swapped with another, or could not move (`stuck`)."""

    event: str
    """move, swap or stuck."""
    from_numa_node: int
    to_numa_node: int | None
    count: int
    """Number of moves."""


class TierMoves(Value, frozen=True, gc=False):
    """Memory that the kernel moved between a node and slower memory tiers, page cache included."""

    numa_node: int
    demoted_bytes: int | None
    """Moved from this node to slower memory; null = not counted."""
    promoted_bytes: int | None
    """Moved from slower memory to this node; null = not counted."""


class Counters(Value, frozen=True, kw_only=True):
    """The counters of a container's report, each since the measurement began if nothing else is said."""

    cpu_seconds: tuple[NodeSeconds, ...] | None
    """Since the measurement began, or between a capture's two readings (`cpuTimeSource`); null = not measured."""
    allocated: tuple[AllocatedBytes, ...] | None
    """Since the measurement began; null = not measured."""
    hint_faults: tuple[HintFaultsReport, ...] | None
    """Since the measurement began; null = not measured, or the kernel takes no samples of it."""
    memory_accesses: tuple[CountedAccessesReport, ...] | None
    """Since the measurement began; null = not measured, or the counters never ran while it did."""
    migrated: tuple[MigratedReport, ...] | None
    """Pages that its tasks moved, since the measurement began; null = not measured."""
    migrated_between: tuple[MigratedBetweenReport, ...] | None
    """Those that NUMA balancing moved, by nodes, since the measurement began; null = not measured, or not told here."""
    task_moves: tuple[TaskMoveReport, ...] | None
    """Since the measurement began; null = not measured."""
    numa_balancing: Mapping[str, int] | None
    """The kernel's own counters (numa_* of memory.stat) since the cgroup was made; null = it shows none."""


class CountedField(Struct, Generic[Counts], frozen=True):
    """Derivation of one field of Counters from the counts of a snapshot."""

    field: str
    """The field's name."""
    of: Callable[[Snapshot], Mapping[ContainerId, Counts] | None]
    """The counts by container; None = not measured."""
    rows: Callable[[Counts, Machine], object]
    """The field's value; None = nothing can be said of this container."""
    if_absent: object = ()
    """The value for a container without counts: a probe that saw nothing of it has counted nothing."""


def _cpu_times(snapshot: Snapshot) -> Mapping[ContainerId, Mapping[int, float]] | None:
    """Those that were counted, else those of a capture's two readings."""
    sampled = snapshot.sampled_time
    if snapshot.cpu_time is not None or sampled is None:
        return snapshot.cpu_time
    return {id_: one.by_node for id_, one in sampled.items()}


def _cpu_seconds(seconds: Mapping[int, float], _: Machine) -> tuple[NodeSeconds, ...]:
    return tuple([NodeSeconds(node, on) for node, on in sorted(seconds.items())])


def _allocated(pairs: Pairs, _: Machine) -> tuple[AllocatedBytes, ...]:
    return tuple([AllocatedBytes(cpu, page, size) for (cpu, page), size in pairs.items()])


def _hint_faults(sampled: Sampled, _: Machine) -> tuple[HintFaultsReport, ...] | None:
    """None = the container is one that the kernel does not sample."""
    if not sampled.is_scanned:
        return None
    return tuple(
        [
            HintFaultsReport(
                fault.cpu_node, fault.memory_node, "remote" if fault.is_remote else "local", fault.names, count
            )
            for fault, count in sorted(sampled.faults.items())
        ]
    )


def _memory_accesses(counted: CountedAccesses, _: Machine) -> tuple[CountedAccessesReport, ...] | None:
    """None = nothing is known of it: the counters did not run, or it was not watched."""
    unit = counted.basis.unit
    rows = (CountedAccessesReport(*where, unit, count) for where, count in sorted(counted.by_node.items()))
    return tuple(rows) or None


def _migrated(migrated: Migrated, machine: Machine) -> tuple[MigratedReport, ...]:
    return tuple(MigratedReport(reason, *_bytes(pages, machine)) for reason, pages in sorted(migrated.pages.items()))


def _migrated_between(migrated: Migrated, machine: Machine) -> tuple[MigratedBetweenReport, ...] | None:
    """None = no program can watch the nodes here."""
    if migrated.between is None:
        return None
    return tuple(
        MigratedBetweenReport(from_node, to_node, *_bytes(pages, machine))
        for (from_node, to_node), pages in migrated.between.items()
    )


def _bytes(pages: MigratedPages, machine: Machine) -> tuple[int, int]:
    """Moved, and not moved."""
    return pages.succeeded * machine.page_size, pages.failed * machine.page_size


def _task_moves(migrated: Migrated, _: Machine) -> tuple[TaskMoveReport, ...]:
    return tuple(TaskMoveReport(*move, count) for move, count in migrated.tasks.items())


COUNTERS: tuple[CountedField[Any], ...] = (
    CountedField("cpu_seconds", _cpu_times, _cpu_seconds),
    CountedField("allocated", attrgetter("page_alloc"), _allocated),
    CountedField("hint_faults", attrgetter("hint_faults"), _hint_faults),
    CountedField("memory_accesses", attrgetter("pmu"), _memory_accesses),
    CountedField("migrated", attrgetter("migrations"), _migrated),
    CountedField("migrated_between", attrgetter("migrations"), _migrated_between),
    CountedField("task_moves", attrgetter("migrations"), _task_moves),
    CountedField(
        "numa_balancing",
        lambda one: None if one.numa_balancing is None else one.numa_balancing.by_container,
        lambda counters, _: counters,
        if_absent=None,
    ),
)
"""Every counter of a container. One more is a row here and a field of Counters."""


def tier_moves(resident: Resident | None) -> tuple[TierMoves, ...] | None:
    """A row for each node with moves; None = not counted."""
    if resident is None or (resident.demoted is None and resident.promoted is None):
        return None
    demoted, promoted = resident.demoted or {}, resident.promoted or {}
    return tuple(
        TierMoves(node, demoted.get(node), promoted.get(node))
        for node in sorted(demoted.keys() | promoted.keys())
        if demoted.get(node) or promoted.get(node)
    )


class CountersOfTick(Struct, frozen=True):
    """The counters that one snapshot has."""

    machine: Machine
    counts: tuple[tuple[CountedField[Any], Mapping[ContainerId, Any]], ...]
    """Each with its counts by container."""

    @classmethod
    def by(cls, snapshot: Snapshot) -> CountersOfTick:
        found = ((counter, counter.of(snapshot)) for counter in COUNTERS)
        return cls(snapshot.machine, tuple((counter, counts) for counter, counts in found if counts is not None))

    def of(self, container: ContainerId) -> dict[str, Any]:
        """Every counter's field -> its value for a container that runs; None = not measured."""
        values: dict[str, Any] = dict.fromkeys(_FIELDS)
        for counter, counts in self.counts:
            one = counts.get(container)
            values[counter.field] = counter.if_absent if one is None else counter.rows(one, self.machine)
        return values

    def last_of(self, container: ContainerId) -> dict[str, Any]:
        """Field -> value of what was still counted of a container that has ended."""
        return {
            counter.field: counter.rows(counts[container], self.machine)
            for counter, counts in self.counts
            if container in counts
        }


_FIELDS = tuple(counter.field for counter in COUNTERS)
