"""Whose counters are whose, from tick to tick."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numaudit.collectors.owners import Owners
from numaudit.containers.inventory import Census
from numaudit.kernel.cgroup import Cgroup
from numaudit.snapshot import ContainerId


def _census(**groups: tuple[int, ...]) -> Census:
    """Containers by their names, each with the ids of its cgroups, its own first."""
    owned = {
        ContainerId(ids[0]): tuple(Cgroup(id_, f"/{name}/{id_}") for id_ in ids) for name, ids in groups.items() if ids
    }
    return Census((), owned, {"/": ()})


def test_a_container_that_ended_keeps_its_last_counts_for_one_tick() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11), job=(20,)))
    assert owners.add_up("cpu_time", {10: {0: 5}, 11: {0: 1, 1: 2}, 20: {1: 3}}) == {10: {0: 6, 1: 2}, 20: {1: 3}}
    owners.follow(_census(web=(10, 11)))
    assert owners.cgroups() == {10, 11, 20}
    assert owners.add_up("cpu_time", {10: {0: 5}, 20: {1: 9}}) == {10: {0: 5}, 20: {1: 9}}
    owners.follow(_census(web=(10, 11)))
    assert owners.cgroups() == {10, 11}
    assert owners.add_up("cpu_time", {10: {0: 5}, 20: {1: 9}}) == {10: {0: 5}}


def test_what_an_ended_cgroup_counted_stays_with_its_container() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11)))
    owners.add_up("cpu_time", {10: {0: 5}, 11: {0: 40}})
    owners.follow(_census(web=(10,)))
    assert owners.add_up("cpu_time", {10: {0: 6}, 11: {0: 44}}) == {10: {0: 50}}
    owners.follow(_census(web=(10,)))
    assert owners.add_up("cpu_time", {10: {0: 7}}) == {10: {0: 51}}
    owners.follow(_census())
    assert owners.add_up("cpu_time", {10: {0: 8}}) == {10: {0: 52}}
    owners.follow(_census())
    assert owners.add_up("cpu_time", {10: {0: 8}}) == {}


def test_counters_are_kept_apart_by_name_and_strangers_left_out() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11)))
    owners.follow(_census(web=(10,)))
    assert owners.add_up("succeeded", {11: {"compaction": 3}, 99: {"compaction": 7}}) == {10: {"compaction": 3}}
    assert owners.add_up("failed", {11: {"compaction": 1}}) == {10: {"compaction": 1}}
    owners.follow(_census(web=(10,)))
    assert owners.add_up("failed", {}) == {10: {"compaction": 1}}


def test_a_tick_whose_census_failed_counts_nothing_twice() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11)))
    owners.follow(_census(web=(10,)))
    assert owners.add_up("cpu_time", {10: {0: 1}, 11: {0: 7}}) == {10: {0: 8}}
    assert owners.add_up("cpu_time", {10: {0: 1}, 11: {0: 7}}) == {}
    owners.follow(_census(web=(10,)))
    assert owners.add_up("cpu_time", {10: {0: 2}}) == {10: {0: 9}}


@given(st.lists(st.tuples(st.sets(st.integers(1, 6)), st.lists(st.integers(0, 9), min_size=7, max_size=7)), max_size=9))
def test_any_lives_of_cgroups_leave_a_containers_sum_whole(ticks: list[tuple[set[int], list[int]]]) -> None:
    owners, counts, dead = Owners(), dict.fromkeys(range(7), 0), set[int]()
    before: set[int] = set()
    for living, growth in ticks:
        alive = {0} | (living - dead)
        dead |= before - alive
        owners.follow(_census(web=tuple(sorted(alive))))
        for cgroup in alive | before:
            counts[cgroup] += growth[cgroup]
        in_maps = {cgroup: {"n": counts[cgroup]} for cgroup in owners.cgroups()}
        before = alive
        assert owners.add_up("n", in_maps)[ContainerId(0)] == {"n": sum(counts.values())}
