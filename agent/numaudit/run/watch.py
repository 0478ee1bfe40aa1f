"""Observe a command while it runs. When it has ended its memory is gone, so there is nothing to look at any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import structs
from msgspec.structs import replace

from numaudit.api.selection import only
from numaudit.engine.engine import Engine
from numaudit.errors import NumauditError
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.memorymanager.outcome import Placement
from numaudit.report.values import Report
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.topology.nodeset import CpuSet

_FIRST, _LONGEST = 0.25, 10.0
"""Seconds between ticks: short commands need an early one, long ones few."""
_NEARLY = 0.9
"""A tick is kept when the command holds this share of the most that it ever held, for the newest counts most."""


def due() -> Iterator[float]:
    """Seconds from tick to tick."""
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)


def promise_of(placement: Placement) -> Promise:
    """Promise of a command, in the words of the report."""
    return Promise(tuple(placement.memory), placement.cpus or CpuSet())


class CommandWatch:
    """The ticks of one cgroup. Probes count from the time they were loaded."""

    def __init__(
        self,
        engine: Engine,
        cgroup: ContainerId,
        name: str,
        promise: Promise | None = None,
    ) -> None:
        """`promise`: what the cgroup was given; None = nothing was promised to it."""
        engine.counts_from_load = True
        if promise is not None:
            engine.with_promises = partial(_with_promise, cgroup=cgroup, name=name, promise=promise)
        self.problem: str | None = None
        """Reason why the last tick failed."""
        self._engine, self._cgroup = engine, cgroup
        self._kept: Report | None = None
        self._most = 0

    def tick(self) -> None:
        """Measure now. What fails is kept as `problem`: the command goes on."""
        try:
            self._observe()
        except (NumauditError, OSError) as error:
            self.problem = str(error)

    def _observe(self) -> None:
        ticked = self._engine.tick()
        if all(one.id != self._cgroup for one in ticked.snapshot.containers):
            return
        resident = ticked.snapshot.residency.get(self._cgroup)
        held = 0 if resident is None else sum(resident.judged.values())
        if held >= _NEARLY * self._most:
            self._kept = ticked.report
        self._most = max(held, self._most)

    def report(self) -> Report | None:
        """The command at the last tick in which it held nearly the most; None = it ended before there was one."""
        return None if self._kept is None else structs.replace(only(self._kept, self._cgroup), kubelet=None)


def _with_promise(snapshot: Snapshot, cgroup: ContainerId, name: str, promise: Promise) -> Snapshot:
    """As if a kubelet had promised it."""
    own = ContainerIntent(name, name, cgroups=(cgroup,), promise=promise)
    config = KubeletConfig(memory_manager_policy="Static")
    return replace(snapshot, intent=Intent((own,), promised_by="numaudit run", config=config))
