"""The static policy: hints, best hint, allocation, init containers, groups, release, stale state."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from kubelets.pods import bare, container, pod
from numaudit.containermanager.memory.candidates import Shortage, calculate_hints, find_best_hint, judge_candidates
from numaudit.containermanager.memory.group_rules import BrokenRule
from numaudit.containermanager.memory.state import Block, MemoryState, default_machine_state
from numaudit.containermanager.memory.static_policy import (
    GROUP_VIOLATION,
    NO_DEFAULT,
    NO_EXTENSION,
    NO_PREFERRED_DEFAULT,
    NO_PREFERRED_EXTENSION,
    MemoryPolicy,
    add_container,
    allocate,
    allocate_pod,
    container_hints,
    cpuset_mems,
    memory_nodes,
    pod_hints,
    remove_container,
    remove_stale_state,
)
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures
from numaudit.errors import InputError
from numaudit.topology.machine import HugePages, Machine, Node
from numaudit.topology.nodeset import NodeSet

GI = 2**30
POD_LEVEL = KubeletFeatures(pod_level_resource_managers=True)
OLD = KubeletFeatures((1, 28), pod_level_resources=False)


def node(*sizes: int, huge: int = 0, reserved: dict[int, int] | None = None) -> MemoryPolicy:
    """A fresh policy on nodes of these GiB, with `huge` 1 GiB pages each, and GiB reserved by node."""
    pages = (HugePages(GI, huge),) if huge else ()
    machine = Machine(tuple(Node(i, memory=size * GI, huge_pages=pages) for i, size in enumerate(sizes)))
    kept = {id_: {"memory": size * GI} for id_, size in (reserved or {}).items()}
    return MemoryPolicy(MemoryState(default_machine_state(machine, kept)))


def gigs(policy: MemoryPolicy, resource: str = "memory") -> list[int]:
    """Free GiB by node."""
    return [one.memory_map[resource].free // GI for one in policy.state.machine.values()]


def short(hints: ProviderHints, resource: str = "memory") -> list[str] | None:
    """`0` = {0} not preferred, `0,1!` = {0,1} preferred."""
    if hints is None or hints.get(resource) is None:
        return None
    listed: Sequence[TopologyHint] = hints[resource] or ()
    return [f"{one.affinity or ''}{'!' if one.preferred else ''}" for one in listed]


def on(*nodes: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(NodeSet.of(*nodes), preferred)


def admit(policy: MemoryPolicy, one: Pod, hint: TopologyHint | None = None) -> MemoryPolicy:
    """Allocate all containers of a pod, each on the best of its own hints unless one is given."""
    for part in one.all_containers:
        hints = container_hints(policy, one, part.name)
        best = hint or (find_best_hint(hints["memory"] or ()) if hints else TopologyHint(None, preferred=True))
        policy = allocate(policy, one, part.name, best).policy
    return policy


class TestHints:
    def test_a_15_gib_pod_on_11_gib_nodes_gets_a_group_of_two(self) -> None:
        """Three nodes of 11 GiB with 1 GiB reserved on nodes 0 and 1."""
        policy = node(11, 11, 11, reserved={0: 1, 1: 1})
        big = pod("a", container("app", "15Gi"))
        assert short(container_hints(policy, big, "app")) == ["0-1!", "0,2!", "1-2!", "0-2"]
        done = allocate(policy, big, "app")
        assert (done.affinity) == (NodeSet.of(0, 1))
        assert gigs(done.policy) == [0, 5, 11]
        small = pod("b", container("app", "5Gi"))
        assert short(container_hints(done.policy, small, "app")) == ["2!", "0-1"]
        after = remove_stale_state(admit(done.policy, small), {"b": small})
        assert gigs(after) == [10, 10, 6]
        assert [one.cells for one in after.state.machine.values()] == [(0,), (1,), (2,)]

    def test_all_resources_get_the_same_hints(self) -> None:
        asking = pod("a", container("app", "1Gi", more={"hugepages-1Gi": "2Gi"}))
        hints = container_hints(node(8, 8, huge=1), asking, "app")
        assert short(hints) == short(hints, "hugepages-1Gi") == ["0-1!"]

    def test_preference_depends_on_capacity_and_not_on_what_is_free(self) -> None:
        policy = admit(node(10, 10), pod("a", container("app", "6Gi")), on(0))
        policy = admit(policy, pod("b", container("app", "6Gi")), on(1))
        assert container_hints(policy, pod("c", container("app", "5Gi")), "app") == {}
        state = structs.replace(policy.state.machine[1], number_of_assignments=0)
        both = {0: structs.replace(policy.state.machine[0], number_of_assignments=0), 1: state}
        assert short(calculate_hints(both, {"memory": 5 * GI})) == ["0-1"]

    def test_nothing_fits_is_an_empty_answer_and_not_an_impossible_one(self) -> None:
        assert container_hints(node(10, 10), pod("a", container("app", "21Gi")), "app") == {}

    def test_only_guaranteed_pods_get_hints(self) -> None:
        burstable = pod("a", container("app", "1Gi", limit="2Gi"))
        assert container_hints(node(10), burstable, "app") is None
        assert pod_hints(node(10), burstable) is None
        assert allocate(node(10), burstable, "app").affinity is None

    def test_pod_level_resources_are_left_alone_without_their_gates(self) -> None:
        with_own = pod("a", container("app"), resources={"cpu": "1", "memory": "2Gi"})
        assert container_hints(node(10), with_own, "app") is None
        assert allocate(node(10), with_own, "app").policy == node(10)
        assert container_hints(node(10), with_own, "app", POD_LEVEL) is not None

    def test_memory_that_is_held_comes_back_as_the_one_preferred_hint(self) -> None:
        one = pod("a", container("app", "5Gi"))
        policy = admit(node(10, 10), one, on(1))
        assert container_hints(policy, one, "app") == {"memory": [on(1)]}
        grown = pod("a", container("app", "6Gi"))
        assert container_hints(policy, grown, "app") is None
        other = pod("a", container("app", "5Gi", more={"hugepages-1Gi": "1Gi"}))
        assert container_hints(policy, other, "app") is None

    def test_after_a_restart_a_pod_of_two_containers_has_no_preference_in_pod_scope(self) -> None:
        two = pod("a", container("x", "2Gi"), container("y", "3Gi"))
        policy = node(10, 10)
        assert short(pod_hints(policy, two)) == ["0!", "1!", "0-1"]
        assert pod_hints(admit(policy, two), two) is None

    def test_a_guaranteed_pod_without_memory_has_no_preference(self) -> None:
        """The two scopes say so in different shapes."""
        one = structs.replace(pod("a", bare("app")), status_qos="Guaranteed")
        assert pod_hints(node(10), one) is None
        assert container_hints(node(10), one, "app") == {}

    def test_an_amount_that_is_no_int64_gives_no_hints_and_is_refused_later(self) -> None:
        odd = pod("a", container("app", "1500m"))
        assert container_hints(node(10), odd, "app") is None
        assert pod_hints(node(10), odd) is None
        with pytest.raises(AdmissionError, match="failed to represent quantity as int64"):
            allocate(node(10), odd, "app")

    def test_a_resource_that_no_node_knows_is_refused_with_its_name(self) -> None:
        asking = pod("a", container("app", more={"hugepages-16Gi": "16Gi"}))
        with pytest.raises(InputError, match=r"node 0 has no hugepages-16Gi.*ask for one of memory"):
            container_hints(node(10), asking, "app")


class TestJudgement:
    def test_every_candidate_says_what_ruled_it_out(self) -> None:
        policy = admit(node(10, 10, 10), pod("a", container("app", "15Gi")), on(0, 1))
        judged = {str(one.mask): one for one in judge_candidates(policy.state.machine, {"memory": 8 * GI})}
        assert [one.verdict for one in judged.values()] == [
            BrokenRule.IN_A_GROUP,
            BrokenRule.IN_A_GROUP,
            BrokenRule.KEPT,
            BrokenRule.NOT_FREE,
            BrokenRule.BREAKS_A_GROUP,
            BrokenRule.BREAKS_A_GROUP,
            BrokenRule.BREAKS_A_GROUP,
        ]
        assert judged["2"].preferred
        assert judged["0-1"].shortages == (Shortage("memory", 8 * GI, 5 * GI),)
        assert judged["1-2"].conflicts == (1,)
        assert judged["0-2"].conflicts == (0, 1)

    def test_a_candidate_that_is_too_small_says_how_much(self) -> None:
        judged = judge_candidates(node(4, 4).state.machine, {"memory": 5 * GI})
        assert judged[0].verdict is BrokenRule.TOO_SMALL
        assert judged[0].shortages == (Shortage("memory", 5 * GI, 4 * GI),)
        assert judged[2].preferred


class TestBestHint:
    def test_preferred_wins_and_then_the_narrower(self) -> None:
        hints = [on(0, 1, preferred=False), on(2, 3), on(1, 3), on(0, 1, 2)]
        assert find_best_hint(hints) == on(1, 3)
        assert find_best_hint(hints[:1]) == hints[0]
        with pytest.raises(InputError, match="names no memory"):
            find_best_hint([])


class TestAllocation:
    def test_the_hint_decides_the_nodes(self) -> None:
        done = allocate(node(10, 10), pod("a", container("app", "5Gi")), "app", on(1))
        assert (done.affinity, gigs(done.policy)) == (NodeSet.of(1), [10, 5])
        assert done.policy.state.entries == {"a": {"app": (Block((1,), "memory", 5 * GI),)}}

    def test_a_hint_whose_nodes_do_not_have_the_resource_is_refused(self) -> None:
        asking = pod("a", container("app", "1Gi", more={"hugepages-1Gi": "1Gi"}))
        with pytest.raises(InputError, match="no hugepages-1Gi on NUMA node 0, a kubelet would crash here"):
            allocate(node(4, 4), asking, "app", on(0))

    def test_a_hint_without_any_node_is_extended(self) -> None:
        done = allocate(node(4, 4), pod("a"), "app", TopologyHint(NodeSet(), preferred=True))
        assert done.affinity == NodeSet.of(0)

    def test_a_second_allocation_changes_nothing(self) -> None:
        one = pod("a", container("app", "5Gi"))
        policy = admit(node(10, 10), one, on(1))
        again = allocate(policy, one, "app", on(0))
        assert (again.affinity, again.policy) == (NodeSet.of(1), policy)

    def test_without_a_hint_and_without_room_the_pod_is_refused(self) -> None:
        with pytest.raises(AdmissionError) as refusal:
            allocate(node(10, 10), pod("a", container("app", "21Gi")), "app")
        assert str(refusal.value) == NO_DEFAULT
        assert refusal.value.message == f"Allocate failed due to {NO_DEFAULT}, which is unexpected"

    def test_a_default_that_is_not_preferred_does_not_stand_for_a_preferred_hint(self) -> None:
        policy = admit(node(10, 10), pod("a", container("app", "8Gi")), on(0))
        machine = {id_: structs.replace(one, number_of_assignments=0) for id_, one in policy.state.machine.items()}
        machine[1] = structs.replace(
            machine[1], memory_map={"memory": structs.replace(machine[1].memory_map["memory"], free=4 * GI)}
        )
        tight = MemoryPolicy(MemoryState(machine))
        with pytest.raises(AdmissionError) as refusal:
            allocate(tight, pod("b", container("app", "5Gi")), "app", TopologyHint(None, preferred=True))
        assert str(refusal.value) == NO_PREFERRED_DEFAULT
        assert allocate(tight, pod("b", container("app", "5Gi")), "app").affinity == NodeSet.of(0, 1)

    def test_a_hint_with_too_little_memory_is_extended(self) -> None:
        done = allocate(node(10, 10, 10), pod("a", container("app", "15Gi")), "app", on(1, preferred=False))
        assert (done.affinity, gigs(done.policy)) == (NodeSet.of(0, 1), [0, 5, 10])

    def test_an_extension_must_contain_the_hint(self) -> None:
        policy = admit(node(10, 10, 10), pod("a", container("app", "1Gi")), on(1))
        with pytest.raises(AdmissionError) as refusal:
            allocate(policy, pod("b", container("app", "15Gi")), "app", on(1))
        assert str(refusal.value) == NO_EXTENSION

    def test_a_preferred_hint_is_only_extended_to_a_preferred_one(self) -> None:
        policy = node(10, 10, 10)
        machine = dict(policy.state.machine)
        machine[0] = structs.replace(
            machine[0], memory_map={"memory": structs.replace(machine[0].memory_map["memory"], free=GI)}
        )
        with pytest.raises(AdmissionError) as refusal:
            allocate(MemoryPolicy(MemoryState(machine)), pod("a", container("app", "5Gi")), "app", on(0))
        assert str(refusal.value) == NO_PREFERRED_EXTENSION

    def test_a_group_takes_no_part_of_another_group(self) -> None:
        policy = admit(node(10, 10, 10), pod("a", container("app", "15Gi")), on(0, 1))
        with pytest.raises(AdmissionError) as refusal:
            allocate(policy, pod("b", container("app", "5Gi")), "app", on(1, 2))
        assert str(refusal.value) == GROUP_VIOLATION

    def test_before_1_32_nothing_enforced_that_on_the_final_hint(self) -> None:
        policy = admit(node(10, 10, 10), pod("a", container("app", "15Gi")), on(0, 1))
        done = allocate(policy, pod("b", container("app", "5Gi")), "app", on(1, 2), OLD)
        assert done.affinity == NodeSet.of(1, 2)

    def test_every_resource_of_a_container_counts_as_an_assignment(self) -> None:
        asking = pod("a", container("app", "1Gi", more={"hugepages-1Gi": "2Gi"}))
        policy = admit(node(8, 8, huge=1), asking)
        assert [one.number_of_assignments for one in policy.state.machine.values()] == [2, 2]
        assert gigs(policy, "hugepages-1Gi") == [0, 0]

    def test_a_hint_with_an_absent_node_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"does not have: \[7\]"):
            allocate(node(10), pod("a"), "app", on(7))


class TestInitContainers:
    def test_an_app_container_reuses_what_the_init_container_had(self) -> None:
        one = pod("a", container("app", "3Gi"), init=(container("init", "5Gi"),))
        policy = admit(node(10, 10), one)
        assert gigs(policy) == [5, 10]
        assert policy.state.entries["a"] == {
            "init": (Block((0,), "memory", 2 * GI),),
            "app": (Block((0,), "memory", 3 * GI),),
        }
        assert policy.state.machine[0].number_of_assignments == 2
        started = add_container(policy, one, "app")
        assert gigs(started) == [7, 10]
        assert list(started.state.entries["a"]) == ["app"]

    def test_the_order_of_the_nodes_in_a_block_of_the_file_does_not_matter(self) -> None:
        one = pod("a", container("app", "6Gi"), init=(container("init", "6Gi"),))
        policy = allocate(node(4, 4), one, "init", on(0, 1)).policy
        (block,) = policy.state.entries["a"]["init"]
        turned = {"a": {"init": (structs.replace(block, numa_affinity=(1, 0)),)}}
        policy = structs.replace(policy, state=structs.replace(policy.state, entries=turned))
        shrunk = allocate(policy, one, "app", on(0, 1)).policy.state.entries["a"]["init"]
        assert [block.size for block in shrunk] == [0]

    def test_a_sidecar_keeps_its_memory(self) -> None:
        one = pod("a", container("app", "3Gi"), init=(container("side", "5Gi", sidecar=True),))
        policy = add_container(admit(node(10, 10), one), one, "app")
        assert gigs(policy) == [2, 10]
        assert list(policy.state.entries["a"]) == ["side", "app"]

    def test_before_1_32_a_sidecar_was_taken_for_an_ordinary_init_container(self) -> None:
        one = pod("a", container("app", "3Gi"), init=(container("side", "5Gi", sidecar=True),))
        policy = node(10)
        for name in ("side", "app"):
            policy = allocate(policy, one, name, on(0), OLD).policy
        assert gigs(policy) == [5]
        assert gigs(add_container(policy, one, "app", OLD)) == [7]

    def test_what_another_pod_left_is_forgotten(self) -> None:
        one = pod("a", container("app", "3Gi"), init=(container("init", "5Gi"),))
        policy = allocate(node(20), one, "init", on(0)).policy
        policy = admit(policy, pod("b", container("app", "1Gi")))
        assert "a" not in policy.reusable
        assert gigs(allocate(policy, one, "app", on(0)).policy) == [11]

    def test_a_hint_may_count_on_reused_memory_that_the_check_for_extension_does_not(self) -> None:
        one = pod("a", container("app", "8Gi"), init=(container("init", "8Gi"),))
        policy = allocate(node(10, 10), one, "init", on(0)).policy
        assert short(container_hints(policy, one, "app")) == ["0!", "1!"]
        done = allocate(policy, one, "app", on(0))
        assert (done.affinity, gigs(done.policy)) == (NodeSet.of(0), [2, 10])

    def test_reuse_is_lost_with_a_restart(self) -> None:
        one = pod("a", container("app", "8Gi"), init=(container("init", "8Gi"),))
        policy = allocate(node(10, 10), one, "init", on(0)).policy
        assert short(container_hints(MemoryPolicy(policy.state), one, "app")) == ["1!"]

    def test_only_init_containers_before_the_new_one_hand_memory_on(self) -> None:
        one = pod("a", container("app"), init=(container("i", "2Gi"), container("j", "3Gi")))
        policy = allocate(node(20), one, "j", on(0)).policy
        policy = allocate(policy, one, "i", on(0)).policy
        assert [held[0].size // GI for held in policy.state.entries["a"].values()] == [3, 2]

    def test_a_starting_init_container_ends_only_those_before_it(self) -> None:
        one = pod("a", container("app"), init=(container("i", "2Gi"), container("j", "3Gi")))
        policy = node(20)
        for name in ("i", "j"):
            policy = allocate(MemoryPolicy(policy.state), one, name, on(0)).policy
        assert list(add_container(policy, one, "i").state.entries["a"]) == ["i", "j"]
        assert list(add_container(policy, one, "j").state.entries["a"]) == ["j"]


class TestRelease:
    def test_an_unknown_container_is_no_error(self) -> None:
        assert remove_container(node(10), "ghost", "app") == node(10)

    def test_the_last_container_takes_the_pod_with_it(self) -> None:
        two = pod("a", container("x"), container("y"))
        policy = remove_container(admit(node(10), two), "a", "x")
        assert list(policy.state.entries) == ["a"]
        assert remove_container(policy, "a", "y").state == node(10).state

    def test_stale_pods_and_containers_go_and_active_ones_stay(self) -> None:
        two = pod("a", container("x"), container("y"))
        policy = admit(admit(node(10), two), pod("b", container("app", "2Gi")))
        policy = remove_stale_state(policy, {"a": pod("a", container("y"))})
        assert {uid: list(held) for uid, held in policy.state.entries.items()} == {"a": ["y"]}
        assert gigs(policy) == [9]

    def test_cpuset_mems_lists_the_nodes_one_by_one(self) -> None:
        policy = admit(node(10, 10, 10), pod("a", container("app", "25Gi")))
        assert cpuset_mems(memory_nodes(policy.state, "a", "app")) == "0,1,2"
        assert cpuset_mems(memory_nodes(policy.state, "ghost", "app")) == ""


class TestPodLevel:
    def test_the_pod_is_charged_once_and_divided(self) -> None:
        one = pod("a", container("own", "1Gi"), bare("x"), bare("y"), resources={"cpu": "4", "memory": "4Gi"})
        done = allocate_pod(node(10, 10), one, on(1), POD_LEVEL)
        assert gigs(done.policy) == [10, 6]
        assert done.policy.state.pod_entries == {"a": (Block((1,), "memory", 4 * GI),)}
        assert {name: held[0].size // GI for name, held in done.policy.state.entries["a"].items()} == {
            "own": 1,
            "x": 3,
            "y": 3,
        }
        assert done.policy.state.machine[1].number_of_assignments == 1
        policy = done.policy
        for name in ("own", "x"):
            policy = remove_container(policy, "a", name)
            assert gigs(policy) == [10, 6]
        assert remove_container(policy, "a", "y").state == node(10, 10).state

    def test_init_containers_may_use_what_sidecars_leave(self) -> None:
        one = pod(
            "a",
            container("app", "1Gi"),
            init=(
                container("side", "1Gi", sidecar=True),
                bare("setup"),
                structs.replace(bare("log"), restarts_always=True),
            ),
            resources={"cpu": "4", "memory": "4Gi"},
        )
        entries = allocate_pod(node(10), one, on(0), POD_LEVEL).policy.state.entries["a"]
        assert {name: held[0].size // GI for name, held in entries.items()} == {
            "side": 1,
            "setup": 3,
            "log": 2,
            "app": 1,
        }

    def test_nothing_left_for_shared_containers_is_refused(self) -> None:
        one = pod("a", container("own", "4Gi"), bare("x"), resources={"cpu": "4", "memory": "4Gi"})
        assert pod_hints(node(10), one, POD_LEVEL) == {"memory": []}
        with pytest.raises(AdmissionError) as refusal:
            allocate_pod(node(10), one, on(0), POD_LEVEL)
        assert refusal.value.reason == "EmptyPodSharedPoolError"
        assert refusal.value.message == (
            "pod rejected, sum of exclusive container memory requests equals pod budget, "
            "leaving no memory for shared containers"
        )

    def test_nothing_left_for_an_init_container_is_refused(self) -> None:
        one = pod(
            "a",
            container("app", "1Gi"),
            init=(container("side", "4Gi", sidecar=True), bare("setup")),
            resources={"cpu": "4", "memory": "4Gi"},
        )
        with pytest.raises(AdmissionError, match="shared init containers but no memory available for them"):
            allocate_pod(node(10), one, on(0), POD_LEVEL)

    def test_the_pods_own_request_makes_the_hints(self) -> None:
        one = pod("a", bare("x"), resources={"cpu": "4", "memory": "15Gi"})
        assert short(pod_hints(node(10, 10), one, POD_LEVEL)) == ["0-1!"]
        assert pod_hints(node(10, 10), one, LATEST_FEATURES) is None
