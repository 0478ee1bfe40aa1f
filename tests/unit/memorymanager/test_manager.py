"""Admissions over all scopes and policies: reasons, messages, outcomes, what stays and what is released."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubelets.pods import bare, container, pod
from kubelets.recorded import read_machine
from numaudit.containermanager.device.hints import Device, DeviceState
from numaudit.containermanager.memory.static_policy import (
    GROUP_VIOLATION,
    NO_DEFAULT,
    NO_EXTENSION,
    NO_PREFERRED_DEFAULT,
    NO_PREFERRED_EXTENSION,
)
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.errors import InputError
from numaudit.memorymanager.admission import Admission, NodeState, admit, reconcile, remove
from numaudit.memorymanager.kubelet import Kubelet, NotModelled, read_kubelet
from numaudit.memorymanager.manager import StartRefused, fresh_state, restart, start
from numaudit.memorymanager.outcome import AdmissionOutcome, outcome_of_refusal
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GI = 2**30
TWO_CPUS_A_NODE = tuple(Cpu(i, node=i // 2, socket=0, core=i, siblings=CpuSet.of(i), l3_cache=0) for i in range(8))


def machine(*sizes: int) -> Machine:
    """Nodes of these GiB with two CPUs each."""
    nodes = tuple(Node(i, cpus=CpuSet.of(2 * i, 2 * i + 1), memory=size * GI) for i, size in enumerate(sizes))
    return Machine(nodes, TWO_CPUS_A_NODE[: 2 * len(sizes)])


def kubelet(
    on: Machine | None = None,
    policy: str = "best-effort",
    scope: str = "container",
    *,
    cpus: bool = False,
    version: str = "1.36",
    **more: object,
) -> Kubelet:
    """A kubelet that reserves 1 GiB on node 0, by default of four nodes of 11, 10, 10 and 10 GiB."""
    configuration = {
        "memoryManagerPolicy": "Static",
        "cpuManagerPolicy": "static" if cpus else "none",
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
        "kubeReserved": {"memory": "924Mi", "cpu": "1"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        **more,
    }
    return read_kubelet(configuration, on or machine(11, 10, 10, 10), kubernetes_version=version)[0]


def run(node: Kubelet, *pods: Pod) -> list[Admission]:
    state = fresh_state(node)
    admissions: list[Admission] = []
    for one in pods:
        admissions.append(admit(node, state, one))
        state = admissions[-1].state
    return admissions


def outcomes(admissions: list[Admission]) -> list[str]:
    """Per pod: the outcome of its last container, or of the refusal."""
    return [one.rejection.outcome if one.rejection else one.placements[-1].outcome for one in admissions]


def why(admission: Admission) -> tuple[str, str]:
    assert admission.rejection is not None
    return admission.rejection.reason, admission.rejection.message


def free(state: NodeState) -> list[int]:
    return [one.memory_map["memory"].free // GI for one in state.memory.state.machine.values()]


class TestOutcomes:
    def test_policy_none_leaves_the_choice_to_the_memory_manager(self) -> None:
        (done,) = run(kubelet(policy="none"), pod("a", container("app", "5Gi")))
        assert done.decisions == ()
        assert done.placements[0].hint == TopologyHint(None, preferred=False)
        assert outcomes([done]) == [AdmissionOutcome.DEFAULT_HINT]

    def test_pods_that_are_not_guaranteed_are_not_managed(self) -> None:
        admissions = run(
            kubelet(policy="single-numa-node"), pod("a", bare("app")), pod("b", container("app", limit="2Gi"))
        )
        assert outcomes(admissions) == [AdmissionOutcome.NOT_MANAGED] * 2
        assert admissions[0].decisions[0].merged == TopologyHint(None, preferred=True)

    def test_memory_manager_policy_none_manages_nothing(self) -> None:
        node = kubelet(memoryManagerPolicy="None")
        (done,) = run(node, pod("a", container("app", "5Gi")))
        assert outcomes([done]) == [AdmissionOutcome.NOT_MANAGED]
        assert done.state.memory.state.machine == {}

    def test_a_hint_of_the_cpu_manager_may_be_extended(self) -> None:
        """The CPU Manager prefers one node, the memory needs two, and best-effort takes a hint of one node."""
        full = pod("a", container("app", "9Gi", cpu="500m"))
        admissions = run(kubelet(machine(3, 3, 3), cpus=True), pod("b", container("app", "5Gi", cpu="1")))
        assert outcomes(admissions) == [AdmissionOutcome.DEGRADED]
        assert admissions[0].placements[0].memory_nodes == NodeSet.of(0, 1)
        assert outcomes(run(kubelet(machine(3, 3, 3), cpus=True), full)) == [AdmissionOutcome.REJECTED_CAPACITY]

    def test_a_hint_that_other_providers_narrow_is_extended(self) -> None:
        devices = DeviceState({"vendor.example/nic": {"n0": Device("n0", NodeSet.of(1))}})
        node = kubelet(machine(11, 10))
        asking = pod("a", container("app", "15Gi", more={"vendor.example/nic": "1"}))
        done = admit(node, fresh_state(node, devices), asking)
        assert done.decisions[0].merged == TopologyHint(NodeSet.of(1), preferred=False)
        assert outcomes([done]) == [AdmissionOutcome.EXTENDED]
        assert done.placements[0].memory_nodes == NodeSet.of(0, 1)


class TestRefusals:
    def test_memory_that_only_the_rule_of_groups_forbids_has_the_kubelets_name_and_the_rule_beside_it(self) -> None:
        """KAI-Scheduler#2013: a small pod sits alone on node 0, and a wide pod finds no nodes."""
        node = kubelet(machine(11, 10))
        gpus = DeviceState({"vendor.example/gpu": {f"g{i}": Device(f"g{i}", NodeSet.of(i)) for i in (0, 1)}})
        one_gpu = {"vendor.example/gpu": "1"}
        small = admit(node, fresh_state(node, gpus), pod("small", container("app", "1Gi", more=one_gpu)))
        wide = admit(node, small.state, pod("wide", container("app", "15Gi", more=one_gpu)))
        assert "failed to find NUMA nodes to extend the current topology hint" in why(wide)[1]
        assert outcomes([small, wide]) == [AdmissionOutcome.ALIGNED_SINGLE, AdmissionOutcome.REJECTED_CAPACITY]
        assert wide.rejection is not None
        assert wide.rejection.detail == (
            "nodes 0-1 together have the memory, but containers use node 0 alone or in another group"
        )
        alone = admit(node, fresh_state(node, gpus), pod("wide", container("app", "15Gi", more=one_gpu)))
        assert alone.admitted

    @pytest.mark.parametrize(("version", "after_a_pass"), [("1.28", "0,2-5"), ("1.32", "0-5")])
    def test_1_28_keeps_the_cpus_of_a_refused_pod_until_the_next_admission(
        self, version: str, after_a_pass: str
    ) -> None:
        node = kubelet(machine(11, 3, 3), cpus=True, version=version)
        (refused,) = run(node, pod("a", container("app", "99Gi", cpu="1")))
        assert refused.rejection is not None
        state = reconcile(refused.state)
        assert state.cpu is not None
        assert str(state.cpu.default_cpus) == after_a_pass
        state = admit(node, state, pod("b", bare("app"))).state
        assert state.cpu is not None
        later = reconcile(state)
        assert later.cpu is not None
        assert str(later.cpu.default_cpus) == "0-5"

    def test_a_container_that_wants_more_cpus_than_its_pod_leaks_those_of_the_pod(self) -> None:
        node = kubelet(cpus=True, scope="pod", featureGates={"PodLevelResourceManagers": True})
        asking = pod("a", container("app", "1Gi", cpu="3"), resources={"cpu": "2", "memory": "1Gi"})
        done = admit(node, fresh_state(node), asking)
        assert why(done)[0] == "UnexpectedAdmissionError"
        later = reconcile(done.state)
        assert later.cpu is not None
        assert len(later.cpu.pod_entries["a"]) == 2
        assert len(later.cpu.default_cpus) == 6

    def test_a_single_node_of_a_group_is_given_away_when_other_providers_insist(self) -> None:
        """The rule of disjoint groups covers sets of two and more nodes only, so this group is broken up."""
        nics = {"n1": Device("n1", NodeSet.of(1))}
        node = kubelet(machine(11, 10, 10))
        state = fresh_state(node, DeviceState({"vendor.example/nic": nics}))
        state = admit(node, state, pod("a", container("app", "15Gi"))).state
        done = admit(node, state, pod("b", container("app", "5Gi", more={"vendor.example/nic": "1"})))
        assert outcomes([done]) == [AdmissionOutcome.DEGRADED]
        assert [one.cells for one in done.state.memory.state.machine.values()] == [(0, 1), (1,), (2,)]

    @pytest.mark.parametrize(
        ("text", "outcome"),
        [
            (NO_DEFAULT, AdmissionOutcome.REJECTED_CAPACITY),
            (NO_EXTENSION, AdmissionOutcome.REJECTED_CAPACITY),
            (GROUP_VIOLATION, AdmissionOutcome.REJECTED_GROUP_RULE),
            (NO_PREFERRED_DEFAULT, AdmissionOutcome.REJECTED_PREFERRED_EXTENSION),
            (NO_PREFERRED_EXTENSION, AdmissionOutcome.REJECTED_PREFERRED_EXTENSION),
            ("not enough cpus available to satisfy request", AdmissionOutcome.REJECTED_OTHER),
        ],
    )
    def test_a_refusal_in_allocate_has_an_outcome_by_its_text(self, text: str, outcome: AdmissionOutcome) -> None:
        assert outcome_of_refusal(AdmissionError(text)) is outcome


