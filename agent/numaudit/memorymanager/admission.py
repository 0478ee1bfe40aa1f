"""One pod's admission: the Topology Manager asks the providers, merges their hints, and has them allocate.

Where all pods of the node are known, what they ask for is added up in the end, as the kubelet does.

Source: pkg/kubelet/cm/topologymanager/{scope,scope_container,scope_pod,scope_none}.go, pkg/kubelet/kubelet.go (the
order of its admission handlers).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containermanager.cpu import allocation as cpu_allocation
from numaudit.containermanager.cpu import hints as cpu_hints
from numaudit.containermanager.cpu.allocation import RefusedWithState
from numaudit.containermanager.cpu.hints import CPUPod, cpu_pod
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.device import allocation as device_allocation
from numaudit.containermanager.device import hints as device_hints
from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.memory import static_policy
from numaudit.containermanager.memory.candidates import kept_apart
from numaudit.containermanager.memory.static_policy import NO_HINT, MemoryAllocation, MemoryPolicy
from numaudit.containermanager.pod.requests import container_requests, pod_requests
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, Pod, is_managed_at_pod_level, is_ordinary_init
from numaudit.containermanager.predicates import Capacity, NodeShortage, amounts, node_requests, shortage
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint, merge
from numaudit.containermanager.topologymanager.policy import (
    CONTAINER_SCOPE,
    POD_SCOPE,
    TOPOLOGY_AFFINITY_ERROR,
    AdmissionError,
)
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import (
    AdmissionOutcome,
    Decision,
    Placement,
    ProviderAnswer,
    Rejection,
    outcome_of_placement,
    outcome_of_refusal,
    why_unknown,
)
from numaudit.topology.nodeset import NodeSet

_REFUSALS = {
    None: "Resources cannot be allocated with Topology locality",
    CONTAINER_SCOPE: (
        "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
    ),
    POD_SCOPE: "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
}
"""By scope for pods that are managed at pod level, None for all others."""


class NodeState(Struct, frozen=True):
    """State of a kubelet and its managers. Hints and reusable amounts are lost at a restart."""

    memory: MemoryPolicy
    cpu: CPUState | None = None
    """None = CPU Manager policy none."""
    devices: DeviceState = DeviceState()
    pods: Mapping[str, Pod] = field(default_factory=dict)
    """The active pods by UID, in the order of their admission."""
    hints: Mapping[str, Mapping[str, TopologyHint]] = field(default_factory=dict)
    """Pod UID -> container name -> what the Topology Manager stored."""
    pending: Pod | None = None
    """The pod that was admitted or refused last, which kubelets before 1.32 go on counting as active; else None."""
    capacity: Capacity | None = None
    """Capacity of the node for all its pods together. None = that, or a pod, is not known: nothing is added up, and
    only a pod that is too large for the node alone is refused."""


class Admission(Struct, frozen=True):
    """Result of an admission, and the node's state afterwards: nothing is rolled back when it was refused."""

    pod: Pod
    state: NodeState
    decisions: tuple[Decision, ...]
    """The merges, in their order; none under policy none."""
    placements: tuple[Placement, ...]
    """Of the containers that got what they need, in their order, also when a later one did not."""
    rejection: Rejection | None = None
    problem: str | None = None
    """The reason why it is not known whether the kubelet decides like this; None = it does."""

    @property
    def admitted(self) -> bool:
        return self.rejection is None

    @property
    def is_surely_admitted(self) -> bool:
        return self.admitted and self.problem is None


