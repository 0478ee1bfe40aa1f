"""Containers that have ended, with the counters that they ended with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from numaudit.report.containers import allocation_reports, cpu_time_reports
from numaudit.report.counters import first_touch_reports, hint_fault_reports, migrated_reports, task_move_reports
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import ContainerId, Snapshot

Counts = TypeVar("Counts")
Reported = TypeVar("Reported")


def last_counts(before: Report, snapshot: Snapshot) -> tuple[ContainerReport, ...]:
    """What the report before says of each container that is not in the snapshot, with the counts that came since.

    A counter that was not read once more keeps what it had.
    """
    alive = {container.id for container in snapshot.containers}
    return tuple(
        _with_last_counts(one, ContainerId(one.id), snapshot)
        for one in before.containers
        if one.id is not None and one.id not in alive
    )


def _with_last_counts(one: ContainerReport, id_: ContainerId, snapshot: Snapshot) -> ContainerReport:

    def newer(
        counts: Mapping[ContainerId, Counts] | None,
        report: Callable[[Counts], Reported | None],
        old: Reported | None,
    ) -> Reported | None:
        return old if counts is None or id_ not in counts else report(counts[id_])

    return replace(
        one,
        cpu_seconds=newer(snapshot.cpu_seconds, cpu_time_reports, one.cpu_seconds),
        allocated=newer(snapshot.allocated_bytes, allocation_reports, one.allocated),
        hint_faults=newer(snapshot.hint_faults, lambda _: hint_fault_reports(snapshot, id_), one.hint_faults),
        first_touches=newer(snapshot.first_touch, lambda _: first_touch_reports(snapshot, id_), one.first_touches),
        migrated=newer(snapshot.migrated, lambda _: migrated_reports(snapshot, id_), one.migrated),
        task_moves=newer(snapshot.migrated, lambda _: task_move_reports(snapshot, id_), one.task_moves),
    )
