"""The schedule of ticks, and what rate() makes of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.daemon.ticks.schedule import Schedule, widest_gap

INTERVAL = 15.0


def test_ticks_are_due_on_schedule_however_long_each_takes() -> None:
    schedule = Schedule(interval=10, begun=100)
    assert [schedule.next_due(now) for now in (100.5, 119.9, 121)] == [110, 120, 130]
    assert schedule.missed == 0


def test_a_tick_that_takes_longer_than_the_interval_is_followed_at_once_and_the_missed_ones_are_counted() -> None:
    schedule = Schedule(interval=10, begun=100)
    assert schedule.next_due(135) == 130
    assert schedule.missed == 2
    assert schedule.next_due(136) == 140


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=50))
def test_any_ticks_stay_on_schedule_and_every_due_time_is_a_tick_or_missed(durations: list[float]) -> None:
    schedule, now = Schedule(10, 0.0), 0.0
    for number, duration in enumerate(durations, 1):
        due = schedule.next_due(now + duration)
        assert due % 10 == 0
        assert due == (number + schedule.missed) * 10
        now = max(due, now + duration)


def _rate(samples: Sequence[tuple[float, float]], window: float) -> float:
    """What is counted a second by the samples in the window that ends with the last one.

    rate() extrapolates this to the whole window by the times of the samples alone, so that this factor is the same
    for an exporter whose counters are read at the very moment of the scrape. Source: promql/functions.go.
    """
    end = samples[-1][0]
    inside = [one for one in samples if end - window < one[0] <= end]
    (first, low), (last, high) = inside[0], inside[-1]
    return (high - low) / (last - first)


def _rates(offsets: Sequence[float], seed: int, keeps_away: bool = True) -> list[list[float]]:
    """What each of some scrapers computes of a counter that grows by 1 each second.

    They come at the tick's interval, 1 s early to 1 s late each time. The first twelve scrapes are left out, while
    the agent learns of them.
    """
    dice = random.Random(seed)
    schedule, counted = Schedule(INTERVAL, 0.0), 0.0
    due = 0.0
    recent: list[float] = []
    scrapes = sorted(
        (number * INTERVAL + offset + dice.uniform(-1, 1), who)
        for number in range(1, 213)
        for who, offset in enumerate(offsets)
    )
    samples: list[list[tuple[float, float]]] = [[] for _ in offsets]
    for at, who in scrapes:
        while due <= at:
            counted = due
            due = schedule.next_due(due + 0.1, recent if keeps_away else ())
        recent = [*recent[-63:], at]
        samples[who].append((at, counted))
    assert schedule.missed == 0
    return [[_rate(seen[: end + 1], 4 * INTERVAL) for end in range(12, len(seen))] for seen in samples]


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.0, 4.0, 7.5, 14.0, 14.9])
def test_rate_is_right_when_scrapes_come_at_the_ticks_own_interval(offset: float) -> None:
    for seed in range(5):
        (rates,) = _rates([offset], seed)
        assert len(rates) == 200
        assert max(abs(rate - 1) for rate in rates) < 0.05


@pytest.mark.parametrize("other", [3.0, 5.0, 7.5, 10.0])
def test_rate_is_right_for_both_of_two_scrapers(other: float) -> None:
    for rates in _rates([0.0, other], seed=1):
        assert max(abs(rate - 1) for rate in rates) < 0.05


def test_a_schedule_that_falls_on_the_scrapes_makes_rate_wrong_by_a_third() -> None:
    (rates,) = _rates([0.0], seed=1, keeps_away=False)
    assert max(abs(rate - 1) for rate in rates) > 0.3


@given(st.lists(st.floats(0, 1000), max_size=100), st.floats(1, 100), st.floats(0.01, 0.9))
def test_any_scrapes_move_at_most_one_tick_in_four_and_none_by_an_interval(
    scrapes: list[float], interval: float, takes: float
) -> None:
    schedule, due = Schedule(interval, 0.0), 0.0
    moves = []
    for _ in range(40):
        now = due + takes * interval
        before, due = due, schedule.next_due(now, [at for at in scrapes if at <= now])
        assert due > now
        assert due - before < 2.001 * interval
        moves.append(abs(due - before - interval) > 0.001 * interval)
    assert sum(moves) <= 10
    assert schedule.missed == 0


def test_a_clock_that_goes_round_has_its_widest_gap_also_over_its_end() -> None:
    assert widest_gap([1, 2, 9], 10) == (2, 7)
    assert widest_gap([4, 6], 10) == (6, 8)
    assert widest_gap([3], 10) == (3, 10)


def test_another_interval_counts_from_the_moment_it_is_set() -> None:
    schedule = Schedule(interval=10, begun=100)
    schedule.next_due(101)
    schedule.restart(interval=60, now=103)
    assert schedule.due == 163
    assert schedule.next_due(163.5) == 223
