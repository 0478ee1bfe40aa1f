"""What the static CPU Manager gives and takes back. Recorded = seen with a real kubelet (1.36.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubelets.cpu_machines import EIGHT_CORES, GUEST, cpus_of, regular_machines
from numaudit.containermanager.cpu.allocation import RefusedWithState, allocate, allocate_pod, remove, remove_stale
from numaudit.containermanager.cpu.allocation import cpus_of as cpus_to_run_on
from numaudit.containermanager.cpu.hints import CPUContainer, CPUPod
from numaudit.containermanager.cpu.start import start
from numaudit.containermanager.cpu.topology import CPUOptions, CPUPolicy, CPUState, CPUTopology
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.errors import InputError
from numaudit.topology.nodeset import CpuSet, NodeSet

POLICY = CPUPolicy(GUEST, reserved=CpuSet.of(0))
FRESH = CPUState(GUEST.cpus)


def app(count: int, uid: str = "uid") -> CPUPod:
    return CPUPod(uid, (CPUContainer("app", count),))


def with_init(init: int, later: int, *, restartable: bool = False) -> CPUPod:
    first = CPUContainer("init", init, init=True, restartable=restartable)
    return CPUPod("uid", (first, CPUContainer("app", later)))


def test_without_a_hint_the_fullest_node_is_filled_up() -> None:
    assert allocate(POLICY, FRESH, app(2), "app", None).entries["uid"]["app"] == CpuSet.of(2, 3)
    state = CPUState(CpuSet.parse("0-2,4-7"))
    assert allocate(POLICY, state, app(1), "app", None).entries["uid"]["app"] == CpuSet.of(1)


def test_near_cpus_are_taken_first_and_the_rest_elsewhere() -> None:
    state = CPUState(CpuSet.parse("0-4,6-7"))
    assert allocate(POLICY, state, app(3), "app", NodeSet.of(2)).entries["uid"]["app"] == CpuSet.of(2, 3, 4)


def test_near_is_the_whole_socket_with_align_by_socket() -> None:
    socket = CPUPolicy(EIGHT_CORES, CpuSet.of(0), CPUOptions(align_by_socket=True))
    plain = CPUPolicy(EIGHT_CORES, CpuSet.of(0))
    state = CPUState(CpuSet.parse("0-1,5-7,13-15"))
    assert allocate(plain, state, app(3), "app", NodeSet.of(2)).entries["uid"]["app"] == CpuSet.of(1, 5, 13)
    assert allocate(socket, state, app(3), "app", NodeSet.of(2)).entries["uid"]["app"] == CpuSet.of(5, 6, 13)


def test_without_whole_cpus_nothing_changes() -> None:
    assert allocate(POLICY, FRESH, app(0), "app", NodeSet.of(0)) is FRESH
    unmanaged = CPUPod("uid", (CPUContainer("app", 1),), managed=False)
    assert allocate(POLICY, FRESH, unmanaged, "app", NodeSet.of(0)) is FRESH


def test_what_does_not_fit_is_an_unexpected_admission_error() -> None:
    with pytest.raises(AdmissionError) as caught:
        allocate(POLICY, CPUState(CpuSet.parse("0,7")), app(2), "app", NodeSet.of(3))
    assert caught.value.reason == "UnexpectedAdmissionError"
    assert caught.value.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=1, available=0, "
        "which is unexpected"
    )


def test_recorded_an_app_takes_over_the_cpu_of_its_init_container() -> None:
    pod = with_init(1, 1)
    state = allocate(POLICY, FRESH, pod, "init", NodeSet.of(2))
    assert state.reusable == {"uid": CpuSet.of(4)}
    state = allocate(POLICY, state, pod, "app", NodeSet.of(2))
    assert state.entries["uid"] == {"init": CpuSet.of(4), "app": CpuSet.of(4)}
    assert state.default_cpus == GUEST.cpus - CpuSet.of(4)
    assert state.reusable == {"uid": CpuSet()}


def test_recorded_an_app_runs_beside_its_sidecar() -> None:
    pod = with_init(1, 1, restartable=True)
    state = allocate(POLICY, FRESH, pod, "init", NodeSet.of(3))
    state = allocate(POLICY, state, pod, "app", NodeSet.of(3))
    assert state.entries["uid"] == {"init": CpuSet.of(6), "app": CpuSet.of(7)}


def test_another_pod_ends_what_was_reusable() -> None:
    state = allocate(POLICY, FRESH, with_init(1, 1), "init", NodeSet.of(2))
    state = allocate(POLICY, state, app(1, "other"), "app", NodeSet.of(3))
    assert "uid" not in state.reusable
    state = allocate(POLICY, state, with_init(1, 1), "app", NodeSet.of(2))
    assert state.entries["uid"]["app"] == CpuSet.of(5)


def test_a_container_admitted_again_keeps_its_cpus() -> None:
    state = allocate(POLICY, FRESH, app(1), "app", NodeSet.of(2))
    again = allocate(POLICY, state, app(1), "app", NodeSet.of(1))
    assert again.entries == state.entries
    assert again.default_cpus == state.default_cpus


# Whole cores

FULL = CPUPolicy(EIGHT_CORES, CpuSet.of(0), CPUOptions(full_pcpus_only=True))


def smt_error(policy: CPUPolicy, state: CPUState, count: int) -> str:
    with pytest.raises(AdmissionError) as caught:
        allocate(policy, state, app(count), "app", None)
    assert caught.value.reason == "SMTAlignmentError"
    assert caught.value.message == str(caught.value)
    return caught.value.message


def test_half_a_core_is_refused() -> None:
    everything = CPUState(EIGHT_CORES.cpus)
    assert smt_error(FULL, everything, 3) == ("SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2")
    assert allocate(FULL, everything, app(2), "app", None).entries["uid"]["app"] == CpuSet.of(1, 9)


def test_the_cores_of_reserved_cpus_are_not_free() -> None:
    assert smt_error(FULL, CPUState(CpuSet.of(0, 8, 1, 9)), 4) == (
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, "
        "requested CPUs = 4, CPUs per core = 2"
    )


def test_no_free_core_at_all_had_another_message_before_1_32() -> None:
    old = CPUPolicy(EIGHT_CORES, CpuSet.of(0), CPUOptions(full_pcpus_only=True), version=(1, 28))
    nothing = CPUState(CpuSet.of(0, 8))
    assert smt_error(old, nothing, 2) == "SMT Alignment Error: requested 2 cpus not multiple cpus per core = 2"
    assert "available physical CPUs = 0" in smt_error(FULL, nothing, 2)


def test_1_23_does_not_count_free_physical_cpus() -> None:
    reserved = CPUPolicy(EIGHT_CORES, CpuSet.of(0), FULL.options, version=(1, 23))
    state = CPUState(CpuSet.of(0, 2, 8, 10))
    assert "available physical CPUs = 2" in smt_error(FULL, state, 4)
    with pytest.raises(AdmissionError, match="not enough cpus available"):
        allocate(reserved, state, app(4), "app", None)
    assert allocate(reserved, CPUState(CpuSet.of(0, 8, 2)), app(2), "app", None).entries["uid"]["app"] == CpuSet.of(
        2, 8
    )


def test_a_running_pod_can_be_refused_when_it_is_admitted_again() -> None:
    """The check for whole cores comes before the check of what is held (kubernetes/kubernetes#129078)."""
    state = CPUState(CpuSet.of(0, 8), {"uid": {"app": CpuSet.of(1, 9)}})
    assert "not enough free physical CPUs" in smt_error(FULL, state, 2)


def test_cpus_are_distributed_in_whole_cores_with_both_options() -> None:
    both = CPUOptions(full_pcpus_only=True, distribute_cpus_across_numa=True)
    state = CPUState(EIGHT_CORES.cpus - CpuSet.of(0, 8))
    policy = CPUPolicy(EIGHT_CORES, CpuSet.of(0), both)
    assert str(allocate(policy, state, app(6), "app", None).entries["uid"]["app"]) == "2-4,10-12"


# Pod-level resources


def test_init_containers_use_what_sidecars_leave() -> None:
    pod = CPUPod(
        "uid",
        (
            CPUContainer("first", 0, init=True),
            CPUContainer("side", 1, init=True, restartable=True),
            CPUContainer("second", 0, init=True),
            CPUContainer("third", 2, init=True),
            CPUContainer("shared-side", 0, init=True, restartable=True),
            CPUContainer("own", 1),
            CPUContainer("shared", 0),
        ),
        pod_level=4,
    )
    state = allocate_pod(POLICY, FRESH, pod, NodeSet.of(1, 2))
    held = {name: str(cpus) for name, cpus in state.entries["uid"].items()}
    assert held == {
        "first": "2-5",
        "side": "2",
        "second": "3-5",
        "third": "4-5",
        "shared-side": "4-5",
        "own": "3",
        "shared": "4-5",
    }


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        (
            (
                CPUContainer("side", 2, init=True, restartable=True),
                CPUContainer("init", 0, init=True),
                CPUContainer("app", 0),
            ),
            "pod rejected, pod has shared init containers but no cpus available for them",
        ),
        (
            (CPUContainer("own", 2), CPUContainer("shared", 0)),
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers",
        ),
    ],
)
def test_a_shared_container_needs_something_to_share(containers: tuple[CPUContainer, ...], message: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        allocate_pod(POLICY, FRESH, CPUPod("uid", containers, pod_level=2), None)
    assert caught.value.reason == "EmptyPodSharedPoolError"
    assert caught.value.message == message


def test_a_pods_cpus_come_back_with_its_last_container() -> None:
    pod = CPUPod("uid", (CPUContainer("pinned", 1), CPUContainer("shared", 0)), pod_level=2)
    state = allocate_pod(POLICY, FRESH, pod, NodeSet.of(1))
    one_left = remove(state, "uid", "pinned")
    assert one_left.default_cpus == state.default_cpus
    assert one_left.pod_entries == state.pod_entries
    assert remove(one_left, "uid", "shared") == FRESH


def test_1_37_leaves_a_pod_that_is_admitted_again_its_cpus() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 0),), pod_level=2)
    policy = replace(POLICY, version=(1, 37))
    state = allocate_pod(policy, FRESH, pod, NodeSet.of(1))
    assert allocate_pod(policy, state, pod, NodeSet.of(2)) == state


