"""All ranks of a host, or of some containers, at once: what the agent's watch spreads over many ticks.

A container is read as `RankPass` reads it. Processes that nothing declares, but that a memory policy binds, count too.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.containers.declared import placeable
from numaudit.engine.collectors.containers.rank_pass import RankPass, WalkTime, WatchBudget
from numaudit.engine.observer import Observer
from numaudit.kernel.cgroup import Cgroup
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.processes import WatchedProcesses

ROOT = ContainerId(0)
"""Stands for the root cgroup, which is no container's."""
_DIGITS = 10
"""Of an id: the kernel's largest is 4194304."""
_ROOT = Container(ROOT, "/", "group", whole=False)


class FoundRanks(Struct, frozen=True):
    """The processes of the containers with ranks, in a snapshot, and what was not read of all of them."""

    snapshot: Snapshot
    """`watched` has those processes."""
    processes: int
    """Processes that were looked at, or should have been."""
    not_read: int
    """Those of which something could not be read, so that ranks may be missing."""
    reason: str | None
    """Reason for the first of these; None = all were read."""


def find_ranks(
    observer: Observer, snapshot: Snapshot, of: Collection[ContainerId] | None = None, seconds: float = 30.0
) -> FoundRanks:
    """Of these containers; None = of all, and of the root cgroup. Wall-clock time is limited to `seconds`."""
    tick = _inputs(observer)
    budget = WatchBudget(monotonic, monotonic() + seconds, float("inf"), sys.maxsize)
    walk_time = WalkTime()
    watched: dict[ContainerId, WatchedProcesses] = {}
    processes = not_read = 0
    reason: str | None = None
    for one in (*snapshot.containers, _ROOT):
        if one.id not in tick.census.groups or (of is not None and one.id not in of):
            continue
        here = placeable(snapshot, snapshot.allowed.get(one.id))
        reading = RankPass.of(one, here, tick, budget, walk_time, with_policies=True)
        is_open = reading.goes_on(tick, budget)
        missing, why = reading.unread()
        if is_open:
            missing, why = reading.processes, f"the time of {seconds:g} s ran out"
        elif (found := reading.watched()) is not None:
            watched[one.id] = found
        processes += reading.processes
        not_read += missing
        reason = reason or why
    return FoundRanks(replace(snapshot, watched=watched), processes, not_read, reason)


def _inputs(observer: Observer) -> TickInputs:
    """As of a tick, with the root cgroup among the containers."""
    census = observer.inventory.census
    with_root = replace(census, groups={**census.groups, ROOT: (Cgroup(ROOT, ""),)})
    return TickInputs(observer.host, observer.machine.read(), observer.reader, with_root, observer.owners)


def process_id(name: str | None) -> int | None:
    """None = it is none."""
    return int(name) if name is not None and name.isascii() and name.isdigit() and len(name) <= _DIGITS else None


def container_of(observer: Observer, pid: int) -> ContainerId | None:
    """The container in one of whose cgroups a process is; None = there is no such process."""
    tick = _inputs(observer)
    for id_, groups in tick.census.groups.items():
        for group in groups:
            try:
                if pid in tick.reader.all_processes(group.path):
                    return id_
            except OSError:  # it has just ended, or the capture has no such file
                continue
    return None
