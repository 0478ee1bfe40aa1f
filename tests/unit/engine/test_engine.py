"""One tick: what it is compared with, and by which limits it is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.verdicts import Thresholds
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

ONE = ContainerId(7)
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


@dataclass
class Running:
    """An observer of a container that runs for 10 s a tick."""

    seconds: float = 0.0
    asked: list[dict[str, object]] = field(default_factory=list)

    def observe(self, **arguments: object) -> Snapshot:
        self.asked.append(arguments)
        self.seconds += 10.0
        return Snapshot(
            taken_at=1000.0 + self.seconds,
            machine=MACHINE,
            cgroup_mode="v2",
            containers=(Container(ONE, "/one", "group"),),
            allowed={ONE: Allowed(NodeSet.of(0), CpuSet.parse("0-3"))},
            residency={ONE: Resident(anon={0: 70 << 20, 1: 30 << 20}, shmem={})},
            cpu_time={ONE: {0: self.seconds}},
        )


def _promised_node_0(snapshot: Snapshot) -> Snapshot:
    promise = Promise(memory=(Block.of("memory", 1 << 30, NodeSet.of(0)),))
    own = ContainerIntent("uid", "one", cgroups=(ONE,), promise=promise)
    return replace(snapshot, intent=Intent((own,)))


@pytest.mark.parametrize(("from_load", "compared_with"), [(False, [None, 10.0, 20.0]), (True, [None, None, None])])
def test_a_tick_counts_from_the_one_before_it_or_from_when_the_probes_were_loaded(
    monkeypatch: pytest.MonkeyPatch, from_load: bool, compared_with: list[float | None]
) -> None:
    seen = []

    def watched(
        snapshot: Snapshot, before: Snapshot | None, earlier: Judgements | None, limits: Thresholds, _: object
    ) -> Judgements:
        seen.append(None if before is None or before.cpu_time is None else before.cpu_time[ONE][0])
        return judge(snapshot, before, earlier, limits)

    monkeypatch.setattr("numaudit.engine.engine.judge", watched)
    engine = Engine(cast("Observer", Running()), counts_from_load=from_load)
    for _ in range(3):
        engine.tick()
    assert seen == compared_with


def test_a_tick_is_judged_by_the_limits_of_the_engine() -> None:
    verdicts = []
    for share in (0.01, 0.5):
        engine = Engine(cast("Observer", Running()), thresholds=Thresholds(spilled_share=share))
        engine.with_promises = _promised_node_0
        engine.tick()
        (verdict,) = engine.tick().judgements.verdicts.values()
        verdicts.append(verdict.name)
    assert verdicts[0] != "aligned"
    assert verdicts[1] == "aligned"


def test_numa_maps_is_asked_for_only_where_somebody_does() -> None:
    observer = Running()
    engine = Engine(cast("Observer", observer))
    engine.tick()
    engine.tick(2.0, frozenset({ONE}), with_processes=True)
    asked = [(one["mappings_budget"], one["mappings_of"], one["with_processes"]) for one in observer.asked]
    assert asked == [(None, None, False), (2.0, {ONE}, True)]
