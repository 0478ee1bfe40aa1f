"""Label values and numbers of the rows about checkpoints, the next start, the memory map, and the probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from numaudit.checkpoints.start.findings import CONFIGURATION_REFUSED, MAKES_A_RESTART_UNSAFE, StateFinding
from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.metric import Values, word
from numaudit.report.kubelet import CheckpointReport

CONFIGURATION = "configuration"
"""In place of a file's name: what the kubelet refuses is its configuration, whatever is in its checkpoints."""
_OF_A_REFUSED_CONFIGURATION = (CONFIGURATION_REFUSED, "policy-changed", "reservation-changed")
"""Findings that compare a file with the configuration: of no use while that is refused."""


def restart_safe(tick: ExportedTick) -> Values:
    """Not after a reboot: what that does to a node's memory is unknown, so it would be 0 on every healthy node."""
    refused, files = _checkpoints(tick)
    if refused:
        yield (CONFIGURATION,), 0
    for file, findings in files:
        if refused:
            if any(one.stops in MAKES_A_RESTART_UNSAFE for one in findings):
                yield (file.file,), 0
        elif file.starts_now != "unknown":
            yield (file.file,), int(file.starts_now == "yes")


def valid(tick: ExportedTick) -> Values:
    refused, files = _checkpoints(tick)
    for file, findings in files:
        if file.valid is not None:
            is_right = refused and not any(one.severity == "error" for one in findings)
            yield (file.file,), int(file.valid or is_right)


def problems(tick: ExportedTick) -> Values:
    """Errors, and whatever else makes a restart unsafe."""
    refused, files = _checkpoints(tick)
    if refused:
        yield (CONFIGURATION, CONFIGURATION_REFUSED), 1
    for file, findings in files:
        names = dict.fromkeys(
            one.name for one in findings if one.severity == "error" or one.stops in MAKES_A_RESTART_UNSAFE
        )
        for name in names or filter(None, (file.problem,)):
            yield (file.file, name), 1


def setup_problems(tick: ExportedTick) -> Values:
    """Errors and warnings; what somebody accepted is none."""
    for one in tick.report.setup:
        if one.state in ("error", "warning"):
            yield (one.id, one.state), 1


def restart_starts(tick: ExportedTick) -> Values:
    """The answer of `numaudit forecast`, of which `restart_safe` is the part of each file."""
    for one in tick.report.restarts:
        yield (str(one.reboot).lower(), word(one.starts)), 1


def refused_pods(tick: ExportedTick) -> Values:
    """Absent for a restart that the kubelet would not survive: what becomes of its pods is then another question."""
    for one in tick.report.restarts:
        if one.refused_pods is not None:
            yield (str(one.reboot).lower(),), one.refused_pods


def _checkpoints(tick: ExportedTick) -> tuple[bool, list[tuple[CheckpointReport, list[StateFinding]]]]:
    """Return True when the kubelet refuses its configuration, and each checkpoint with the findings in the file itself.

    A refused configuration is the first finding of each of them.
    """
    files = tick.report.checkpoints
    refused = any(one.name == CONFIGURATION_REFUSED for file in files for one in file.findings)
    left_out = _OF_A_REFUSED_CONFIGURATION if refused else ()
    return refused, [(file, [one for one in file.findings if one.name not in left_out]) for file in files]


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
        yield (str(one.node_count),), one.bytes


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
