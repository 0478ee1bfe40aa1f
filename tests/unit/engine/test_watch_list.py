"""The watch list's driver: whose hint faults are counted while not all can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from numaudit.engine.overhead import limiter as overhead
from numaudit.engine.overhead.budget import Budget
from numaudit.engine.overhead.limiter import Limiter
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.verdicts import Verdict, VerdictName
from numaudit.probes.hint_faults import HintFaultCounts
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.counted import HintFault
from numaudit.topology.machine import Machine

OVER_BUDGET = Budget(taken=2)
"""page_alloc is paused and the watch list is in use."""
FAULT = HintFault(0, 1, 0)


@dataclass(slots=True)
class Probe:
    """A probe of hint faults that remembers what was asked of it."""

    watched: frozenset[int] | None = None
    counted: set[int] = field(default_factory=lambda: {22, 99})
    is_paused: bool = False

    def watch(self, cgroups: frozenset[int] | None) -> None:
        self.watched = cgroups

    def run_time(self) -> None:
        """It has no program."""

    def cgroups(self) -> set[int]:
        return set(self.counted)

    def forget(self, cgroups: Collection[int]) -> int:
        self.counted -= set(cgroups)
        return 0


@pytest.fixture
def probe() -> Probe:
    return Probe()


def limiter_of(
    probe: Probe | ProbeRefusal, groups: Mapping[int, Sequence[int]], budget: Budget | None = None
) -> Limiter:
    """`groups` are the cgroups of each container. Its own id is not among them, to keep the two apart."""
    session = Session({"hint_faults": cast("Any", probe)})
    census = {ContainerId(id_): tuple(SimpleNamespace(id=one) for one in ids) for id_, ids in groups.items()}
    inventory = cast("Any", SimpleNamespace(take=lambda: SimpleNamespace(groups=census)))
    return Limiter(session, 0.01, inventory, budget=budget or Budget())


def snapshot_of(ids: Collection[int], promised: Collection[int] = ()) -> Snapshot:
    containers = tuple(Container(ContainerId(id_), f"/{id_}", "container") for id_ in ids)
    promises = {id_: SimpleNamespace(promise=SimpleNamespace(memory=("some",))) for id_ in promised}
    nothing = {id_: SimpleNamespace(promise=SimpleNamespace(memory=None)) for id_ in set(ids) - set(promised)}
    intent = cast("Any", SimpleNamespace(by_cgroup=promises | nothing))
    return Snapshot(0.0, Machine(()), "v2", containers, intent=intent)


def judged(**verdicts: VerdictName) -> Judgements:
    return Judgements(
        {ContainerId(int(id_[1:])): Verdict(name, "as made up", None, (), None) for id_, name in verdicts.items()}
    )


def tick(limiter: Limiter, snapshot: Snapshot, judgements: Judgements | None = None, dropped: int = 0) -> float | None:
    """The coverage after one tick, up to which `dropped` faults had found the map full."""
    reading = HintFaultCounts({1: {FAULT: 1}}, lost={"map-full": dropped})
    readings = ProbeReadings(limiter.session, {"hint_faults": reading})
    return limiter.after_tick(snapshot, judgements or Judgements(), readings).coverage


def test_within_the_budget_all_are_watched(probe: Probe) -> None:
    probe.watched = frozenset({5})
    assert tick(limiter_of(probe, {1: [11], 2: [22]}), snapshot_of([1, 2])) is None
    assert probe.watched is None
    assert probe.counted == {22, 99}


def test_over_the_budget_all_cgroups_of_the_chosen_containers_are_watched(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "WATCHED_AT_MOST", 2)
    limiter = limiter_of(probe, {1: [11], 2: [21, 22], 3: [31], 4: [41, 42, 43]}, OVER_BUDGET)
    snapshot = snapshot_of([1, 2, 3, 4], promised=[2])
    assert tick(limiter, snapshot, judged(c1="aligned", c4="drifted")) == pytest.approx(2 / 4)
    assert probe.watched == frozenset({21, 22, 41, 42, 43})
    assert probe.counted == {22, 99}


def test_the_others_take_turns_from_tick_to_tick(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "WATCHED_AT_MOST", 2)
    limiter = limiter_of(probe, {id_: [10 * id_] for id_ in range(1, 5)}, OVER_BUDGET)
    snapshot = snapshot_of([1, 2, 3, 4], promised=[1])
    turns = []
    for _ in range(4):
        tick(limiter, snapshot)
        turns.append(probe.watched)
    assert turns == [frozenset(pair) for pair in ([10, 20], [10, 30], [10, 40], [10, 20])]


def test_a_verdict_that_is_no_reason_for_suspicion_puts_no_container_ahead(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "WATCHED_AT_MOST", 1)
    limiter = limiter_of(probe, {1: [11], 2: [22]}, OVER_BUDGET)
    tick(limiter, snapshot_of([1, 2]), judged(c2="aligned"))
    assert probe.watched == frozenset({11})


def test_a_container_that_ended_meanwhile_has_nothing_to_watch(probe: Probe) -> None:
    assert tick(limiter_of(probe, {2: [22]}, OVER_BUDGET), snapshot_of([1, 2])) == 1.0
    assert probe.watched == frozenset({22})


def test_a_full_map_makes_room_by_forgetting_who_is_not_watched(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "WATCHED_AT_MOST", 1)
    limiter, snapshot = limiter_of(probe, {1: [11], 2: [22]}), snapshot_of([1, 2], promised=[2])
    assert tick(limiter, snapshot, dropped=3) == pytest.approx(1 / 2)
    assert (probe.watched, probe.counted) == (frozenset({22}), {22})
    probe.counted.add(99)
    assert tick(limiter, snapshot, dropped=3) is None
    assert probe.watched is None
    assert probe.counted == {22, 99}


def test_a_probe_that_does_not_run_has_no_watch_list() -> None:
    limiter = limiter_of(ProbeRefusal(Reason.NO_KPROBES, "no kprobes"), {1: [11]}, OVER_BUDGET)
    assert tick(limiter, snapshot_of([1])) is None
