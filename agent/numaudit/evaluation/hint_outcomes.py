"""Outcome of each admission: one outcome per container of a promise, or per refused pod."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import field

from numaudit.containermanager.memory.candidates import fewest_nodes
from numaudit.containermanager.memory.state import MachineState
from numaudit.containermanager.pod.requests import peak, pod_requests
from numaudit.containermanager.pod.spec import CPU, Container
from numaudit.containermanager.topologymanager.policy import TOPOLOGY_AFFINITY_ERROR, UNEXPECTED, AdmissionError
from numaudit.containermanager.versions import LATEST_FEATURES
from numaudit.encoding.value import Timestamp, Value, timestamp
from numaudit.errors import InputError
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.intent.pods import HintRecord, Rejection
from numaudit.memorymanager.outcome import AdmissionOutcome, outcome_of_nodes, outcome_of_refusal
from numaudit.topology.nodeset import NodeSet

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_GENERATED = (
    re.compile(rf"(.+)-{_RANDOM}{{6,10}}-{_RANDOM}{{5}}", re.ASCII),  # Deployment
    re.compile(rf"(.+)-{_RANDOM}{{5}}", re.ASCII),  # ReplicaSet, DaemonSet, Job
    re.compile(r"(.+)-\d{1,5}", re.ASCII),  # StatefulSet
)


def workload_of(pod: str) -> str:
    """The pod's name without what a controller adds to its own; a name of another form stays whole."""
    matches = (form.fullmatch(pod) for form in _GENERATED)
    return next((match[1] for match in matches if match is not None), pod)


OutcomeSource = Literal["log", "status", "counter", "re-derived"]
_WRAPPING = ("Allocate failed due to ", ", which is unexpected")


class HintOutcome(Value, frozen=True):
    """Outcome of the hints of a container, or of a pod that was refused (`container` None)."""

    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    outcome: AdmissionOutcome
    source: OutcomeSource
    """`log`: the kubelet said so. `status`: from the refused pod's status. `counter`: the kubelet counted
    more refused pods than are known, and this one ended without a reason. `re-derived`: computed from
    the promise and the machine, since no log says it."""
    numa_nodes: NodeSet | None
    """The merged hint's nodes as the log has them, else the promised ones."""
    reason: str | None
    message: str | None
    asked: Mapping[str, int] | None = field(default=None, name="askedBytes")
    """Of a refused pod: resource (memory, hugepages-2Mi, ...) -> bytes that its containers ask for together, as the
    kubelet adds them up; null = not known."""
    at: Timestamp | None = None
    """Time when a pod was refused; null = not known."""
    workload: str | None = None
    """Of a refused pod: the Deployment, StatefulSet, Job, ... that made it, else its own name."""
    asked_milli_cpus: int | None = None
    """Of a refused pod: thousandths of CPUs that its containers ask for together; null = not known."""


def outcomes(intent: Intent) -> tuple[HintOutcome, ...]:
    """All outcomes of a node: first the containers, then the refused pods."""
    return (*_of_containers(intent), *(_of_rejection(one, intent) for one in intent.rejections))


def outcome_of_reason(reason: str, message: str) -> AdmissionOutcome:
    """The outcome that a pod's rejection stands for, by the reason and message of its status.

    Both reasons can mean the same lack of memory: with no hint to offer, the memory manager lets the
    merge pass and then fails to allocate.
    """
    if reason == TOPOLOGY_AFFINITY_ERROR:
        return AdmissionOutcome.REJECTED_AFFINITY
    if reason != UNEXPECTED:
        return AdmissionOutcome.REJECTED_OTHER
    before, after = _WRAPPING
    text = message[message.index(before) + len(before) :] if before in message else message
    return outcome_of_refusal(AdmissionError(text.removesuffix(after)))


def _of_containers(intent: Intent) -> Iterator[HintOutcome]:
    refused = {one.pod_uid for one in intent.rejections}
    for container in intent.alive:
        if container.pod_uid in refused:
            continue
        outcome = _of_container(container, intent)
        if outcome is not None:
            yield outcome


