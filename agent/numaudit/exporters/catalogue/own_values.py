"""Label values and numbers of the rows about the Memory Manager's memory map and about the probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.metric import Values


def manager_bytes(tick: ExportedTick) -> Values:
    """The two parts of what is allocatable."""
    manager = tick.report.memory_manager
    for table in () if manager is None else manager.tables:
        yield (str(table.numa_node), table.type, "reserved"), table.reserved
        yield (str(table.numa_node), table.type, "free"), table.free


def manager_whole(column: Literal["total", "system_reserved", "allocatable"]) -> Callable[[ExportedTick], Values]:
    def values(tick: ExportedTick) -> Values:
        manager = tick.report.memory_manager
        for table in () if manager is None else manager.tables:
            yield (str(table.numa_node), table.type), getattr(table, column)

    return values


def manager_assignments(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    return [] if manager is None else [((str(node.numa_node),), node.assignments) for node in manager.nodes]


def manager_groups(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for node in () if manager is None else manager.nodes:
        if node.group is not None:
            yield (str(node.numa_node), str(node.group)), 1


def admissible(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for one in () if manager is None else manager.admissible or ():
        yield (str(one.nodes),), one.bytes


def huge_pages_short(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for row in () if manager is None else manager.huge_page_rows():
        if row.short is not None:
            yield (str(row.nodes), row.type), row.short


def stranded(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for node in () if manager is None else manager.nodes:
        yield (str(node.numa_node),), node.stranded_bytes


def fragmentation(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    if manager is not None and manager.fragmentation_ratio is not None:
        yield (), manager.fragmentation_ratio


def unpromised(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for node in () if manager is None else manager.nodes:
        if node.unpromised_bytes is not None:
            yield (str(node.numa_node),), node.unpromised_bytes


def encroached(tick: ExportedTick) -> Values:
    """Into the two parts of what is allocatable."""
    manager = tick.report.memory_manager
    for node in () if manager is None else manager.nodes:
        if node.unpromised_in_free_bytes is not None and node.unpromised_in_reserved_bytes is not None:
            yield (str(node.numa_node), "free"), node.unpromised_in_free_bytes
            yield (str(node.numa_node), "reserved"), node.unpromised_in_reserved_bytes


def lost_events(tick: ExportedTick) -> Values:
    for probe in tick.report.probes:
        for reason, count in probe.lost.items():
            yield (probe.probe, reason), count


def runs(tick: ExportedTick) -> Values:
    return [((probe.probe,), probe.runs) for probe in tick.report.probes if probe.runs is not None]


def run_seconds(tick: ExportedTick) -> Values:
    return [((probe.probe,), probe.run_seconds) for probe in tick.report.probes if probe.run_seconds is not None]
