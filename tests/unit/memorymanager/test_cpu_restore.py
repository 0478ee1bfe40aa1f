"""CPUs of a pod with pod-level resources when a restarted kubelet admits it again (kubernetes/kubernetes#141041).

Eight CPUs on one node, CPU 0 reserved. The cases marked `kubelet` are those of the kubelet's own table
(policy_static_restore_test.go); the others follow from the rule that these show.
"""

from __future__ import annotations

import pytest

from kubelets.cpu_machines import regular
from numaudit.containermanager.cpu.allocation import RefusedWithState, allocate_pod
from numaudit.containermanager.cpu.hints import CPUContainer, CPUPod, CPUPolicy, hints_for_pod
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.topology.nodeset import CpuSet, NodeSet

TOPOLOGY = regular(sockets=1, nodes=1, cores=8, threads=1)
FIXED = CPUPolicy(TOPOLOGY, CpuSet.of(0), version=(1, 38))
UID = "uid"

Wishes = dict[str, int]
"""Container -> whole CPUs; `i...` are ordinary init containers, `s...` sidecars."""


def a_pod(cpus: int, wishes: Wishes) -> CPUPod:
    containers = (CPUContainer(name, count, name[0] in "is", name[0] == "s") for name, count in wishes.items())
    return CPUPod(UID, tuple(containers), pod_level=cpus)


def stored(default: str, own: str, recorded: dict[str, str]) -> CPUState:
    entries = {name: CpuSet.parse(cpus) for name, cpus in recorded.items()}
    return CPUState(CpuSet.parse(default), {UID: entries} if entries else {}, {UID: CpuSet.parse(own)})


RESTORED = {
    "kubelet: partial": (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2"}), {"c1": "1-2", "c2": "3-4"}),
    "kubelet: a shared one is missing": (
        3,
        {"c1": 2, "c2": 0},
        ("0,4-7", "1-3", {"c1": "1-2"}),
        {"c1": "1-2", "c2": "3"},
    ),
    "kubelet: an app reuses a restored init container": (
        2,
        {"i1": 2, "c1": 2},
        ("0,3-7", "1-2", {"i1": "1-2"}),
        {"i1": "1-2", "c1": "1-2"},
    ),
    "kubelet: two sidecars": (
        6,
        {"s1": 2, "s2": 2, "c1": 2},
        ("0,7", "1-6", {"s1": "1-2"}),
        {"s1": "1-2", "s2": "3-4", "c1": "5-6"},
    ),
    "kubelet: a hole among apps": (
        4,
        {"c1": 2, "c2": 2},
        ("0,5-7", "1-4", {"c2": "2,4"}),
        {"c1": "1-2", "c2": "3-4"},
    ),
    "whole, in another order": (
        4,
        {"c1": 2, "c2": 2},
        ("0,5-7", "1-4", {"c1": "3-4", "c2": "1-2"}),
        {"c1": "3-4", "c2": "1-2"},
    ),
    "whole, with a shared one": (
        3,
        {"c1": 2, "c2": 0},
        ("0,4-7", "1-3", {"c1": "2-3", "c2": "1"}),
        {"c1": "2-3", "c2": "1"},
    ),
    "nothing recorded": (4, {"c1": 2, "c2": 2}, ("0-3", "4-7", {}), {"c1": "4-5", "c2": "6-7"}),
    "a sidecar's are not reused": (
        4,
        {"s1": 2, "c1": 2},
        ("0,5-7", "1-4", {"s1": "3-4"}),
        {"s1": "3-4", "c1": "1-2"},
    ),
    "a hole among sidecars": (
        6,
        {"s1": 2, "s2": 2, "c1": 2},
        ("0,7", "1-6", {"s2": "1-2"}),
        {"s1": "1-2", "s2": "3-4", "c1": "5-6"},
    ),
    "the later one has what the order gives": (
        4,
        {"c1": 2, "c2": 2},
        ("0-3", "4-7", {"c2": "6-7"}),
        {"c1": "4-5", "c2": "6-7"},
    ),
    "an ended init container is missing": (
        2,
        {"i1": 2, "c1": 2},
        ("0-5", "6-7", {"c1": "6-7"}),
        {"i1": "6-7", "c1": "6-7"},
    ),
}


@pytest.mark.parametrize("case", RESTORED)
def test_a_pod_keeps_its_cpus_and_missing_containers_are_given_theirs_of_them(case: str) -> None:
    cpus, wishes, before, then = RESTORED[case]
    state = allocate_pod(FIXED, stored(*before), a_pod(cpus, wishes), NodeSet.of(0))
    assert {name: str(own) for name, own in state.entries[UID].items()} == then
    is_made_afresh = "a hole" in case
    assert str(state.pod_entries[UID]) == (f"1-{cpus}" if is_made_afresh else before[1])
    assert state.default_cpus | state.pod_entries[UID] == TOPOLOGY.cpus
    assert not state.default_cpus & state.pod_entries[UID]


def test_a_record_with_a_hole_is_made_afresh_of_all_free_cpus() -> None:
    state = allocate_pod(FIXED, stored("0-3", "4-7", {"c2": "4,6"}), a_pod(4, {"c1": 2, "c2": 2}), NodeSet.of(0))
    assert {name: str(own) for name, own in state.entries[UID].items()} == {"c1": "1-2", "c2": "3-4"}
    assert (str(state.pod_entries[UID]), str(state.default_cpus)) == ("1-4", "0,5-7")


def test_a_set_that_is_too_small_is_refused_and_released() -> None:
    """Of the kubelet's own table."""
    with pytest.raises(RefusedWithState, match="CPUs 1-2, fewer than the 4") as refused:
        allocate_pod(FIXED, stored("0,3-7", "1-2", {"c1": "1-2"}), a_pod(4, {"c1": 2, "c2": 2}), NodeSet.of(0))
    assert refused.value.state == CPUState(CpuSet.parse("0-7"))


NEAR = {"cpu": [TopologyHint(NodeSet.of(0), preferred=True)]}


@pytest.mark.parametrize(
    ("cpus", "wishes", "before", "hints"),
    [
        (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2", "c2": "3-4"}), NEAR),
        (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2"}), NEAR),
        (3, {"c1": 2, "c2": 0}, ("0,4-7", "1-3", {"c1": "1-2", "c2": "3"}), NEAR),
        (7, {"c1": 7}, ("0", "1-7", {"c1": "1-7"}), NEAR),
        (4, {"c1": 2, "c2": 2}, ("0,3-7", "1-2", {"c1": "1-2"}), {"cpu": []}),
    ],
    ids=("whole", "partial", "shared", "all that there are", "too small"),
)
def test_hints_come_of_the_pods_own_set(
    cpus: int, wishes: Wishes, before: tuple[str, str, dict[str, str]], hints: object
) -> None:
    assert hints_for_pod(FIXED, stored(*before), a_pod(cpus, wishes)) == hints


def test_1_36_offers_no_node_to_a_pod_with_a_container_that_has_a_share_of_its_cpus() -> None:
    old = CPUPolicy(TOPOLOGY, CpuSet.of(0), version=(1, 36))
    state = stored("0,4-7", "1-3", {"c1": "1-2", "c2": "3"})
    assert hints_for_pod(old, state, a_pod(3, {"c1": 2, "c2": 0})) == {"cpu": []}