class TestScopes:
    def test_pod_scope_gives_all_containers_the_nodes_of_their_sum(self) -> None:
        two = pod("a", container("x", "6Gi"), container("y", "6Gi"))
        (by_container,) = run(kubelet(), two)
        assert [str(one.memory_nodes) for one in by_container.placements] == ["0", "1"]
        (by_pod,) = run(kubelet(scope="pod"), two)
        assert [str(one.memory_nodes) for one in by_pod.placements] == ["0-1", "0-1"]
        assert len(by_pod.decisions) == 1
        assert by_pod.decisions[0].container is None

    def test_pod_level_resources_are_refused_with_words_of_their_own(self) -> None:
        gates = {"PodLevelResourceManagers": True}
        own = pod("a", container("app", "15Gi"), resources={"cpu": "2", "memory": "15Gi"})
        (in_pod_scope,) = run(kubelet(policy="single-numa-node", scope="pod", featureGates=gates), own)
        assert why(in_pod_scope)[1] == (
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
        )
        (in_container_scope,) = run(kubelet(policy="single-numa-node", featureGates=gates), own)
        assert why(in_container_scope)[1] == (
            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
        )

    def test_best_effort_as_recorded_on_four_nodes(self) -> None:
        """1 CPU and 200Mi; then 3 CPUs and 64Mi; then 1 CPU and 1400Mi, on nodes of about 1 GiB."""
        reserved = [{"numaNode": 0, "limits": {"memory": "200Mi"}}, {"numaNode": 1, "limits": {"memory": "100Mi"}}]
        node = kubelet(
            read_machine("standalone-restricted"),
            cpus=True,
            kubeReserved={"cpu": "500m", "memory": "200Mi"},
            reservedMemory=reserved,
        )
        admissions = run(
            node,
            pod("a", container("app", "200Mi", "1")),
            pod("b", container("app", "64Mi", "3")),
            pod("c", container("app", "1400Mi", "1")),
        )
        merged = [one.decisions[0].merged for one in admissions]
        assert [(str(hint.affinity), hint.preferred) for hint in merged] == [
            ("0", True),
            ("1-2", False),
            ("1-2", False),
        ]
        assert [str(one.placements[0].cpus) for one in admissions] == ["1", "2-4", "5"]
        assert [str(one.state.cpu.default_cpus) for one in admissions if one.state.cpu] == ["0,2-7", "0,5-7", "0,6-7"]
        assert outcomes(admissions) == [
            AdmissionOutcome.ALIGNED_SINGLE,
            AdmissionOutcome.DEGRADED,
            AdmissionOutcome.DEGRADED,
        ]


