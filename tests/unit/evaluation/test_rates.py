"""Differences between ticks, and the expected remote ratio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.evaluation.rates import distance_ratio, expected_remote_ratio, increase, share_outside
from numaudit.snapshot import Resident
from numaudit.topology.nodeset import NodeSet

by_node = st.dictionaries(st.integers(0, 7), st.integers(0, 1 << 40), max_size=8)


def test_a_counter_that_fell_began_at_zero_again() -> None:
    assert increase({"a": 5, "b": 3, "c": 2}, {"a": 2, "b": 9}) == {"a": 3, "b": 3, "c": 2}


def test_a_counter_that_stood_still_grew_by_nothing() -> None:
    assert increase({0: 5, 1: 0, 2: 7}, {0: 5, 1: 0}) == {0: 0, 1: 0, 2: 7}


def test_the_share_outside_is_that_of_all_other_nodes() -> None:
    assert share_outside({0: 6, 1: 3, 2: 1}, NodeSet.of(0, 3)) == 0.4
    assert share_outside({0: 6}, NodeSet.of(0)) == 0
    assert share_outside({0: 0, 1: 0}, NodeSet.of(0)) is None


def test_everything_is_new_without_an_earlier_tick() -> None:
    assert increase({"a": 5}, None) == {"a": 5}


def test_memory_where_the_cpus_ran_is_expected_local() -> None:
    assert expected_remote_ratio({0: 100}, {0: 2.0}) == 0.0
    assert expected_remote_ratio({1: 100}, {0: 2.0}) == 1.0


def test_half_of_the_time_and_a_quarter_of_the_bytes_elsewhere_multiply() -> None:
    resident = {0: 75, 1: 25}
    assert expected_remote_ratio(resident, {0: 1.0, 1: 1.0}) == pytest.approx(0.5)
    assert expected_remote_ratio(resident, {0: 3.0, 1: 1.0}) == pytest.approx(1 - (3 * 75 + 25) / 400)


def test_page_cache_does_not_count() -> None:
    assert expected_remote_ratio(Resident(anon={0: 10}, file={1: 1000}).judged, {0: 1.0}) == 0.0


def test_nothing_resident_or_nothing_run_has_no_ratio() -> None:
    assert expected_remote_ratio({}, {0: 1.0}) is None
    assert expected_remote_ratio({0: 1}, {}) is None
    assert share_outside({}, NodeSet.of(0)) is None


@given(by_node, by_node)
def test_the_expected_ratio_is_a_share(sizes: dict[int, int], times: dict[int, int]) -> None:
    ratio = expected_remote_ratio(sizes, times)
    assert ratio is None or -1e-9 <= ratio <= 1 + 1e-9


TWO = {0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}}


def test_local_memory_has_the_distance_ratio_1_and_far_memory_that_of_its_distance() -> None:
    assert distance_ratio({0: 100}, {0: 2.0}, TWO) == 1.0
    assert distance_ratio({1: 100}, {0: 2.0}, TWO) == pytest.approx(2.1)
    line = {0: {0: 10, 1: 12, 2: 32}}
    assert distance_ratio({1: 100}, {0: 2.0}, line) == pytest.approx(1.2)
    assert distance_ratio({2: 100}, {0: 2.0}, line) == pytest.approx(3.2)


def test_shares_of_time_and_of_bytes_weigh_each_distance() -> None:
    ratio = distance_ratio({0: 75, 1: 25}, {0: 3.0, 1: 1.0}, TWO)
    assert ratio == pytest.approx((0.75 * 0.75 * 10 + 0.75 * 0.25 * 21 + 0.25 * 0.75 * 21 + 0.25 * 0.25 * 10) / 10)


def test_a_distance_is_that_from_the_cpu_to_the_memory() -> None:
    uneven = {0: {0: 10, 1: 17}, 1: {0: 28, 1: 10}}
    assert distance_ratio({1: 1}, {0: 1.0}, uneven) == pytest.approx(1.7)
    assert distance_ratio({0: 1}, {1: 1.0}, uneven) == pytest.approx(2.8)


@pytest.mark.parametrize("distances", [{}, {0: {}}, {0: {0: 10}}, {0: {0: 10, 1: 255}}])
def test_without_a_distance_of_nodes_that_count_there_is_no_ratio(distances: dict[int, dict[int, int]]) -> None:
    assert distance_ratio({1: 100}, {0: 2.0}, distances) is None


def test_nodes_without_bytes_or_time_need_no_distance() -> None:
    assert distance_ratio({0: 100, 1: 0}, {0: 2.0, 1: 0.0}, {0: {0: 10, 1: 255}}) == 1.0


def test_nothing_resident_or_nothing_run_has_no_distance() -> None:
    assert distance_ratio({}, {0: 1.0}, TWO) is None
    assert distance_ratio({0: 1}, {}, TWO) is None
    assert distance_ratio({0: 1}, {0: 0.0}, TWO) is None


@given(by_node, by_node)
def test_where_all_remote_nodes_are_equally_far_distance_follows_from_the_expected_ratio(
    sizes: dict[int, int], times: dict[int, int]
) -> None:
    alike = {one: {other: 10 if one == other else 20 for other in range(8)} for one in range(8)}
    remote, distance = expected_remote_ratio(sizes, times), distance_ratio(sizes, times, alike)
    assert (distance is None) is (remote is None)
    if remote is not None:
        assert distance == pytest.approx(1 + remote)