def admit(
    kubelet: Kubelet, state: NodeState, pod: Pod, *, sources_ready: bool = True, running: Collection[str] = ()
) -> Admission:
    """Decide on a pod, and give it what it asks for.

    `sources_ready` False: the kubelet started lately and does not know all its pods yet, so it does
    not release what belongs to pods it does not know, and leaves the devices of containers alone that
    were `running` (their names) when it started. Raises InputError for a pod that makes a kubelet
    crash, KubeletHangs for one that makes it hang.
    """
    version = kubelet.features.version
    pending = pod if version < (1, 32) else None
    state = replace(state, pods={**state.pods, pod.uid: pod}, pending=pending)
    if sources_ready:
        state = as_next_admission_finds(state, version=version)
    rejection = _absent_pages(kubelet, state, pod)
    if rejection is not None:
        return Admission(pod, remove(state, pod.uid), (), (), rejection)
    before, asked = state, cpu_pod(pod, kubelet.features)
    run = _Run(kubelet, state, pod, asked, () if sources_ready else running)
    rejection = run.pod_scope() if kubelet.topology.scope == POD_SCOPE else run.each_container()
    rejection = rejection or _out_of(kubelet, state, pod)
    state = run.state if rejection is None else remove(run.state, pod.uid)
    placed = run.placements if rejection is None else ()
    problem = why_unknown(kubelet.features, before.memory.state, before.cpu, asked, placed)
    return Admission(pod, state, tuple(run.decisions), tuple(run.placements), rejection, problem)


def remove(state: NodeState, pod_uid: str) -> NodeState:
    """A pod has ended. What it holds is released later: memory at the next admission, CPUs by `reconcile`."""
    return replace(
        state,
        pods={uid: pod for uid, pod in state.pods.items() if uid != pod_uid},
        hints={uid: stored for uid, stored in state.hints.items() if uid != pod_uid},
    )


def reconcile(state: NodeState, *, version: KubernetesVersion = LATEST) -> NodeState:
    """The CPU Manager's pass, every 10 seconds by default: it releases the CPUs of pods that are not active."""
    if state.cpu is None:
        return state
    active = state.pods if state.pending is None else {**state.pods, state.pending.uid: state.pending}
    return replace(state, cpu=cpu_allocation.remove_stale(state.cpu, _containers_of(active), version=version))


def as_next_admission_finds(state: NodeState, *, version: KubernetesVersion = LATEST) -> NodeState:
    """Release entries that no active pod has, as the managers do before they answer about a pod."""
    return replace(
        reconcile(state, version=version),
        memory=static_policy.remove_stale_state(state.memory, state.pods),
        devices=device_allocation.remove_stale(state.devices, state.pods) if state.devices.entries else state.devices,
    )


