"""Raw counts of events become memory accesses that only grow, and never a 0 that was not counted."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from made_up.plans import PAGE_FAULTS, TASK_CLOCK, faults_and_time, plan_of
from numaudit.kernel.tracing.bpf_map import MapEntries
from numaudit.probes.counters.accesses import AccessSums
from numaudit.probes.pmu import decode

WEB, NODE, CPU = 77, 1, 4
PLACE = (NODE, CPU)
SECOND = 1_000_000_000


def sums_of(readings: Iterable[tuple[int, ...]], *, is_total: bool = False) -> AccessSums:
    """What several readings of one CPU amount to, each (count, enabled, running) of both events."""
    sums = AccessSums(plan_of(1, PAGE_FAULTS, TASK_CLOCK, is_total=is_total))
    for words in readings:
        sums.add(WEB, PLACE, words)
    return sums


def test_counts_that_ran_all_the_time_are_taken_as_they_are() -> None:
    sums = sums_of([(100, 10, 10, 30, 10, 10), (150, 20, 20, 31, 20, 20)])
    assert sums.accesses == {WEB: {(NODE, "local"): 150, (NODE, "remote"): 31}}
    assert sums.times == {WEB: {"enabled": 20, "running": 20}}


def test_a_count_that_ran_half_of_an_interval_is_doubled_for_that_interval_alone() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10), (150, 20, 15, 15, 20, 15)])
    assert sums.accesses == {WEB: {(NODE, "local"): 200, (NODE, "remote"): 20}}
    assert sums.times == {WEB: {"enabled": 20, "running": 15}}


def test_events_that_never_ran_give_no_data_and_not_0() -> None:
    sums = sums_of([(0, 10, 0, 0, 10, 0), (0, 20, 0, 0, 20, 0)])
    assert sums.accesses == {}
    assert sums.times == {WEB: {"enabled": 20, "running": 0}}


def test_an_interval_in_which_events_did_not_run_is_made_up_for_when_they_have() -> None:
    sums = sums_of([(0, 10, 0, 0, 10, 0), (100, 20, 10, 50, 20, 10)])
    assert sums.accesses == {WEB: {(NODE, "local"): 200, (NODE, "remote"): 100}}


def test_one_of_two_groups_that_take_turns_is_waited_for() -> None:
    """Neither alone says what was remote."""
    assert sums_of([(100, 10, 10, 0, 10, 0)]).accesses == {}
    assert sums_of([(100, 10, 10, 0, 10, 0), (100, 20, 10, 50, 20, 10)]).accesses == {
        WEB: {(NODE, "local"): 200, (NODE, "remote"): 100}
    }


def test_the_times_are_those_of_the_event_that_ran_least() -> None:
    sums = sums_of([(100, 10, 10, 7, 11, 2)])
    assert sums.times == {WEB: {"enabled": 11, "running": 2}}


def test_counters_that_start_again_at_0_add_all_they_have() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10), (5, 1, 1, 2, 1, 1)])
    assert sums.accesses == {WEB: {(NODE, "local"): 105, (NODE, "remote"): 12}}
    assert sums.times == {WEB: {"enabled": 11, "running": 11}}


def test_events_that_are_opened_again_add_all_they_have_even_if_it_is_more_than_before() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10)])
    sums.begin_again(WEB)
    sums.add(WEB, PLACE, (200, 20, 20, 20, 20, 20))
    assert sums.accesses == {WEB: {(NODE, "local"): 300, (NODE, "remote"): 30}}


def test_a_difference_of_two_events_never_takes_back_what_was_counted() -> None:
    """Local is all less remote: by their noise a difference may come out below 0."""
    sums = sums_of([(100, 10, 10, 40, 10, 10), (110, 20, 20, 60, 20, 20)], is_total=True)
    assert sums.accesses == {WEB: {(NODE, "local"): 60, (NODE, "remote"): 60}}


def test_a_forgotten_cgroup_leaves_nothing() -> None:
    sums = sums_of([(100, 10, 10, 30, 10, 10)])
    assert (sums.cgroups(), sums.forget({WEB, 5}), sums.cgroups()) == ({WEB}, 1, set())
    assert (sums.accesses, sums.times) == ({}, {})


def test_map_entries_are_those_of_each_cpu_and_one_without_events_adds_nothing() -> None:
    first, second, never = (100, 10, 10, 30, 10, 10), (50, 10, 5, 15, 10, 5), (0,) * 6
    values = struct.pack("=18Q", *first, *never, *second)
    sums = AccessSums(faults_and_time())
    decode([MapEntries(struct.pack("=Q", WEB), values)], [(0, 0), (0, 1), (NODE, 2)], sums)
    near = {(0, "local"): 100, (0, "remote"): 30}
    assert sums.accesses == {WEB: {**near, (NODE, "local"): 100, (NODE, "remote"): 30}}


@given(st.lists(st.tuples(*[st.integers(0, SECOND)] * 6), max_size=20))
def test_any_readings_give_sums_that_never_fall(steps: list[tuple[int, ...]]) -> None:
    """An event runs for as long as it is enabled at most."""
    sums = AccessSums(faults_and_time())
    words: tuple[int, ...] = (0,) * 6
    last: dict[str, int] = {"local": 0, "remote": 0}
    for step in steps:
        grown = tuple(min(step[at], step[at - 1]) if at % 3 == 2 else step[at] for at in range(6))
        words = tuple(map(sum, zip(words, grown, strict=True)))
        sums.add(WEB, PLACE, words)
        now: dict[str, int] = {locality: count for (_, locality), count in sums.accesses.get(WEB, {}).items()}
        assert all(now.get(one, 0) >= count for one, count in last.items())
        last |= now
        assert 0 <= sums.times[WEB]["running"] <= sums.times[WEB]["enabled"]
