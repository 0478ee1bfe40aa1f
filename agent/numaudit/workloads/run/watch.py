"""Observe a command while it runs. When it has ended its memory is gone, so there is nothing to look at any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from numaudit.errors import NumauditError
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.intent import ContainerIntent, Intent, KubeletConfig, Promise
from numaudit.memorymanager.outcome import Placement
from numaudit.observer import Observer
from numaudit.probes.session import Readings, Session
from numaudit.report.build import build
from numaudit.report.selection import only
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
    """What a command was given, in the words of the report."""
    return Promise(tuple(placement.memory), placement.cpus or CpuSet())


@dataclass(slots=True)
class Watch:
    """The ticks of one cgroup. Probes count from the time they were loaded."""

    observer: Observer
    session: Session | None
    cgroup: ContainerId
    name: str
    promise: Promise | None = None
    """What it was given; None = nothing was promised to it."""
    problem: str | None = None
    """Why the last tick failed."""
    _earlier: Judgements | None = None
    _kept: tuple[Snapshot, Judgements] | None = None
    _most: int = field(default=0)

    def tick(self) -> None:
        """Measure now. What fails is kept as `problem`: the command goes on."""
        try:
            self._observe()
        except (NumauditError, OSError) as error:
            self.problem = str(error)

    def _observe(self) -> None:
        readings = None if self.session is None else Readings(self.session)
        snapshot = self._with_promise(self.observer.observe(readings=readings))
        judgements = judge(snapshot, earlier=self._earlier)
        self._earlier = judgements
        if all(one.id != self.cgroup for one in snapshot.containers):
            return
        resident = snapshot.residency.get(self.cgroup)
        held = 0 if resident is None else sum(resident.judged.values())
        if held >= _NEARLY * self._most:
            self._kept = snapshot, judgements
        self._most = max(held, self._most)

    def report(self) -> Report | None:
        """The command at the last tick in which it held nearly the most; None = it ended before there was one."""
        if self._kept is None:
            return None
        return replace(only(build(*self._kept), self.cgroup), kubelet=None)

    def _with_promise(self, snapshot: Snapshot) -> Snapshot:
        if self.promise is None:
            return snapshot
        own = ContainerIntent(self.name, self.name, cgroups=(self.cgroup,), promise=self.promise)
        config = KubeletConfig(memory_manager_policy="Static")
        return replace(snapshot, intent=Intent((own,), promised_by="numaudit run", config=config))