class TestLife:
    def test_what_a_refused_pod_took_stays_until_it_is_released(self) -> None:
        node = kubelet(machine(11, 10), cpus=True)
        two = pod("a", container("x", "5Gi"), container("y", "99Gi"))
        (refused,) = run(node, two)
        assert refused.rejection is not None
        assert refused.rejection.container == "y"
        assert [one.container for one in refused.placements] == ["x"]
        assert free(refused.state) == [5, 10]
        assert refused.state.cpu is not None
        assert set(refused.state.cpu.entries["a"]) == {"x", "y"}
        after = reconcile(refused.state)
        assert after.cpu is not None
        assert (after.cpu.default_cpus, after.cpu.entries) == (CpuSet.parse("0-3"), {})
        assert free(after) == [5, 10]
        assert free(admit(node, after, pod("b", bare("app"))).state) == [10, 10]

    def test_a_started_container_is_pinned_and_ends_the_init_containers_before_it(self) -> None:
        node = kubelet(cpus=True)
        one = pod("a", container("app", "3Gi"), init=(container("init", "5Gi"),))
        (done,) = run(node, one)
        assert free(done.state)[0] == 5
        state, pins = start(node, done.state, "a", "app")
        assert (pins.cpuset_cpus, pins.cpuset_mems) == ("1", "0")
        assert free(state)[0] == 7
        shared = admit(node, state, pod("b", bare("app"))).state
        assert start(node, shared, "b", "app")[1].cpuset_mems == ""
        assert start(node, shared, "b", "app")[1].cpuset_cpus == "0,2-7"

    def test_only_containers_of_active_pods_start(self) -> None:
        node = kubelet()
        (done,) = run(node, pod("a"))
        with pytest.raises(InputError, match="no active pod has the UID 'ghost'"):
            start(node, done.state, "ghost", "app")
        with pytest.raises(InputError, match="has no container 'x'"):
            start(node, done.state, "a", "x")

    def test_a_restart_keeps_the_files_and_forgets_the_rest(self) -> None:
        node = kubelet()
        one = pod("a", container("app", "3Gi"), init=(container("init", "5Gi"),))
        (done,) = run(node, one)
        state, (again,) = restart(node, done.state)
        assert again.admitted
        assert state.memory.state.entries["a"]["app"] == done.state.memory.state.entries["a"]["app"]
        assert restart(node, remove(done.state, "a"))[0].memory.state == done.state.memory.state

    @pytest.mark.parametrize(("version", "starts_twice"), [("1.36", False), ("1.37", True)])
    def test_1_36_does_not_start_a_second_time_with_pods_that_have_pod_level_resources(
        self, version: str, starts_twice: bool
    ) -> None:
        node = kubelet(scope="pod", version=version, featureGates={"PodLevelResourceManagers": True})
        (done,) = run(node, pod("a", bare("app"), resources={"cpu": "2", "memory": "4Gi"}))
        state, (again,) = restart(node, done.state)
        assert again.admitted
        assert free(state)[0] == (6 if starts_twice else 2)
        if starts_twice:
            assert restart(node, state)[0].memory == state.memory
        else:
            with pytest.raises(StartRefused, match="the expected machine state is different from the real one"):
                restart(node, state)

    def test_a_restart_with_fewer_cpus_is_refused(self) -> None:
        node = kubelet(machine(11, 10), cpus=True)
        (done,) = run(node, pod("a", container("app", "5Gi")))
        fewer = replace(node.machine, cpus=node.machine.cpus[:3])
        with pytest.raises(StartRefused, match="current set of available CPUs"):
            restart(kubelet(fewer, cpus=True), done.state)