class _Run(Struct):
    """One admission under way."""

    kubelet: Kubelet
    state: NodeState
    pod: Pod
    cpus: CPUPod
    runs_since_before: Collection[str]
    """Containers that ran when the kubelet started, while it does not know all its pods."""
    decisions: list[Decision] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)

    def each_container(self) -> Rejection | None:
        """Scope container, or none: then there are no hints."""
        for container in self.pod.all_containers:
            name = container.name
            if self.kubelet.topology.scope == CONTAINER_SCOPE:
                hint = self._decide(name)
                if hint is None:
                    return self._refused(name)
                self._store_hint(name, hint)
            rejection = self._allocate(name)
            if rejection is not None:
                return rejection
        return None

    def pod_scope(self) -> Rejection | None:
        """One hint for all containers."""
        hint = self._decide(None)
        if hint is None:
            return self._refused(None)
        for container in self.pod.all_containers:
            self._store_hint(container.name, hint)
        if self._at_pod_level:
            return self._allocate(*(one.name for one in self.pod.all_containers), at_pod_level=True)
        for container in self.pod.all_containers:
            rejection = self._allocate(container.name)
            if rejection is not None:
                return rejection
        return None

    @property
    def _at_pod_level(self) -> bool:
        return is_managed_at_pod_level(self.pod, self.kubelet.features)

    def _decide(self, container: str | None) -> TopologyHint | None:
        """Ask the providers about a container (None = the pod) and merge; None = not admitted."""
        answers = (
            ProviderAnswer("devices", self._device_hints(container)),
            ProviderAnswer("cpu", self._cpu_hints(container)),
            ProviderAnswer("memory", self._memory_hints(container)),
        )
        topology = self.kubelet.topology
        merged = merge(
            [one.hints for one in answers],
            policy=topology.policy,
            nodes=self.kubelet.machine.online,
            options=topology.options,
            distances=self.kubelet.distances,
            version=self.kubelet.features.version,
        )
        requests = self._memory_requests(container)
        self.decisions.append(Decision(self.pod.uid, container, answers, merged, self.state.memory, requests))
        return merged.result.hint if merged.result.admit else None

    def _device_hints(self, container: str | None) -> ProviderHints:
        devices, nodes, version = self.state.devices, self.kubelet.machine.online, self.kubelet.features.version
        if container is None:
            wanted = device_hints.pod_requests(devices, self.pod, self.kubelet.features)
        else:
            wanted = device_hints.container_requests(devices, self.pod, container)
        return device_hints.hints(devices, self.pod.uid, container, wanted, nodes=nodes, version=version)

    def _cpu_hints(self, container: str | None) -> ProviderHints:
        if self.kubelet.cpu is None or self.state.cpu is None:
            return None
        if container is None:
            return cpu_hints.hints_for_pod(self.kubelet.cpu, self.state.cpu, self.cpus)
        return cpu_hints.hints_for_container(self.kubelet.cpu, self.state.cpu, self.cpus, container)

    def _memory_hints(self, container: str | None) -> ProviderHints:
        if self.kubelet.memory_policy == "None":
            return None
        if container is None:
            return static_policy.pod_hints(self.state.memory, self.pod, self.kubelet.features)
        return static_policy.container_hints(self.state.memory, self.pod, container, self.kubelet.features)

    def _memory_requests(self, container: str | None) -> Mapping[str, int]:
        if self.kubelet.memory_policy == "None" or not static_policy.is_managed(self.pod, self.kubelet.features):
            return {}
        try:
            if container is None:
                return pod_requests(self.pod, self.kubelet.features)
            return container_requests(self.pod, self.pod.container(container), self.kubelet.features)
        except AdmissionError:
            return {}  # Allocate refuses the pod for it

    def _refused(self, container: str | None) -> Rejection:
        message = _REFUSALS[self.kubelet.topology.scope if self._at_pod_level else None]
        return Rejection(TOPOLOGY_AFFINITY_ERROR, message, AdmissionOutcome.REJECTED_AFFINITY, container)

    def _store_hint(self, container: str, hint: TopologyHint) -> None:
        stored = {**self.state.hints.get(self.pod.uid, {}), container: hint}
        self.state = replace(self.state, hints={**self.state.hints, self.pod.uid: stored})

    def _allocate(self, *containers: str, at_pod_level: bool = False) -> Rejection | None:
        """Have every provider allocate for one container, or for the pod as a whole.

        What earlier providers took stays when a later one fails.
        """
        hint = self.state.hints.get(self.pod.uid, {}).get(containers[0], NO_HINT)
        try:
            for container in containers:
                self._allocate_devices(container, hint.affinity)
            self._allocate_cpus(None if at_pod_level else containers[0], hint.affinity)
            allocation = self._allocate_memory(None if at_pod_level else containers[0], hint)
        except AdmissionError as error:
            return self._not_allocated(error, None if at_pod_level else containers[0], hint)
        self.state = replace(self.state, memory=allocation.policy)
        self.placements += [self._placement(container, hint, allocation) for container in containers]
        return None

    def _not_allocated(self, error: AdmissionError, container: str | None, hint: TopologyHint) -> Rejection:
        outcome = outcome_of_refusal(error)
        about_memory = outcome in (AdmissionOutcome.REJECTED_CAPACITY, AdmissionOutcome.REJECTED_GROUP_RULE)
        detail = self._rule_of_groups(container, hint) if about_memory else None
        return Rejection(error.reason, error.message, outcome, container, detail)

    def _rule_of_groups(self, container: str | None, hint: TopologyHint) -> str | None:
        """Name the nodes that have the memory and may not be used; None = no nodes have it."""
        memory, requests = self.state.memory, self._memory_requests(container)
        left = memory.reusable.get(self.pod.uid, {})
        forbidden = kept_apart(memory.state.machine, requests, left, hint.affinity)
        return None if forbidden is None else forbidden.rule_in_words

    def _allocate_devices(self, container: str, affinity: NodeSet | None) -> None:
        wanted = device_hints.container_requests(self.state.devices, self.pod, container)
        if wanted:
            devices = device_allocation.allocate(
                self.state.devices,
                self.pod.uid,
                container,
                wanted,
                affinity,
                ordinary_init=is_ordinary_init(self.pod, container, self.kubelet.features),
                runs_since_before=container in self.runs_since_before,
            )
            self.state = replace(self.state, devices=devices)

    def _allocate_cpus(self, container: str | None, affinity: NodeSet | None) -> None:
        policy, state = self.kubelet.cpu, self.state.cpu
        if policy is None or state is None:
            return
        try:
            if container is None:
                cpu = cpu_allocation.allocate_pod(policy, state, self.cpus, affinity)
            else:
                cpu = cpu_allocation.allocate(policy, state, self.cpus, container, affinity)
        except RefusedWithState as error:
            self.state = replace(self.state, cpu=error.state)
            raise
        self.state = replace(self.state, cpu=cpu)

    def _allocate_memory(self, container: str | None, hint: TopologyHint) -> MemoryAllocation:
        policy, features = self.state.memory, self.kubelet.features
        if self.kubelet.memory_policy == "None":
            return MemoryAllocation(policy)
        if container is None:
            return static_policy.allocate_pod(policy, self.pod, hint, features)
        return static_policy.allocate(policy, self.pod, container, hint, features)

    def _placement(self, container: str, hint: TopologyHint, allocation: MemoryAllocation) -> Placement:
        blocks = self.state.memory.state.entries.get(self.pod.uid, {}).get(container, ())
        entries = {} if self.state.cpu is None else self.state.cpu.entries
        cpus = entries.get(self.pod.uid, {}).get(container)
        return Placement(container, outcome_of_placement(allocation, hint, blocks), hint, blocks, cpus)