def test_1_36_gives_a_pod_that_is_admitted_again_other_cpus_and_loses_the_first() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 0),), pod_level=2)
    policy = replace(POLICY, version=(1, 36))
    first = allocate_pod(policy, FRESH, pod, NodeSet.of(1))
    again = allocate_pod(policy, first, pod, NodeSet.of(2))
    assert (str(first.pod_entries["uid"]), str(again.pod_entries["uid"])) == ("2-3", "4-5")
    assert again.entries == {"uid": {"a": CpuSet.of(4, 5)}}
    with pytest.raises(InputError, match='CPUs "0-7" doesn\'t match with CPUs in state "0-1,4-7"'):
        start(policy, again)


def test_cpus_of_a_pod_whose_container_wants_more_stay_taken() -> None:
    pod = CPUPod("uid", (CPUContainer("a", 3),), pod_level=2)
    with pytest.raises(RefusedWithState, match="not enough cpus available") as caught:
        allocate_pod(POLICY, FRESH, pod, NodeSet.of(1))
    assert caught.value.state.default_cpus == GUEST.cpus - CpuSet.of(2, 3)
    assert caught.value.state.pod_entries == {"uid": CpuSet.of(2, 3)}
    assert remove_stale(caught.value.state, {}) == caught.value.state


# Taking back


