"""The part of the report about accesses and migrations. Every value here goes out as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from numaudit.snapshot import ContainerId, Snapshot


class HintFaultsReport(Struct, frozen=True):
    """Hint faults of one kind."""

    cpu_numa_node: int
    numa_node: int
    """Where the memory is; after a migration, where it came to."""
    locality: Literal["local", "remote"]
    """A page that was moved to the CPU's node was remote when it was used."""
    flags: tuple[str, ...]
    """The kernel's: migrated, no_group, shared, local, migrate_fail."""
    faults: int


class FirstTouchReport(Struct, frozen=True):
    """Sampled first uses of a page: where the CPU was, and where the page came into being."""

    cpu_numa_node: int
    numa_node: int | None
    """null = the page's node could not be told."""
    samples: int


class MigratedReport(Struct, frozen=True):
    """Pages that a container's tasks moved, for one reason. They need not be its own pages."""

    reason: str
    """The kernel's: numa_misplaced, syscall_or_cpuset, compaction, ..."""
    bytes: int
    failed_bytes: int


class MigratedBetweenReport(Struct, frozen=True):
    """Pages that a container's tasks moved when they used them, by NUMA balancing (`numa_misplaced`)."""

    from_numa_node: int | None
    """null = the page's node could not be told."""
    to_numa_node: int
    bytes: int
    failed_bytes: int
    """Pages that could not be moved."""


class TaskMoveReport(Struct, frozen=True):
    """Tasks of a container that NUMA balancing moved, swapped with another, or could not move (`stuck`)."""

    event: str
    from_numa_node: int
    to_numa_node: int | None
    count: int


@dataclass(frozen=True, slots=True)
class ProbeOverhead:
    """What one probe has done since the agent's first look."""

    probe: str
    events: int
    seconds: float
    """Estimated CPU time: events x nanoseconds for each."""
    ns_per_event: float
    """As it is now."""
    basis: Literal["measured", "assumed"]
    """Of the nanoseconds: measured on this host, or assumed where it does not let us measure."""


@dataclass(frozen=True, slots=True)
class OverheadReport:
    """What the probes cost, and what rests to keep them within their budget."""

    cpu_share: float | None
    """Of the CPU time of all CPUs since the look before; null at the first look."""
    limit: float
    steps: tuple[str, ...]
    """What was given up, in this order."""
    coverage: float | None
    """Share of the containers that are watched at a time; null = all."""
    probes: tuple[ProbeOverhead, ...]


def overhead_report(snapshot: Snapshot) -> OverheadReport | None:
    """None = nobody keeps account of it, as in a one-off report."""
    found = snapshot.overhead
    if found is None:
        return None
    probes = tuple(
        ProbeOverhead(one.probe, one.events, one.seconds, one.cost.ns, one.cost.basis) for one in found.probes
    )
    return OverheadReport(found.share, found.limit, found.steps, found.coverage, probes)


def hint_fault_reports(snapshot: Snapshot, container: ContainerId) -> tuple[HintFaultsReport, ...] | None:
    """Since the measurement began; None = not measured, or this container is one that the kernel does not sample."""
    if snapshot.hint_faults is None:
        return None
    sampled = snapshot.hint_faults.get(container)
    if sampled is None:
        return ()
    if not sampled.is_scanned:
        return None
    return tuple(
        HintFaultsReport(
            fault.cpu_node, fault.memory_node, "remote" if fault.is_remote else "local", fault.names, count
        )
        for fault, count in sorted(sampled.faults.items())
    )


def first_touch_reports(snapshot: Snapshot, container: ContainerId) -> tuple[FirstTouchReport, ...] | None:
    """Since the measurement began; None = not measured."""
    if snapshot.first_touch is None:
        return None
    pairs = snapshot.first_touch.get(container, {})
    return tuple(FirstTouchReport(cpu_node, page_node, count) for (cpu_node, page_node), count in pairs.items())


def migrated_reports(snapshot: Snapshot, container: ContainerId) -> tuple[MigratedReport, ...] | None:
    """Since the measurement began; None = not measured."""
    if snapshot.migrated is None:
        return None
    migrated = snapshot.migrated.get(container)
    page = snapshot.machine.page_size
    return tuple(
        MigratedReport(reason, pages.succeeded * page, pages.failed * page)
        for reason, pages in sorted(() if migrated is None else migrated.pages.items())
    )


def migrated_between_reports(snapshot: Snapshot, container: ContainerId) -> tuple[MigratedBetweenReport, ...] | None:
    """Since the measurement began; None = not measured, or no program can watch the nodes here."""
    if snapshot.migrated is None:
        return None
    migrated = snapshot.migrated.get(container)
    if migrated is None:
        return ()
    if migrated.between is None:
        return None
    page = snapshot.machine.page_size
    return tuple(
        MigratedBetweenReport(from_node, to_node, pages.succeeded * page, pages.failed * page)
        for (from_node, to_node), pages in migrated.between.items()
    )


def task_move_reports(snapshot: Snapshot, container: ContainerId) -> tuple[TaskMoveReport, ...] | None:
    """Since the measurement began; None = not measured."""
    if snapshot.migrated is None:
        return None
    migrated = snapshot.migrated.get(container)
    return tuple(
        TaskMoveReport(move.event, move.from_node, move.to_node, count)
        for move, count in ({} if migrated is None else migrated.tasks).items()
    )


def balancing_of(snapshot: Snapshot, container: ContainerId) -> Mapping[str, int] | None:
    """The kernel's own counters of one cgroup; None = it shows none."""
    return None if snapshot.balancing is None else snapshot.balancing.by_container.get(container)
