"""Label values and numbers of the rows about the Memory Manager's memory map and about the probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def pool_bytes(tick: ExportedTick) -> Values:
    """The two parts of each pool of huge pages."""
    manager = tick.report.memory_manager
    for of_size in () if manager is None else manager.huge_pages:
        for pool in of_size.pools:
            if pool.free_bytes is not None:
                yield (str(pool.numa_node), of_size.type, "free"), pool.free_bytes
                yield (str(pool.numa_node), of_size.type, "used"), max(0, pool.total_bytes - pool.free_bytes)


def pool_reserved(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    return [((one.type,), one.reserved_bytes) for one in (() if manager is None else manager.huge_pages)]


def unclaimed(tick: ExportedTick) -> Values:
    manager = tick.report.memory_manager
    for of_size in () if manager is None else manager.huge_pages:
        for room in of_size.rooms:
            if room.unclaimed_bytes is not None:
                yield (str(room.numa_nodes), of_size.type), room.unclaimed_bytes


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


def manager_cpus(tick: ExportedTick) -> Values:
    for one in (tick.room.cpus if tick.room is not None else None) or ():
        yield (str(one.node), "free"), one.free
        yield (str(one.node), "exclusive"), one.exclusive
        yield (str(one.node), "system_reserved"), one.reserved


def _unrequested(tick: ExportedTick) -> Mapping[str, int]:
    return (tick.room.unrequested if tick.room is not None else None) or {}


def unrequested_cpus(tick: ExportedTick) -> float | None:
    milli = _unrequested(tick).get("cpu")
    return None if milli is None else milli / 1000


def unrequested_bytes(tick: ExportedTick) -> Values:
    for name, amount in _unrequested(tick).items():
        if name == "memory" or name.startswith("hugepages-"):
            yield (name,), amount


def unrequested_pods(tick: ExportedTick) -> int | None:
    return _unrequested(tick).get("pods")


def stale_entries(tick: ExportedTick) -> Values:
    if tick.report.memory_manager is not None:
        yield (), sum(one.name == "stale" for one in tick.report.findings)


def lost_events(tick: ExportedTick) -> Values:
    for probe in tick.report.probes:
        for reason, count in probe.lost.items():
            yield (probe.probe, reason), count


def runs(tick: ExportedTick) -> Values:
    return [((probe.probe,), probe.runs) for probe in tick.report.probes if probe.runs is not None]


def run_seconds(tick: ExportedTick) -> Values:
    return [((probe.probe,), probe.run_seconds) for probe in tick.report.probes if probe.run_seconds is not None]