def test_1_23_frees_cpus_that_another_container_of_the_pod_holds() -> None:
    state = CPUState(CpuSet.parse("0-3,6-7"), {"uid": {"init": CpuSet.of(4, 5), "app": CpuSet.of(5)}})
    state = remove(state, "uid", "init", version=(1, 23))
    assert (state.default_cpus, state.entries) == (GUEST.cpus, {"uid": {"app": CpuSet.of(5)}})


def test_cpus_that_another_container_of_the_pod_holds_stay_with_it() -> None:
    state = CPUState(CpuSet.parse("0-3,6-7"), {"uid": {"init": CpuSet.of(4, 5), "app": CpuSet.of(5)}})
    state = remove(state, "uid", "init")
    assert state.default_cpus == GUEST.cpus - CpuSet.of(5)
    assert remove(state, "uid", "app") == FRESH


def test_an_unknown_container_changes_nothing() -> None:
    assert remove(FRESH, "uid", "app") is FRESH


def test_what_no_active_pod_has_is_taken_back() -> None:
    entries = {"gone": {"a": CpuSet.of(1)}, "here": {"a": CpuSet.of(2), "old": CpuSet.of(3)}}
    state = remove_stale(CPUState(CpuSet.parse("0,4-7"), entries), {"here": ["a"]})
    assert state == CPUState(CpuSet.parse("0-1,3-7"), {"here": {"a": CpuSet.of(2)}})


def test_other_containers_run_on_the_shared_pool_as_it_is_now() -> None:
    state = allocate(POLICY, FRESH, app(1), "app", NodeSet.of(3))
    assert cpus_to_run_on(state, "uid", "app") == CpuSet.of(6)
    assert cpus_to_run_on(state, "other", "app") == GUEST.cpus - CpuSet.of(6)


@given(topology=regular_machines(), data=st.data())
def test_admitting_and_removing_in_any_order_gives_every_cpu_back(topology: CPUTopology, data: st.DataObject) -> None:
    reserved = CpuSet.of(data.draw(st.sampled_from(sorted(topology.cpus))))
    policy = CPUPolicy(topology, reserved)
    state = start(policy)
    for index in range(data.draw(st.integers(1, 6))):
        pod = app(data.draw(st.integers(1, 4)), uid=str(index))
        affinity = data.draw(st.none() | st.sampled_from(list(topology.nodes.subsets())))
        try:
            state = allocate(policy, state, pod, "app", affinity)
        except AdmissionError:
            assert pod.exclusive > len(policy.available(state))
            continue
        held = state.entries[pod.uid]["app"]
        assert len(held) == pod.exclusive
        assert reserved.isdisjoint(held)
        assert start(policy, state).entries == state.entries
    for uid in data.draw(st.permutations(list(state.entries))):
        state = remove(state, uid, "app")
    assert (state.default_cpus, state.entries) == (topology.cpus, {})


@given(data=st.data())
def test_cpus_are_near_the_hint_whenever_there_are_enough(data: st.DataObject) -> None:
    default = data.draw(cpus_of(GUEST)) | CpuSet.of(0)
    affinity = data.draw(st.sampled_from(list(GUEST.nodes.subsets())))
    near = CpuSet.from_ids(cpu for cpu in default - CpuSet.of(0) if cpu // 2 in affinity)
    if near:
        count = data.draw(st.integers(1, len(near)))
        assert allocate(POLICY, CPUState(default), app(count), "app", affinity).entries["uid"]["app"] <= near
