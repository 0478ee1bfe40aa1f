"""What a restart does to pods: nothing when nothing changed, and otherwise what the kubelet does."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.memorymanager.admission import NodeState, admit
from numaudit.memorymanager.forecast import forecast
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.manager import fresh_state
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB = 2**30
MACHINE = Machine(
    nodes=tuple(Node(number, CpuSet.from_ids(range(4 * number, 4 * number + 4)), 11 * GIB) for number in range(2)),
    cpus=tuple(Cpu(n, n // 4, n // 4, n // 2, CpuSet.of(n // 2 * 2, n // 2 * 2 + 1), n // 4) for n in range(8)),
)
CONFIGURATION: Mapping[str, object] = {
    "memoryManagerPolicy": "Static",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "topologyManagerPolicy": "restricted",
    "kubeReserved": {"memory": "924Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
}


def kubelet(machine: Machine = MACHINE, **changes: object) -> Kubelet:
    return read_kubelet({**CONFIGURATION, **changes}, machine)[0]


def pod(name: str, memory: str, cpu: str = "1") -> Pod:
    limits = {"cpu": cpu, "memory": memory}
    return read_pod(
        {"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]}}
    )


def node(*pods: Pod) -> NodeState:
    state = fresh_state(kubelet())
    for one in pods:
        admission = admit(kubelet(), state, one)
        assert admission.admitted
        state = admission.state
    return state


A, B = pod("a", "9Gi"), pod("b", "8Gi", "2")


def test_a_restart_with_nothing_changed_keeps_every_pod_where_it_is() -> None:
    for reboot in (False, True):
        found = forecast(kubelet(), node(A, B), (A, B), reboot=reboot)
        assert found.is_safe and found.refusal is None
        assert [(one.pod, one.fate, one.nodes_then) for one in found.pods] == [
            ("a", "kept", NodeSet.of(0)),
            ("b", "kept", NodeSet.of(1)),
        ]


def test_a_kubelet_that_does_not_start_says_why_and_what_follows_when_its_files_are_removed() -> None:
    smaller = replace(MACHINE, nodes=(MACHINE.nodes[0], replace(MACHINE.nodes[1], memory=5 * GIB)))
    found = forecast(kubelet(smaller), node(A, B), (A, B), reboot=True)
    assert found.refusal is not None and "machine state" in found.refusal
    assert not found.is_safe
    assert [(one.pod, one.fate) for one in found.pods] == [("a", "kept"), ("b", "refused")]
    assert found.refused[0].reason in ("TopologyAffinityError", "UnexpectedAdmissionError")
    assert found.refused[0].nodes_now == NodeSet.of(1) and found.refused[0].nodes_then is None


def test_a_pod_is_placed_elsewhere_when_the_files_are_lost_and_an_older_one_comes_first() -> None:
    changed = [{"numaNode": 0, "limits": {"memory": "512Mi"}}, {"numaNode": 1, "limits": {"memory": "512Mi"}}]
    found = forecast(kubelet(reservedMemory=changed), node(A, B), (B, A), reboot=False)
    assert found.refusal is not None
    assert [(one.pod, one.fate, one.nodes_now, one.nodes_then) for one in found.pods] == [
        ("b", "elsewhere", NodeSet.of(1), NodeSet.of(0)),
        ("a", "elsewhere", NodeSet.of(0), NodeSet.of(1)),
    ]


def test_a_running_pod_is_refused_where_the_cpu_manager_now_gives_whole_cores_only() -> None:
    """Until kubernetes/kubernetes#129079 the kubelet checks this before it sees that the pod holds its CPUs."""
    whole = kubelet(cpuManagerPolicyOptions={"full-pcpus-only": "true"})
    found = forecast(whole, node(A, B), (A, B), reboot=False)
    assert found.refusal is None
    assert [(one.pod, one.fate, one.reason) for one in found.pods] == [
        ("a", "refused", "SMTAlignmentError"),
        ("b", "kept", None),
    ]


def test_a_pod_that_holds_nothing_yet_is_not_placed_elsewhere() -> None:
    late = pod("late", "1Gi")
    found = forecast(kubelet(), node(A), (A, late), reboot=False)
    assert found.is_safe
    assert found.pods[1].nodes_now is None and found.pods[1].nodes_then == NodeSet.of(0)


def test_1_37_is_not_foretold_for_pods_that_have_memory_as_a_whole() -> None:
    own = {"cpu": "1", "memory": "2Gi"}
    whole = read_pod(
        {
            "metadata": {"name": "whole"},
            "spec": {"resources": {"requests": own, "limits": own}, "containers": [{"name": "app"}]},
        }
    )
    gates = {"featureGates": {"PodLevelResourceManagers": True}, "topologyManagerScope": "pod"}
    fates = {}
    for version in ("1.36", "1.37", "1.38"):
        one = read_kubelet({**CONFIGURATION, **gates}, MACHINE, kubernetes_version=version)[0]
        state = admit(one, fresh_state(one), whole).state
        found = forecast(one, state, (whole, A), reboot=False)
        fates[version] = [pod.fate for pod in found.pods]
        if version == "1.37":
            assert found.is_open
            assert "no source says whether Kubernetes 1.37" in str(found.pods[0].message)
    assert fates == {"1.36": ["refused", "kept"], "1.37": ["unknown", "kept"], "1.38": ["kept", "kept"]}