NIC = "vendor.example/nic"


class TestDevices:
    """The Device Manager's part in an admission; how it chooses is tested with it."""

    def nics(self, *nodes: int) -> DeviceState:
        """One NIC per entry, on that node."""
        return DeviceState({NIC: {f"n{index}": Device(f"n{index}", NodeSet.of(on)) for index, on in enumerate(nodes)}})

    def asking(self, uid: str, *, init: bool = False) -> Pod:
        app = container("app", more={NIC: "1"})
        return pod(uid, app, init=(container("init", more={NIC: "1"}),) if init else ())

    def test_a_device_draws_the_memory_to_its_node(self) -> None:
        node = kubelet(policy="single-numa-node")
        done = admit(node, fresh_state(node, self.nics(2)), self.asking("a"))
        assert done.placements[0].memory_nodes == NodeSet.of(2)
        assert done.state.devices.entries == {"a": {"app": {NIC: frozenset({"n0"})}}}

    def test_what_init_containers_left_is_forgotten_at_a_restart(self) -> None:
        node = kubelet()
        state = replace(fresh_state(node), devices=replace(self.nics(2), reusable={"a": {NIC: frozenset({"n0"})}}))
        assert restart(node, state)[0].devices.reusable == {}

    def test_a_running_pod_keeps_its_device_although_its_plugin_is_gone(self) -> None:
        node = kubelet()
        state = admit(node, fresh_state(node, self.nics(2)), self.asking("a")).state
        gone = replace(state, devices=replace(state.devices, plugins={}))
        _, (again,) = restart(node, gone)
        assert again.admitted
        assert why(admit(node, gone, self.asking("a")))[1].startswith(
            "Allocate failed due to cannot allocate unregistered"
        )

    def test_a_new_pod_gets_its_device_although_the_kubelet_does_not_know_all_pods_yet(self) -> None:
        node = kubelet()
        state = fresh_state(node, self.nics(2))
        done = admit(node, state, self.asking("a"), sources_ready=False)
        assert done.state.devices.entries == {"a": {"app": {NIC: frozenset({"n0"})}}}
        gone = fresh_state(node, replace(self.nics(2), plugins={NIC: {}}))
        assert why(admit(node, gone, self.asking("a"), sources_ready=False))[1] == (
            f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {NIC}, "
            "which is unexpected"
        )

    def test_a_container_that_does_not_run_is_considered_although_the_kubelet_does_not_know_all_pods_yet(self) -> None:
        """After a reboot nothing runs, so a plugin that did not come back is noticed."""
        node = kubelet()
        state = admit(node, fresh_state(node, self.nics(2)), self.asking("a")).state
        gone = replace(state, devices=replace(state.devices, plugins={}))
        _, (again,) = restart(node, gone, running={})
        assert why(again)[1].startswith("Allocate failed due to cannot allocate unregistered device")

    def test_a_pod_that_the_kubelet_finds_again_at_its_restart_does_not_run(self) -> None:
        node = kubelet()
        state = admit(node, fresh_state(node, self.nics(2, 3)), self.asking("a")).state
        after, admissions = restart(node, state, [self.asking("b"), self.asking("a")])
        assert [one.admitted for one in admissions] == [True, True]
        held = {uid: one["app"][NIC] for uid, one in after.devices.entries.items()}
        assert held == {"a": frozenset({"n0"}), "b": frozenset({"n1"})}