def lacking_on_node(kubelet: Kubelet, state: NodeState, pod: Pod) -> NodeShortage | None:
    """Of what the node as a whole has too little for this pod. For a critical one a kubelet evicts others."""
    if state.capacity is None:
        alone = (
            None if kubelet.allocatable is None else shortage(pod, (), Capacity(kubelet.allocatable), kubelet.features)
        )
        return None if alone is None else replace(alone, used=None)
    if pod.is_critical:
        return None
    others = [one for uid, one in state.pods.items() if uid != pod.uid]
    return shortage(pod, others, state.capacity, kubelet.features)


def _absent_pages(kubelet: Kubelet, state: NodeState, pod: Pod) -> Rejection | None:
    """Huge pages of a size that the machine lacks: no scheduler brings the pod, and the Memory Manager would crash."""
    machine = state.memory.state.machine
    if kubelet.memory_policy == "None" or not machine or not static_policy.is_managed(pod, kubelet.features):
        return None
    known = set.intersection(*({*node.memory_map} for node in machine.values()))
    for name, amount in amounts(node_requests(pod, kubelet.features)).items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in known:
            short = NodeShortage(name, amount, 0, 0)
            crashes = "a kubelet that gets it crashes"
            return Rejection(
                short.reason, short.message, AdmissionOutcome.REJECTED_OTHER, detail=crashes, shortage=short
            )
    return None


def _out_of(kubelet: Kubelet, state: NodeState, pod: Pod) -> Rejection | None:
    found = lacking_on_node(kubelet, state, pod)
    if found is None:
        return None
    return Rejection(found.reason, found.message, AdmissionOutcome.REJECTED_OTHER, shortage=found)


def _containers_of(pods: Mapping[str, Pod]) -> dict[str, frozenset[str]]:
    return {uid: frozenset(one.name for one in pod.all_containers) for uid, pod in pods.items()}
