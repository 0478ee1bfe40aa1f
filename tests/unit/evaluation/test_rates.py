"""Differences between ticks, and the expected remote ratio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.evaluation.rates import expected_remote_ratio, increase, share_outside
from numaudit.snapshot import Resident

by_node = st.dictionaries(st.integers(0, 7), st.integers(0, 1 << 40), max_size=8)


def test_a_counter_that_fell_began_at_zero_again() -> None:
    assert increase({"a": 5, "b": 3, "c": 2}, {"a": 2, "b": 9}) == {"a": 3, "b": 3, "c": 2}


def test_a_counter_that_stood_still_grew_by_nothing() -> None:
    assert increase({0: 5, 1: 0, 2: 7}, {0: 5, 1: 0}) == {0: 0, 1: 0, 2: 7}


def test_the_share_outside_is_that_of_all_other_nodes() -> None:
    assert share_outside({0: 6, 1: 3, 2: 1}, frozenset({0, 3})) == 0.4
    assert share_outside({0: 6}, frozenset({0})) == 0
    assert share_outside({0: 0, 1: 0}, frozenset({0})) is None


def test_everything_is_new_without_an_earlier_tick() -> None:
    assert increase({"a": 5}, None) == {"a": 5}


def test_memory_where_the_cpus_ran_is_expected_local() -> None:
    assert expected_remote_ratio(Resident(anon={0: 100}), {0: 2.0}) == 0.0
    assert expected_remote_ratio(Resident(anon={1: 100}), {0: 2.0}) == 1.0


def test_half_of_the_time_and_a_quarter_of_the_bytes_elsewhere_multiply() -> None:
    resident = Resident(anon={0: 75, 1: 25})
    assert expected_remote_ratio(resident, {0: 1.0, 1: 1.0}) == pytest.approx(0.5)
    assert expected_remote_ratio(resident, {0: 3.0, 1: 1.0}) == pytest.approx(1 - (3 * 75 + 25) / 400)


def test_page_cache_does_not_count() -> None:
    assert expected_remote_ratio(Resident(anon={0: 10}, file={1: 1000}), {0: 1.0}) == 0.0


def test_nothing_resident_or_nothing_run_has_no_ratio() -> None:
    assert expected_remote_ratio(Resident(anon={}), {0: 1.0}) is None
    assert expected_remote_ratio(Resident(anon={0: 1}), {}) is None
    assert share_outside({}, frozenset({0})) is None


@given(by_node, by_node)
def test_the_expected_ratio_is_a_share(sizes: dict[int, int], times: dict[int, int]) -> None:
    ratio = expected_remote_ratio(Resident(anon=sizes), times)
    assert ratio is None or -1e-9 <= ratio <= 1 + 1e-9