def _of_container(container: ContainerIntent, intent: Intent) -> HintOutcome | None:
    """None = nothing is known of what it was promised."""
    nodes = container.managers.memory_nodes
    if nodes is None:
        return None
    if not nodes:
        return _outcome(container, AdmissionOutcome.NOT_MANAGED, "re-derived", None)
    record = container.hints
    if record is not None and record.best is not None and _is_of_this_promise(record, nodes):
        logged = outcome_of_nodes(record.best, nodes)
        return _outcome(container, logged, "log", record.best.affinity or nodes)
    return _outcome(container, _re_derive(container.managers, nodes, intent), "re-derived", nodes)


def _is_of_this_promise(record: HintRecord, nodes: NodeSet) -> bool:
    """A record of an earlier admission, whose promise is gone, says nothing about this one.

    The record of a whole pod has the nodes of all its containers.
    """
    if record.denial is not None:
        return False
    stored = record.memory_nodes
    return stored is None or stored == nodes or (record.container is None and nodes <= stored)


def _re_derive(promise: Promise, nodes: NodeSet, intent: Intent) -> AdmissionOutcome:
    """Outcome derived from the promise alone. Without the merged hint an extension seems a degraded hint."""
    policy = intent.config.topology_manager_policy
    if policy == "none":
        return AdmissionOutcome.DEFAULT_HINT
    must_be_preferred = policy in ("restricted", "single-numa-node")
    fewest = None if intent.machine is None else _fewest_nodes(intent.machine, promise)
    if must_be_preferred or fewest is None or len(nodes) == fewest:
        return AdmissionOutcome.ALIGNED_MULTI if len(nodes) > 1 else AdmissionOutcome.ALIGNED_SINGLE
    return AdmissionOutcome.DEGRADED


def _fewest_nodes(machine: MachineState, promise: Promise) -> int | None:
    """Least number of nodes that could hold the promise when empty."""
    try:
        return fewest_nodes(machine, {block.type: block.size for block in promise.memory or ()})
    except InputError:
        return None


def _of_rejection(rejection: Rejection, intent: Intent) -> HintOutcome:
    record = next((one for one in reversed(intent.hints) if one.denial == rejection), None)
    listed = (intent.pods or {}).get(rejection.pod_uid)
    return HintOutcome(
        pod_uid=rejection.pod_uid,
        namespace=rejection.namespace,
        pod=rejection.pod,
        container=None,
        outcome=outcome_of_reason(rejection.reason, rejection.message),
        source="counter" if rejection.by_counter else "status" if record is None else "log",
        numa_nodes=None if record is None or record.best is None else record.best.affinity,
        reason=rejection.reason,
        message=rejection.message,
        asked=_asked(rejection, intent),
        asked_milli_cpus=_asked_milli_cpus(rejection, intent),
        at=timestamp(rejection.at),
        workload=(listed.workload or listed.name) if listed is not None else workload_of(rejection.pod),
    )


def _asked(rejection: Rejection, intent: Intent) -> dict[str, int] | None:
    pod = (intent.pods or {}).get(rejection.pod_uid)
    if pod is None or pod.spec is None:
        return None
    try:
        return pod_requests(pod.spec)
    except AdmissionError:  # an amount that the kubelet cannot read either
        return None


def _asked_milli_cpus(rejection: Rejection, intent: Intent) -> int | None:
    pod = (intent.pods or {}).get(rejection.pod_uid)
    if pod is None or pod.spec is None:
        return None
    if pod.spec.has_pod_level_resources and pod.spec.resources is not None:
        whole = pod.spec.resources.requests.get(CPU)
        return None if whole is None else whole.milli_value
    return peak(pod.spec, _milli_cpus, LATEST_FEATURES).get(CPU, 0)


def _milli_cpus(one: Container) -> dict[str, int]:
    asked = one.resources.requests.get(CPU)
    return {} if asked is None else {CPU: asked.milli_value}


def _outcome(
    container: ContainerIntent, outcome: AdmissionOutcome, source: OutcomeSource, nodes: NodeSet | None
) -> HintOutcome:
    return HintOutcome(
        container.namespace, container.pod, container.pod_uid, container.name, outcome, source, nodes, None, None
    )
