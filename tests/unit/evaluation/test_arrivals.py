"""How bytes came elsewhere: judged by what happened between the ticks in which they came, not by what is so now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.verdicts import Cause
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.snapshot.counted import Migrated, MigratedPages
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
PAGES = 256
"""Base pages of a MiB."""
DB = ContainerId(7)
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
BETWEEN = tuple[int | None, int]


def tick(
    at: float,
    outside: int,
    *,
    foreign: int | None = 0,
    moved: Mapping[str, int] | None = None,
    between: Mapping[BETWEEN, int] | None = None,
    cpus: str = "0-3",
    hits: bool = True,
    free: int = 500,
) -> Snapshot:
    """A container promised node 0, with some MiB on node 1. Allocations for node 0 that went elsewhere, and what its
    tasks moved, since boot, in MiB; None = not measured.
    """
    counters = {"numa_hit": int(at + 1) * hits * MIB, "numa_foreign": (foreign or 0) * MIB}
    nodes = tuple(
        NodeMemory(node, 1000 * MIB, free * MIB, Resident(), numastat=None if foreign is None else counters)
        for node in (0, 1)
    )
    pages = {reason: MigratedPages(size * PAGES, 0) for reason, size in (moved or {}).items()}
    nodes_of = None if between is None else {pair: MigratedPages(size * PAGES, 0) for pair, size in between.items()}
    return Snapshot(
        taken_at=1000.0 + at,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(Container(DB, "/kubepods/poduid/c", "container", qos="Guaranteed", pod_uid="uid", name="db"),),
        allowed={DB: Allowed(NodeSet.of(0), CpuSet.parse(cpus))},
        residency={DB: Resident(anon={0: 100 * MIB, 1: outside * MIB}, shmem={})},
        intent=Intent((ContainerIntent("uid", "db", cgroups=(DB,), promise=PROMISE),)),
        nodes=nodes,
        migrations=None if moved is None else {DB: Migrated(pages, {}, nodes_of)} if moved else {},
    )


PROMISE = Promise(memory=(Block.of("memory", 100 * MIB, NodeSet.of(0)),))


def causes(ticks: Iterable[Snapshot]) -> tuple[Cause, ...]:
    """Those of the last tick, as the agent finds them."""
    found: Judgements | None = None
    before = None
    for one in ticks:
        found = judge(one, before, found)
        before = one
    assert found is not None
    return found.verdicts[DB].causes


def only(ticks: Iterable[Snapshot]) -> Cause:
    (found,) = causes(ticks)
    return found


WAS_FULL = Cause("full-node", "allocations for node 0 went to others meanwhile: 40Mi, of the whole host")


def test_a_node_that_was_full_is_the_cause_also_when_it_has_room_again_at_the_tick() -> None:
    assert only([tick(0, 0), tick(15, 40, foreign=40), tick(30, 40, foreign=40)]) == WAS_FULL


def test_the_cause_stays_as_long_as_the_bytes_do_and_fades_with_them() -> None:
    came = [tick(0, 0), tick(15, 40, foreign=40)]
    assert only([*came, *(tick(15 * n, 40, foreign=40) for n in range(2, 20))]) == WAS_FULL
    assert only([*came, tick(30, 10, foreign=40)]).evidence.endswith("meanwhile: 10Mi, of the whole host")
    assert causes([*came, tick(30, 0, foreign=40)]) == ()


def test_a_full_node_is_denied_only_of_bytes_that_came_while_it_was_watched() -> None:
    denied = only([tick(0, 0, moved={}), tick(15, 40, moved={})])
    assert denied == Cause(
        "unknown",
        "ruled out: the cpuset, a full node, a migration by its own tasks; not measured: a memory policy",
    )
    unseen = only([tick(0, 40), tick(15, 40)]).evidence
    assert "not watched while the memory came: a full node" in unseen
    assert "ruled out: the cpuset;" in unseen
    assert "while the memory came: a full node" in only([tick(0, 0), tick(15, 40, foreign=None)]).evidence


def test_counters_that_never_grow_are_switched_off_and_deny_nothing() -> None:
    assert "while the memory came: a full node" in only([tick(0, 0, hits=False), tick(15, 40, hits=False)]).evidence


def test_a_node_that_was_full_at_another_time_is_no_cause() -> None:
    ticks = [tick(0, 0), tick(15, 0, foreign=500), tick(30, 40, foreign=500), tick(45, 40, foreign=900)]
    assert only(ticks).cause == "unknown"


def test_few_allocations_for_a_node_are_no_answer_where_they_may_be_of_huge_pages() -> None:
    """The kernel counts an allocation once, whether it is of 4 KiB or of 2 MiB."""
    found = only([tick(0, 0), tick(15, 2000, foreign=10)])
    assert "while the memory came: a full node" in found.evidence


def test_a_container_that_began_between_two_ticks_was_watched_from_its_first_byte() -> None:
    empty = replace(tick(0, 0), containers=(), residency={}, allowed={})
    assert only([empty, tick(15, 40, foreign=40)]) == WAS_FULL


def test_bytes_that_numa_balancing_brought_home_explain_nothing_of_those_that_are_left() -> None:
    came = tick(15, 40, moved={"numa_misplaced": 60}, between={(1, 0): 60})
    for ticks in ([tick(0, 100, moved={}), came], [came]):
        assert only(ticks).cause == "unknown"


def test_bytes_that_numa_balancing_moved_away_are_explained() -> None:
    came = tick(15, 40, moved={"numa_misplaced": 100}, between={(0, 1): 40, (1, 0): 60})
    for ticks in ([tick(0, 0, moved={}), came], [came]):
        assert only(ticks) == Cause("migration", "its tasks moved 40Mi to other nodes (numa_misplaced)")


def test_without_nodes_numa_balancing_brings_pages_to_the_cpus_that_a_container_may_use() -> None:
    moved = {"numa_misplaced": 40}
    near = only([tick(0, 0, moved={}), tick(15, 40, moved=moved)])
    assert near.evidence.startswith("ruled out: the cpuset, a full node, a migration by its own tasks")
    wide = only([tick(0, 0, moved={}, cpus="0-7"), tick(15, 40, moved=moved, cpus="0-7")])
    assert "not watched while the memory came: a migration by its own tasks" in wide.evidence
    unknown_page = {"moved": moved, "between": {(None, 1): 40}}
    wide = only([tick(0, 0, moved={}, cpus="0-7"), tick(15, 40, cpus="0-7", **unknown_page)])  # type: ignore[arg-type]
    assert "not watched while the memory came: a migration by its own tasks" in wide.evidence


def test_what_a_system_call_moved_is_a_cause_of_what_came_meanwhile_only() -> None:
    moved = {"syscall_or_cpuset": 40}
    assert only([tick(0, 0, moved={}), tick(15, 40, moved=moved)]) == Cause(
        "migration", "its tasks moved 40Mi between nodes while the memory came (syscall_or_cpuset)"
    )
    brought_home = [tick(0, 80, moved={}), tick(15, 40, moved=moved)]
    assert only(brought_home).cause == "unknown"
    later = [tick(0, 0, moved={}), tick(15, 40, moved={}), tick(30, 40, moved=moved)]
    assert only(later).cause == "unknown"


_TICKS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=12)


@given(_TICKS)
def test_any_cause_explains_no_more_than_there_is(added: list[tuple[int, int, int]]) -> None:
    found: Judgements | None = None
    before, foreign, moved = None, 0, 0
    for number, (outside, full, away) in enumerate(added):
        foreign, moved = foreign + full, moved + away
        moves = {"moved": {"numa_misplaced": moved}, "between": {(0, 1): moved}}
        now = tick(15.0 * number, outside, foreign=foreign, **moves)  # type: ignore[arg-type]
        found, before = judge(now, before, found), now
        for one in found.arrivals.values():
            assert one.outside == outside * MIB
            for amounts in (one.full, one.moved, one.unwatched):
                assert all(0 <= size <= one.outside for size in amounts.values())


def test_half_of_what_came_is_explained_by_a_full_node_and_less_is_not() -> None:
    assert only([tick(0, 0), tick(15, 40, foreign=20)]).cause == "full-node"
    assert only([tick(0, 0), tick(15, 40, foreign=19)]).cause == "unknown"
