"""Ranks in an agent: round after round over the processes of all containers, a few in each tick.

The budget of a tick is a number of processes and a CPU time; the next tick goes on where one has ended. Everything but
memory and threads is read of every process, and those of containers that declare a placement alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.declared import placeable
from numaudit.engine.collectors.containers.rank_pass import RankPass, WalkTime, WatchBudget
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.processes import RankRound, WatchedProcesses


class WatchLimits(NamedTuple):
    """Budget of one tick, and the pace of the rounds."""

    processes: int
    """Processes and cgroups."""
    cpu_seconds: float
    interval: float
    """Seconds from the beginning of a round to that of the next, at least."""


@dataclass(slots=True)
class RankWatchCollector(Collector):
    name = "ranks"
    limits: WatchLimits | None = None
    """None = ranks are not watched."""
    cpu_clock: Callable[[], float] = time.thread_time
    clock: Callable[[], float] = time.monotonic
    _queue: deque[ContainerId] = field(default_factory=deque)
    """Containers that this round has still to look at."""
    _pass: RankPass | None = None
    """The container that is being read."""
    _begun: float | None = None
    """Beginning of the round; None = there was none."""
    _goes_on: bool = False
    _seconds: float | None = None
    _found: dict[ContainerId, WatchedProcesses] = field(default_factory=dict)
    _unread: dict[ContainerId, tuple[int, str]] = field(default_factory=dict)
    """Number of processes that could not be read as they must be, and the reason for the first."""
    _walk_time: WalkTime = field(default_factory=WalkTime)

    def is_due(self, tick: TickInputs) -> bool:
        if self.limits is None:
            self._forget()
        return self.limits is not None and tick.mappings_budget is None

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """The newest readings of all containers that declare a placement, of which some are of this tick."""
        assert self.limits is not None
        limits = self.limits
        budget = WatchBudget(
            self.cpu_clock, self.cpu_clock() + limits.cpu_seconds, limits.cpu_seconds, limits.processes
        )
        containers = {one.id: one for one in snapshot.containers}
        while budget.is_left and self._next(tick, snapshot, containers, budget):
            assert self._pass is not None
            if self._pass.goes_on(tick, budget):
                break
            self._keep(self._pass)
            self._pass = None
        here = tick.census.groups.keys()
        self._found = {id_: one for id_, one in self._found.items() if id_ in here}
        self._unread = {id_: one for id_, one in self._unread.items() if id_ in here}
        for missing, reason in self._unread.values():
            skipped.lose(missing, reason)
        return replace(snapshot, watched=self._found, rank_round=RankRound(self._seconds, len(self._found)))

    def _next(
        self, tick: TickInputs, snapshot: Snapshot, containers: Mapping[ContainerId, Container], budget: WatchBudget
    ) -> bool:
        """Is there a container to read now? A round begins with all containers, and ends when each was looked at."""
        if self._pass is not None:
            return True
        assert self.limits is not None
        now = self.clock()
        if not self._queue and self._goes_on and self._begun is not None:
            self._seconds, self._goes_on = now - self._begun, False
        if not self._queue:
            if self._begun is not None and now - self._begun < self.limits.interval:
                return False
            self._queue, self._begun, self._goes_on = deque(tick.census.groups), now, True
        while self._queue and budget.is_left:
            id_ = self._queue.popleft()
            if id_ in containers:
                here = placeable(snapshot, snapshot.allowed.get(id_))
                self._pass = RankPass.of(containers[id_], here, tick, budget, self._walk_time)
                return True
        return False

    def _keep(self, done: RankPass) -> None:
        found = done.watched()
        if found is None:
            self._found.pop(done.container.id, None)
        else:
            self._found[done.container.id] = found
        missing, reason = done.unread()
        if reason is not None:
            self._unread[done.container.id] = missing, reason
        else:
            self._unread.pop(done.container.id, None)

    def _forget(self) -> None:
        self._queue.clear()
        self._found, self._unread = {}, {}
        self._pass = self._begun = self._seconds = None
        self._goes_on = False
