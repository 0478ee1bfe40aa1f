"""The overhead budget: steps, the way back, and who is watched while not all can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.engine.overhead.budget import CALM_TICKS, STEPS, Budget, Load, choose, next_budget, share_of

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
