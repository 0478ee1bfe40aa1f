"""Whose counters are whose, from tick to tick."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.kernel.cgroup import Cgroup
from numaudit.snapshot import ENDED, UNSEEN, ContainerId


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
    owners.follow(_census(web=(10, 11)), {10, 20})
    assert set(owners.ended()) == {20}
    assert owners.add_up("cpu_time", {10: {0: 5}, 20: {1: 9}}) == {10: {0: 5}, 20: {1: 9}, ENDED: {1: 9}}
    owners.follow(_census(web=(10, 11)), {10})
    assert not owners.ended()
    assert owners.add_up("cpu_time", {10: {0: 5}}) == {10: {0: 5}, ENDED: {1: 9}}


def test_what_an_ended_cgroup_counted_stays_with_its_container() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11)))
    owners.add_up("cpu_time", {10: {0: 5}, 11: {0: 40}})
    owners.follow(_census(web=(10,)), {10, 11})
    assert owners.add_up("cpu_time", {10: {0: 6}, 11: {0: 44}}) == {10: {0: 50}}
    owners.follow(_census(web=(10,)), {10})
    assert owners.add_up("cpu_time", {10: {0: 7}}) == {10: {0: 51}}
    owners.follow(_census(), {10})
    assert owners.add_up("cpu_time", {10: {0: 8}}) == {10: {0: 52}, ENDED: {0: 52}}
    owners.follow(_census())
    assert owners.add_up("cpu_time", {}) == {ENDED: {0: 52}}


def test_a_cgroup_that_lived_between_two_ticks_is_counted_for_the_host_once() -> None:
    owners = Owners()
    owners.follow(_census(web=(10,)), {10})
    owners.add_up("cpu_time", {10: {0: 1}})
    owners.follow(_census(web=(10,)), {10, 77})
    assert set(owners.ended()) == {77}
    assert owners.add_up("cpu_time", {10: {0: 2}, 77: {1: 30}}) == {10: {0: 2}, UNSEEN: {1: 30}}
    owners.follow(_census(web=(10,)), {10, 77})  # its counters could not be deleted
    assert owners.add_up("cpu_time", {10: {0: 2}, 77: {1: 30}}) == {10: {0: 2}, UNSEEN: {1: 30}}


def test_a_cgroup_that_came_after_the_walk_waits_for_the_next_tick() -> None:
    owners = Owners()
    owners.follow(_census(web=(10,)), {10})
    assert owners.add_up("cpu_time", {10: {0: 1}, 77: {0: 3}}) == {10: {0: 1}}
    assert not owners.ended()
    owners.follow(_census(web=(10,), job=(77,)), {10, 77})
    assert owners.add_up("cpu_time", {10: {0: 1}, 77: {0: 5}}) == {10: {0: 1}, 77: {0: 5}}


def test_what_the_root_cgroup_counts_belongs_to_nobody() -> None:
    owners = Owners()
    owners.follow(_census(web=(10,)), {1, 10})
    assert owners.add_up("cpu_time", {1: {0: 99}, 10: {0: 1}}) == {10: {0: 1}}
    assert not owners.ended()


def test_a_container_that_ends_while_its_counter_is_not_read_is_no_stranger_later() -> None:
    """A probe may be paused, and read again when its cgroups have long gone."""
    owners = Owners()
    owners.follow(_census(web=(10, 11), job=(20,)), {10, 20})
    owners.add_up("page_alloc", {10: {0: 1}, 11: {0: 2}, 20: {0: 7}})
    owners.follow(_census(web=(10,)), {10, 11, 20})
    owners.follow(_census(), {10, 11, 20})
    owners.follow(_census(), {10, 11, 20})
    assert owners.add_up("page_alloc", {10: {0: 4}, 11: {0: 3}, 20: {0: 8}}) == {ENDED: {0: 15}}


def test_counters_are_kept_apart_by_name() -> None:
    owners = Owners()
    owners.follow(_census(web=(10, 11)))
    owners.follow(_census(web=(10,)), {11})
    assert owners.add_up("succeeded", {11: {"compaction": 3}}) == {10: {"compaction": 3}}
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


@dataclass(slots=True)
class _Life:
    """One cgroup: in which tick it is made and removed, and what it counts between two events of its life."""

    born: int
    died: int
    work: int


_LIVES = st.lists(st.builds(_Life, st.integers(0, 5), st.integers(0, 6), st.integers(1, 99)), max_size=8)


@given(_LIVES, st.sets(st.integers(0, 5)))
def test_any_lives_of_cgroups_leave_the_hosts_sum_whole(lives: list[_Life], unread: set[int]) -> None:
    """Each works before the walk of a tick and after it; one that dies in the tick it is made in is never seen."""
    owners, in_map, did = Owners(), dict[int, dict[str, int]](), 0
    last: dict[ContainerId, dict[str, int]] = {}
    for tick in range(8):
        for number, life in enumerate(lives, start=2):
            if life.born <= tick <= max(life.born, life.died):
                row = in_map.setdefault(number, {"n": 0})
                row["n"] += life.work
                did += life.work
        alive = {f"c{n}": (n,) for n, life in enumerate(lives, start=2) if life.born <= tick < life.died}
        owners.follow(_census(**alive), set(in_map))
        for (number,) in alive.values():
            in_map[number]["n"] += 1
            did += 1
        if tick in unread:
            continue
        last = owners.add_up("n", in_map)
        listed = {ContainerId(number) for (number,) in alive.values()} | {ENDED, UNSEEN}
        assert sum(row["n"] for owner, row in last.items() if owner in listed) == did
        for number in owners.ended():
            in_map.pop(number, None)


@given(st.lists(st.tuples(st.sets(st.integers(1, 6)), st.lists(st.integers(0, 9), min_size=7, max_size=7)), max_size=9))
def test_any_lives_of_cgroups_leave_a_containers_sum_whole(ticks: list[tuple[set[int], list[int]]]) -> None:
    owners, counts, dead = Owners(), dict.fromkeys(range(10, 17), 0), set[int]()
    before: set[int] = set()
    for living, growth in ticks:
        alive = {10} | ({10 + number for number in living} - dead)
        dead |= before - alive
        in_map = alive | before
        for cgroup in in_map:
            counts[cgroup] += growth[cgroup - 10]
        owners.follow(_census(web=tuple(sorted(alive))), in_map)
        before = alive
        found = owners.add_up("n", {cgroup: {"n": counts[cgroup]} for cgroup in in_map})
        assert found[ContainerId(10)] == {"n": sum(counts.values())}
