"""Causes: every one that the evidence supports is named, and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.evaluation.causes.arrivals import Arrival
from numaudit.evaluation.causes.causes import causes
from numaudit.evaluation.verdicts import Cause
from numaudit.snapshot import Allowed, Mappings, NodeMemory, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
NODE_0 = NodeSet.of(0)
ALL_CPUS = CpuSet.parse("0-7")


def mappings(policy: str, node: int) -> Mappings:
    return Mappings({}, {"default": {0: 50 * MIB, 1: MIB}, policy: {node: 20 * MIB}}, {}, 1, 1)


def node(id_: int, free: int) -> NodeMemory:
    return NodeMemory(id_, 100 * MIB, free, Resident())


UNSEEN = Arrival(NODE_0, 20 * MIB, unwatched={"a full node": 20 * MIB, "a migration by its own tasks": 20 * MIB})
"""Bytes on other nodes that came before anybody watched."""


def names(*found: Cause) -> list[str]:
    return [one.cause for one in found]


@pytest.mark.parametrize("policy", ["bind:1", "prefer:1", "interleave:0-1"])
def test_a_memory_policy_that_put_bytes_elsewhere_is_named(policy: str) -> None:
    (found,) = causes(NODE_0, True, Allowed(NODE_0, ALL_CPUS), mappings(policy, 1), ())
    assert found == Cause("mempolicy", f"the process's memory policy {policy} put 20Mi there")


def test_a_memory_policy_whose_bytes_are_in_place_is_no_cause() -> None:
    assert names(*causes(NODE_0, True, None, mappings("bind:0", 0), ())) == ["unknown"]


def test_another_cpuset_than_promised_is_named() -> None:
    (found,) = causes(NODE_0, True, Allowed(NodeSet.of(0, 1), ALL_CPUS), None, ())
    assert found == Cause("cpuset", "it may use nodes 0-1")


@pytest.mark.parametrize(
    ("effective", "own", "text"),
    [
        ("0-1", "0-1", "its own cpuset.mems says so"),
        ("0-1", "", "cpuset.mems is empty, so it inherits nodes 0-1"),
        ("1", "0-1", "cpuset.mems is 0-1, of which the cgroups above it leave 1"),
    ],
)
def test_what_the_group_itself_sets_is_told_from_what_it_inherits(effective: str, own: str, text: str) -> None:
    allowed = Allowed(NodeSet.parse(effective), ALL_CPUS, NodeSet.parse(own))
    assert causes(NODE_0, True, allowed, None, ()) == (Cause("cpuset", text),)


def test_without_a_promise_a_cpuset_is_a_cause_only_when_it_keeps_memory_away_from_the_cpus() -> None:
    assert names(*causes(NODE_0, False, Allowed(NodeSet.of(0, 1), ALL_CPUS), None, ())) == ["unknown"]
    assert names(*causes(NODE_0, False, Allowed(NodeSet.of(1), ALL_CPUS), None, ())) == ["cpuset"]


def test_a_full_node_is_named_and_one_with_room_is_not() -> None:
    (found,) = causes(NODE_0, True, None, None, (node(0, MIB), node(1, 0)), came=UNSEEN)
    assert found == Cause(
        "full-node", "node 0 has 1Mi of 100Mi free now; numaudit did not watch it when the memory came"
    )
    assert names(*causes(NODE_0, True, None, None, (node(0, 50 * MIB),), came=UNSEEN)) == ["unknown"]


def test_a_node_that_is_full_now_is_no_cause_of_bytes_that_came_while_it_had_room() -> None:
    assert names(*causes(NODE_0, True, None, None, (node(0, 0),), came=Arrival(NODE_0, 20 * MIB))) == ["unknown"]


def test_a_node_that_was_full_when_they_came_is_named_whatever_is_free_now() -> None:
    came = Arrival(NODE_0, 20 * MIB, full={0: 19 * MIB})
    (found,) = causes(NODE_0, True, None, None, (node(0, 50 * MIB),), came=came)
    assert found == Cause("full-node", "allocations for node 0 went to others meanwhile: 19Mi, of the whole host")


def test_what_is_exactly_at_a_limit_is_not_past_it() -> None:
    assert names(*causes(NODE_0, True, None, None, (node(0, 3 * MIB),), came=UNSEEN)) == ["unknown"]
    for at_limit in (Arrival(NODE_0, MIB, moved={"numa_misplaced": MIB}), Arrival(NODE_0, MIB, full={0: MIB})):
        assert names(*causes(NODE_0, True, None, None, (), came=at_limit)) == ["unknown"]


@pytest.mark.parametrize(("total", "free"), [(100 * MIB, None), (None, 0), (0, 0)])
def test_a_node_whose_memory_is_not_known_is_not_called_full(total: int | None, free: int | None) -> None:
    assert names(*causes(NODE_0, True, None, None, (NodeMemory(0, total, free, Resident()),), came=UNSEEN)) == [
        "unknown"
    ]


def test_pages_that_its_own_tasks_moved_are_named_with_the_kernels_reason() -> None:
    moved = Arrival(NODE_0, 20 * MIB, moved={"numa_misplaced": 4 * MIB, "syscall_or_cpuset": 5 * MIB, "damon": 9})
    assert causes(NODE_0, True, None, None, (), came=moved) == (
        Cause("migration", "its tasks moved 4Mi to other nodes (numa_misplaced)"),
        Cause("migration", "its tasks moved 5Mi between nodes while the memory came (syscall_or_cpuset)"),
    )


def test_several_causes_are_all_named() -> None:
    found = causes(NODE_0, True, Allowed(NodeSet.of(1), ALL_CPUS), mappings("bind:1", 1), (node(0, 0),), came=UNSEEN)
    assert names(*found) == ["mempolicy", "cpuset", "full-node"]


def test_only_what_was_measured_is_denied() -> None:
    (found,) = causes(NODE_0, True, None, None, (), came=UNSEEN)
    assert found == Cause(
        "unknown",
        "not measured: a memory policy, the cpuset; not watched while the memory came: a "
        "full node, a migration by its own "
        "tasks",
    )
    half = Arrival(NODE_0, 20 * MIB, unwatched={"a migration by its own tasks": 20 * MIB})
    (found,) = causes(NODE_0, True, Allowed(NODE_0, ALL_CPUS), None, (node(0, 50 * MIB),), came=half)
    assert found.evidence == (
        "ruled out: the cpuset, a full node; not measured: a memory policy; "
        "not watched while the memory came: a migration by its own tasks"
    )
    watched = Arrival(NODE_0, 20 * MIB)
    (found,) = causes(NODE_0, True, Allowed(NODE_0, ALL_CPUS), mappings("bind:0", 0), (), came=watched)
    assert found.evidence == ("ruled out: a memory policy, the cpuset, a full node, a migration by its own tasks")


def test_a_memory_policy_is_not_denied_while_some_processes_were_not_read() -> None:
    partly = replace(mappings("bind:0", 0), processes=3)
    (found,) = causes(NODE_0, True, None, partly, (), came=UNSEEN)
    assert "not measured: a memory policy (1 of 3 processes read), the cpuset" in found.evidence
