"""Which containers are left out over max_series."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numaudit.exporters.selection import Name, Omitted, SeriesLimit


def _name(number: int) -> Name:
    return "prod", f"p-{number}", "app"


def test_nothing_is_left_out_within_the_limit() -> None:
    order = [_name(number) for number in range(10)]
    assert SeriesLimit(100).choose(order, dict.fromkeys(order, 10)) == (set(order), Omitted())


def test_who_was_chosen_stays_however_the_order_changes() -> None:
    limit, order = SeriesLimit(100), [_name(number) for number in range(20)]
    first, omitted = limit.choose(order, dict.fromkeys(order, 9))
    assert omitted == Omitted(9 * 10, 10)
    chosen, _ = limit.choose(order[::-1], dict.fromkeys(order, 9))
    assert chosen == first == set(order[:10])


def test_who_ended_makes_room_for_the_next_in_order() -> None:
    limit, order = SeriesLimit(100), [_name(number) for number in range(20)]
    first, _ = limit.choose(order, dict.fromkeys(order, 9))
    left = [name for name in order if name != _name(3)]
    assert limit.choose(left, dict.fromkeys(left, 9))[0] == first - {_name(3)} | {_name(10)}


@given(st.lists(st.lists(st.integers(28, 32), min_size=100, max_size=100), min_size=2, max_size=20))
def test_any_counts_that_go_up_and_down_a_little_let_nobody_come_and_go(ticks: list[list[int]]) -> None:
    order = [_name(number) for number in range(100)]
    limit, seen = SeriesLimit(1000), []
    for counts in ticks:
        chosen, omitted = limit.choose(order, dict(zip(order, counts, strict=True)))
        assert sum(count for name, count in zip(order, counts, strict=True) if name in chosen) <= 1000
        assert omitted.containers == 100 - len(chosen)
        seen.append(set(chosen))
    came_back = [name for name in order if "01" in "".join(str(int(name in one)) for one in seen).lstrip("0")]
    assert len(came_back) <= 1