class TestConfiguration:
    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"memoryManagerPolicy": "static"}, 'unknown policy: "static"'),
            ({"memoryManagerPolicy": "BestEffort"}, 'policy "BestEffort" is not available for platform "linux"'),
            ({"topologyManagerPolicy": "strict"}, 'unknown policy: "strict"'),
            ({"topologyManagerScope": "node"}, 'unknown scope: "node"'),
            ({"cpuManagerPolicy": "Static"}, 'unknown policy: "Static"'),
            ({"reservedMemory": []}, 'the total amount "0" of type "memory" is not equal to the value "1Gi"'),
            ({"reservedMemory": 1}, "reservedMemory: must be a list, not int"),
            ({"evictionHard": {}}, 'is not equal to the value "924Mi"'),
            ({"evictionHard": {"memory.available": "x%"}}, "evictionHard.memory.available: not a percentage"),
            ({"featureGates": {"PodLevelResources": "yes"}}, "featureGates.PodLevelResources: must be true or false"),
            ({"reservedSystemCPUs": "a"}, "reservedSystemCPUs: not a list of CPUs"),
            ({"kubeReserved": {"memory": "-1"}}, "kubeReserved.memory: must not be negative"),
            ({"kind": "Pod"}, "kind: a KubeletConfiguration is needed, not 'Pod'"),
            (
                {"reservedMemory": [{"numaNode": 0, "limits": {"memory": 0}}]},
                "invalid configuration: reserved memory may not be zero",
            ),
        ],
    )
    def test_a_bad_setting_is_refused(self, more: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message.replace("(", r"\(")):
            kubelet(**more)

    def test_options_of_the_topology_manager_are_in_force(self) -> None:
        """Nodes 0 and 3 are near each other, so two devices there win over the narrower mask of nodes 0 and 1."""
        far = {(a, b): 10 if a == b else 11 if {a, b} == {0, 3} else 30 for a in range(4) for b in range(4)}
        slit = tuple(
            Node(a, cpus=CpuSet.of(2 * a, 2 * a + 1), memory=11 * GI, distances={b: far[a, b] for b in range(4)})
            for a in range(4)
        )
        big = pod("a", container("app", "15Gi"))
        closest = {"prefer-closest-numa-nodes": "true"}
        (near,) = run(kubelet(Machine(slit, TWO_CPUS_A_NODE), topologyManagerPolicyOptions=closest), big)
        assert near.placements[0].memory_nodes == NodeSet.of(0, 3)
        (narrow,) = run(kubelet(Machine(slit, TWO_CPUS_A_NODE)), big)
        assert narrow.placements[0].memory_nodes == NodeSet.of(0, 1)

    def test_gates_open_options(self) -> None:
        closest = {"prefer-closest-numa-nodes": "true"}
        near = Machine((Node(0, cpus=CpuSet.of(0, 1), memory=11 * GI, distances={0: 10}),), TWO_CPUS_A_NODE[:2])
        shut = {"TopologyManagerPolicyBetaOptions": False}
        kubelet(near, version="1.28", topologyManagerPolicyOptions=closest)
        with pytest.raises(InputError, match="Beta-level Options not enabled"):
            kubelet(near, version="1.28", topologyManagerPolicyOptions=closest, featureGates=shut)
        socket, alpha = {"align-by-socket": "true"}, {"CPUManagerPolicyAlphaOptions": True}
        with pytest.raises(InputError, match="Alpha-level Options not enabled"):
            kubelet(near, cpus=True, cpuManagerPolicyOptions=socket)
        opened = kubelet(near, cpus=True, cpuManagerPolicyOptions=socket, featureGates=alpha)
        assert opened.cpu is not None
        assert opened.cpu.options.align_by_socket

    def test_options_ripen_by_the_real_version_and_not_by_the_one_it_is_taken_for(self) -> None:
        nine, shut = {"max-allowable-numa-nodes": "9"}, {"TopologyManagerPolicyBetaOptions": False}
        kubelet(version="1.31", topologyManagerPolicyOptions=nine)
        kubelet(version="1.35", topologyManagerPolicyOptions=nine, featureGates=shut)
        with pytest.raises(InputError, match='unknown Topology Manager Policy option: "max-allowable-numa-nodes"'):
            kubelet(version="1.30", topologyManagerPolicyOptions=nine)

    def test_cpus_of_a_version_that_is_taken_for_a_later_one_are_given_as_in_that_one(self) -> None:
        whole, socket = {"full-pcpus-only": "true"}, {"align-by-socket": "true"}
        given = kubelet(cpus=True, version="1.25", cpuManagerPolicyOptions=whole).cpu
        assert given is not None
        assert given.version == (1, 28)
        with pytest.raises(InputError, match='unknown CPU Manager Policy option: "align-by-socket"'):
            kubelet(cpus=True, version="1.24", cpuManagerPolicyOptions=socket)

    def test_what_a_partition_for_the_system_leaves_for_pods_cannot_be_told(self) -> None:
        with pytest.raises(NotModelled, match="systemPartition: cannot tell what"):
            kubelet(systemPartition={"memoryLimit": "1Gi"})

    def test_more_than_a_node_has_is_not_reserved(self) -> None:
        with pytest.raises(InputError, match="NUMA node 0 has 1073741824 bytes of memory but 2147483648 are reserved"):
            kubelet(
                machine(1, 10),
                kubeReserved={"memory": "1948Mi"},
                reservedMemory=[{"numaNode": 0, "limits": {"memory": "2Gi"}}],
            )

    def test_distances_are_known_only_when_every_node_has_them(self) -> None:
        near = Machine((Node(0, memory=GI, distances={0: 10}),))
        assert read_kubelet({}, near)[0].distances == {0: {0: 10}}
        assert read_kubelet({}, machine(1))[0].distances is None
