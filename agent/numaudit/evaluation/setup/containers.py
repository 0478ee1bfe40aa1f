"""Rules about pods: which of them miss a promise by the way they are written?"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.pod.spec import CPU, MEMORY, Container, Pod, why_not_guaranteed
from numaudit.evaluation.huge_pages import huge_pages_of, largest_users
from numaudit.evaluation.setup.rule import CannotJudge, Fault, Need, SetupEvidence, SetupRule
from numaudit.intent.pods import PodFacts
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import NANO, in_units, some_of

_ALL: tuple[Need, ...] = ("kubelet", "nodes")


def _static(evidence: SetupEvidence) -> bool:
    return evidence.memory_policy == "Static"


def _is_whole(one: Container) -> bool:
    """Are its CPUs whole, and its requests of CPUs equal to its limits?"""
    limit = one.resources.limits.get(CPU)
    return limit is not None and limit.nano > 0 and not limit.nano % NANO and _is_equal(one, CPU)


def _is_equal(one: Container, resource: str) -> bool:
    limit = one.resources.limits.get(resource)
    request = one.resources.requests.get(resource, limit)
    return limit is not None and limit.nano > 0 and request is not None and request.nano == limit.nano


def _burstable(evidence: SetupEvidence) -> Iterator[tuple[PodFacts, Pod, str]]:
    """Pods that are not Guaranteed, without pod-level resources, and the field that makes it so."""
    for one in evidence.pods:
        if one.spec is not None and one.qos == "Burstable":
            culprit = why_not_guaranteed(one.spec)
            if culprit is not None:
                yield one, one.spec, culprit


def _qos_sidecar(evidence: SetupEvidence) -> Iterator[Fault]:
    if not _static(evidence):
        return
    for pod, spec, culprit in _burstable(evidence):
        aligned = [one.name for one in spec.all_containers if _is_whole(one) and _is_equal(one, MEMORY)]
        if aligned:
            yield Fault(f"{pod.namespace}/{pod.name}: {culprit}, so nothing is promised to {some_of(aligned)}")


def _qos_request_below_limit(evidence: SetupEvidence) -> Iterator[Fault]:
    if not _static(evidence):
        return
    for pod, spec, culprit in _burstable(evidence):
        parts = spec.all_containers
        below = [
            one.name
            for one in parts
            if _is_whole(one) and not _is_equal(one, MEMORY) and MEMORY in one.resources.limits
        ]
        if below and all(_is_whole(one) and MEMORY in one.resources.limits for one in parts):
            yield Fault(f"{pod.namespace}/{pod.name}: {culprit}")


def _fractional_cpu(evidence: SetupEvidence) -> Iterator[Fault]:
    if not _static(evidence) or evidence.cpu_policy != "static":
        return
    for pod in evidence.pods:
        if pod.spec is None or pod.qos != "Guaranteed" or pod.has_pod_level_resources:
            continue
        for one in pod.spec.containers:
            cpus = one.resources.requests.get(CPU) or one.resources.limits.get(CPU)
            if cpus is not None and cpus.nano % NANO:
                yield Fault(f"{pod.namespace}/{pod.name}: container {one.name} asks for {cpus} CPUs")


def _pod_level_resources(evidence: SetupEvidence) -> Iterator[Fault]:
    gates = evidence.config.feature_gates
    if gates is None:
        raise CannotJudge("the kubelet's feature gates are not known")
    if not _static(evidence) or gates.get("PodLevelResourceManagers", gates.get("AllAlpha", False)):
        return
    for pod in evidence.pods:
        if pod.has_pod_level_resources and pod.qos == "Guaranteed":
            yield Fault(f"{pod.namespace}/{pod.name} has resources of the pod as a whole")


def _huge_without_promise(evidence: SetupEvidence) -> Iterator[Fault]:
    for of_size in huge_pages_of(evidence.snapshot):
        nodes = NodeSet.from_ids(node for claim in of_size.claims for node in claim.nodes)
        users = largest_users(of_size, nodes, evidence.snapshot) if nodes and evidence.residency else []
        if users:
            named = some_of([f"{name} {in_units(size)}" for name, size in users])
            yield Fault(
                f"{of_size.type} on {nodes.in_words} are promised, and used without a promise by {named}", nodes
            )


RULES = (
    SetupRule(
        "qos-sidecar",
        "containers",
        "warning",
        "The Memory Manager looks at the pod's class: one container without equal requests and limits costs all others "
        "of the pod their promise.",
        "Give that container (sidecars and init containers too) requests equal to its limits, for cpu and memory; "
        "Istio: the annotations sidecar.istio.io/proxyCPULimit and proxyMemoryLimit.",
        "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/",
        _qos_sidecar,
        _ALL,
    ),
    SetupRule(
        "fractional-cpu",
        "containers",
        "warning",
        "Memory is bound to nodes, and the container runs on the shared pool of all nodes.",
        "Ask for whole CPUs.",
        "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/#static-policy",
        _fractional_cpu,
        _ALL,
    ),
    SetupRule(
        "pod-level-resources",
        "containers",
        "warning",
        "The static managers leave such a pod alone: nothing is promised to it.",
        "Give each container requests and limits, or turn on the gate PodLevelResourceManagers (alpha in 1.36).",
        "https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/",
        _pod_level_resources,
        _ALL,
    ),
    SetupRule(
        "huge-without-promise",
        "containers",
        "warning",
        "Containers without a promise use huge pages that were promised to others.",
        "Give them limits of hugepages-SIZE, and of cpu or memory.",
        "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
        _huge_without_promise,
        ("kubelet",),
    ),
    SetupRule(
        "qos-request-below-limit",
        "containers",
        "info",
        "A pod whose memory requests are below its limits is Burstable, and is promised nothing.",
        "If the pod is to be aligned, make its memory requests and limits equal.",
        "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/",
        _qos_request_below_limit,
        _ALL,
    ),
)
