"""What a pod asks for as a whole, and whether the node has it: each pod that came to a real node, and rule by rule."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubelets.cluster_history import Attempt, attempts, configuration
from kubelets.pods import container, pod
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.requests import container_requests, pod_requests
from numaudit.containermanager.pod.spec import Container, Pod
from numaudit.containermanager.predicates import Capacity, amounts, node_requests, shortage
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.errors import InputError
from numaudit.memorymanager.admission import admit
from numaudit.memorymanager.kubelet import read_allocatable
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet

GIB = 1 << 30


def test_every_pod_that_came_to_a_real_node_is_answered_in_the_kubelets_own_words() -> None:
    seen = list(attempts())
    wrong = []
    for one in seen:
        found = admit(one.kubelet, one.state, one.pod).rejection
        answer = None if found is None else (found.reason, found.message)
        if answer != one.denied:
            wrong.append((one.pod.name, one.denied, answer))
    assert wrong == []
    reasons = [None if one.denied is None else one.denied[0] for one in seen]
    counted = {reason: reasons.count(reason) for reason in set(reasons)}
    assert counted == {None: 23, "OutOfcpu": 11, "TopologyAffinityError": 4, "UnexpectedAdmissionError": 8}


def test_the_nodes_sums_decide_after_the_topology_manager() -> None:
    """n-big-again would have been out of CPUs as well: the kubelet said what its Memory Manager had said."""
    both = [one for one in attempts() if one.denied is not None and one.denied[0] == "UnexpectedAdmissionError"]
    assert any(shortage(one.pod, list(one.state.pods.values()), capacity_of(one)) for one in both)


def test_a_pod_that_the_sums_refuse_holds_its_memory_until_the_next_admission() -> None:
    one = next(one for one in attempts() if one.denied is not None and one.denied[0] == "OutOfcpu")
    after = admit(one.kubelet, one.state, one.pod).state
    assert one.pod.uid in after.memory.state.entries
    assert one.pod.uid not in after.pods
    tiny = replace(one.pod, uid="other", containers=(replace(one.pod.containers[0], name="other"),))
    assert one.pod.uid not in admit(one.kubelet, after, tiny).state.memory.state.entries


def test_a_node_has_for_pods_what_is_not_reserved_and_not_in_huge_pages() -> None:
    machine = _machine(cpus=8, memory=8 * GIB, pages=512)
    config = {
        "systemReserved": {"cpu": "250m", "memory": "100Mi"},
        "kubeReserved": {"cpu": "250m"},
        "evictionHard": {"memory.available": "1Gi", "nodefs.available": "10Gi"},
        "maxPods": 50,
    }
    found = read_allocatable(config, machine, devices={"vendor.example/nic": 2}, storage=100 * GIB)
    assert found == {
        "cpu": 7500,
        "memory": 8 * GIB - (100 << 20) - GIB - GIB,
        "hugepages-2Mi": GIB,
        "ephemeral-storage": 90 * GIB,
        "vendor.example/nic": 2,
        "pods": 50,
    }


def test_reserved_cpus_by_name_take_the_place_of_numbers() -> None:
    machine = _machine(cpus=8, memory=GIB)
    config = {"systemReserved": {"cpu": "3"}, "reservedSystemCPUs": "0-1", "podsPerCore": 10}
    found = read_allocatable(config, machine, devices={})
    assert (found["cpu"], found["pods"]) == (6000, 80)
    assert "ephemeral-storage" not in found
    with pytest.raises(InputError, match="maxPods: must be a number"):
        read_allocatable({"maxPods": "many"}, machine, devices={})


def test_a_pod_asks_for_the_most_it_needs_at_one_time() -> None:
    pod = _pod(
        {"cpu": "100m"},
        init=[{"cpu": "2"}, {"cpu": "250m", "memory": "1Gi", "always": "yes"}, {"cpu": "500m"}],
        overhead={"memory": "64Mi"},
    )
    assert amounts(node_requests(pod)) == {"cpu": 2000, "memory": GIB + (64 << 20)}
    only_sidecar = _pod({"cpu": "100m"}, init=[{"cpu": "250m", "always": "yes"}])
    assert amounts(node_requests(only_sidecar)) == {"cpu": 350}
    old, _ = KubeletFeatures.of("1.28")
    assert amounts(node_requests(only_sidecar, old)) == {"cpu": 250}


def test_amounts_for_the_whole_pod_take_the_place_of_its_containers() -> None:
    pod = read_pod(
        {
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}},
            },
        }
    )
    assert amounts(node_requests(pod)) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("asked", "others", "reason", "message"),
    [
        ({"memory": "2Gi"}, [], "OutOfmemory", f"requested: {2 * GIB}, used: 0, capacity: {GIB}"),
        ({"cpu": "500m"}, [{"cpu": "2600m"}], "OutOfcpu", "requested: 500, used: 2600, capacity: 3000"),
        ({}, [{}, {}, {}], "OutOfpods", "requested: 1, used: 3, capacity: 3"),
        ({"ephemeral-storage": "3Gi"}, [], "OutOfephemeral-storage", f"used: 0, capacity: {GIB}"),
        ({"hugepages-1Gi": "1Gi"}, [], "OutOfhugepages-1Gi", f"requested: {GIB}, used: 0, capacity: 0"),
        ({"a.example/nic": "2"}, [{"a.example/nic": "1"}], "OutOfa.example/nic", "requested: 2, used: 1, capacity: 2"),
    ],
)
def test_each_resource_has_a_refusal_of_its_own(
    asked: dict[str, str], others: list[dict[str, str]], reason: str, message: str
) -> None:
    has = {"cpu": 3000, "memory": GIB, "pods": 3, "ephemeral-storage": GIB, "a.example/nic": 2}
    found = shortage(_pod(asked), [_pod(one) for one in others], Capacity(has))
    assert found is not None
    assert found.reason == reason
    assert message in found.message
    assert found.message.startswith(f"Node didn't have enough resource: {reason.removeprefix('OutOf')}, requested: ")


def test_a_resource_that_the_node_does_not_name_is_not_counted() -> None:
    asked = {"b.example/gpu": "1", "ephemeral-storage": "1Gi", "cpu": "0"}
    assert shortage(_pod(asked), [], Capacity({"cpu": 0, "memory": 0, "pods": 1})) is None


def test_room_is_made_for_a_critical_pod() -> None:
    one = next(one for one in attempts() if one.denied is not None and one.denied[0] == "OutOfcpu")
    assert admit(one.kubelet, one.state, replace(one.pod, is_critical=True)).admitted
    for spec in ({"priorityClassName": "system-node-critical"}, {"priority": 2_000_000_000}):
        assert read_pod({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}], **spec}}).is_critical
    assert not read_pod({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}], "priority": 5}}).is_critical
    static = {"name": "a", "annotations": {"kubernetes.io/config.source": "file"}}
    assert read_pod({"metadata": static, "spec": {"containers": [{"name": "a"}]}}).is_critical


def test_the_sums_of_the_captured_node_are_those_that_its_kubelet_counted_with() -> None:
    one = next(one for one in attempts() if one.denied is not None and one.denied[0] == "OutOfcpu")
    assert one.denied is not None
    assert one.denied[1].endswith(f"capacity: {capacity_of(one).allocatable['cpu']}")
    assert configuration()["maxPods"] == capacity_of(one).allocatable["pods"]


def capacity_of(one: Attempt) -> Capacity:
    assert one.state.capacity is not None
    return one.state.capacity


def _pod(asked: dict[str, str], *, init: list[dict[str, str]] | None = None, **spec: object) -> Pod:
    inits = [
        {
            "name": f"i{index}",
            "restartPolicy": "Always" if one.pop("always", None) else None,
            "resources": {"requests": one},
        }
        for index, one in enumerate(init or [])
    ]
    containers = [{"name": "app", "resources": {"requests": asked}}]
    return read_pod({"metadata": {"name": "a"}, "spec": {"containers": containers, "initContainers": inits, **spec}})


def _machine(*, cpus: int, memory: int, pages: int = 0) -> Machine:
    huge = (HugePages(2 << 20, pages),) if pages else ()
    node = Node(0, cpus=CpuSet.from_ids(range(cpus)), memory=memory, huge_pages=huge)
    found = tuple(Cpu(id_, node=0, socket=0, core=id_, siblings=CpuSet.of(id_), l3_cache=0) for id_ in range(cpus))
    return Machine((node,), found)


GI = 2**30


def of(*apps: str, init: tuple[Container, ...] = ()) -> Pod:
    return pod("u", *(container(f"app{number}", memory) for number, memory in enumerate(apps)), init=init)


def setup(memory: str, name: str = "setup") -> Container:
    return container(name, memory)


def sidecar(memory: str, name: str = "sidecar") -> Container:
    return container(name, memory, sidecar=True)


@pytest.mark.parametrize(
    ("asking", "gib"),
    [
        (of("1Gi"), 1),
        (of("1Gi", "2Gi"), 3),
        (of("1Gi", "2Gi", init=(setup("2Gi"),)), 3),
        (of("1Gi", init=(setup("5Gi"), setup("4Gi", "second"))), 5),
        (of("1Gi", init=(sidecar("2Gi"),)), 3),
        (of("1Gi", "1Gi", init=(sidecar("2Gi"), sidecar("3Gi", "second"))), 7),
        # An init container runs beside the sidecars before it, not beside those after it.
        (of("1Gi", init=(sidecar("2Gi"), setup("4Gi"))), 6),
        (of("1Gi", init=(setup("4Gi"), sidecar("2Gi"))), 4),
        (of("1Gi", init=(sidecar("2Gi"), setup("4Gi"), sidecar("3Gi", "second"))), 6),
    ],
)
def test_a_pod_asks_for_the_most_that_runs_at_one_time(asking: Pod, gib: int) -> None:
    assert pod_requests(asking) == {"memory": gib * GI}


def test_kubelets_before_1_32_take_sidecars_for_ordinary_init_containers() -> None:
    features, _ = KubeletFeatures.of("1.28")
    assert pod_requests(of("1Gi", "1Gi", init=(sidecar("2Gi"), sidecar("3Gi", "second"))), features) == {
        "memory": 3 * GI
    }


def test_what_only_an_init_container_asks_for_is_no_request_of_the_pod() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    asking = pod("u", container("app"), init=(container("setup", more=pages),))
    assert pod_requests(asking) == {"memory": GI}
    asking = pod("u", container("app", more=pages), init=(container("setup", more={"hugepages-2Mi": "8Mi"}),))
    assert pod_requests(asking) == {"memory": GI, "hugepages-2Mi": 8 << 20}


def test_what_is_asked_for_at_pod_level_counts_where_a_kubelet_manages_that() -> None:
    amounts = {"cpu": "4", "memory": "6Gi", "hugepages-2Mi": "0"}
    asking = pod("u", container("app", "1Gi"), resources=amounts)
    managing, _ = KubeletFeatures.of("1.36", {"PodLevelResourceManagers": True})
    assert pod_requests(asking, managing) == {"memory": 6 * GI}
    # Without pod-level resources nothing is asked for at pod level, whatever the kubelet manages.
    assert pod_requests(pod("u", container("app", "1Gi")), managing) == {"memory": GI}


def test_an_amount_beyond_64_bits_is_refused_with_the_kubelets_words() -> None:
    too_much = pod("u", container("app", "9223372036854775808"))
    with pytest.raises(AdmissionError, match="failed to represent quantity as int64"):
        container_requests(too_much, too_much.containers[0])
