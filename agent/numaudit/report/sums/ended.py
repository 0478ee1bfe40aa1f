"""Containers that have ended, with the counters that they ended with."""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.report.counters import CountersOfTick
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import ContainerId, Snapshot


def last_counts(before: Report, snapshot: Snapshot) -> tuple[ContainerReport, ...]:
    """Last reports of containers that are not in the snapshot, with the counts that came since.

    A counter that was not read once more keeps what it had.
    """
    alive = {container.id for container in snapshot.containers}
    measured = CountersOfTick.by(snapshot)
    return tuple(
        replace(one, **measured.last_of(ContainerId(one.id)))
        for one in before.containers
        if one.id is not None and one.id not in alive
    )
