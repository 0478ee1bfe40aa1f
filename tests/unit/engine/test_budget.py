"""The overhead budget: steps, the way back, and whose hint faults are counted while not all can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.engine import overhead
from numaudit.engine.overhead import CALM_TICKS, STEPS, Budget, Limiter, Load, choose, next_budget, share_of
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.verdicts import Verdict, VerdictName
from numaudit.probes.hint_faults import HintFaultCounts
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.counted import HintFault
from numaudit.topology.machine import Machine

LIMIT = 0.01


def after(budget: Budget, shares: list[float]) -> Budget:
    for share in shares:
        budget = next_budget(budget, share, LIMIT)
    return budget


def test_the_share_is_of_all_cpus_time() -> None:
    loads = [Load("page_alloc", 10_000_000, 140), Load("cpu_time", 3_000_000, 200)]
    assert loads[0].seconds == pytest.approx(1.4)
    assert share_of(loads, seconds=10, cpus=4) == pytest.approx(2.0 / 40)
    assert share_of(loads, seconds=0, cpus=4) == 0


def test_within_the_budget_nothing_is_switched_off() -> None:
    assert after(Budget(), [LIMIT] * 1000) == Budget()


def test_each_tick_over_the_limit_takes_one_step_in_order_until_there_is_none_left() -> None:
    budget = Budget()
    for count in range(1, len(STEPS) + 1):
        budget = next_budget(budget, 0.05, LIMIT)
        assert budget.steps == tuple(step.name for step in STEPS[:count])
    assert budget.steps[0] == "page_alloc off"
    assert next_budget(budget, 0.05, LIMIT).taken == len(STEPS)


def test_a_step_is_taken_back_only_after_a_calm_time() -> None:
    budget = after(Budget(), [0.011])
    assert after(budget, [0.0] * (CALM_TICKS - 1)).taken == 1
    assert after(budget, [0.0] * CALM_TICKS).taken == 0


def test_one_tick_over_the_limit_ends_the_calm_time() -> None:
    budget = after(Budget(), [0.02, 0.02])
    calm = after(budget, [0.0] * (CALM_TICKS - 1))
    assert after(calm, [0.02]).taken == 3
    assert after(calm, [0.02]).calm == 0


def test_what_cost_much_is_tried_again_later_than_what_cost_little() -> None:
    def ticks_until_back(share: float) -> int:
        budget, ticks = after(Budget(), [share]), 0
        while budget.taken:
            budget, ticks = next_budget(budget, 0.0, LIMIT), ticks + 1
        return ticks

    assert ticks_until_back(0.011) == CALM_TICKS
    assert ticks_until_back(0.1) == 4 * CALM_TICKS
    assert ticks_until_back(1.0) == 8 * CALM_TICKS


def test_a_load_at_the_limit_does_not_make_it_swing() -> None:
    """The other probes take 80 % of the budget, so nothing comes back however long it is calm."""
    assert after(after(Budget(), [0.02]), [0.008] * 10_000).taken == 1


@given(st.lists(st.floats(0, 1), max_size=300))
def test_any_load_moves_by_one_step_at_a_time(shares: list[float]) -> None:
    budget = Budget()
    for share in shares:
        following = next_budget(budget, share, LIMIT)
        assert abs(following.taken - budget.taken) <= 1
        assert 0 <= following.taken <= len(STEPS)
        if share > LIMIT:
            assert following.taken == min(len(STEPS), budget.taken + 1)
        budget = following


def test_promised_containers_come_first_then_suspicious_ones_then_the_others_in_turn() -> None:
    one = choose([1, 2], [2, 3], [4, 5, 6], most=4, turn=0)
    assert one.watched == (1, 2, 3, 4)
    assert one.coverage == pytest.approx(4 / 6)
    two = choose([1, 2], [2, 3], [4, 5, 6], most=4, turn=one.next_turn)
    assert two.watched == (1, 2, 3, 5)


def test_room_for_all_watches_all() -> None:
    everyone = choose([1], [], [2, 3], most=3, turn=7)
    assert (everyone.watched, everyone.coverage) == ((1, 2, 3), 1.0)
    assert choose([], [], [], most=3, turn=0).coverage == 1.0


@given(st.integers(1, 10), st.integers(1, 40))
def test_everyone_is_watched_in_turn(most: int, count: int) -> None:
    seen: set[int] = set()
    turn = 0
    for _ in range(-(-count // most)):
        chosen = choose([], [], range(count), most, turn)
        assert len(chosen.watched) == min(most, count)
        seen.update(chosen.watched)
        turn = chosen.next_turn
    assert seen == set(range(count))


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
