"""Topology hints of the static CPU Manager, and the numbers of CPUs that it has given away and may still give.

Source: pkg/kubelet/cm/cpumanager/policy_static.go (GetTopologyHints, GetPodTopologyHints).
"""

from __future__ import annotations

from msgspec import Struct

from numaudit.containermanager.cpu.topology import CPUPolicy, CPUState, CPUTopology, Group
from numaudit.containermanager.pod.spec import (
    CPU,
    Pod,
    is_eligible,
    is_managed_at_pod_level,
    is_sidecar,
    is_unsupported,
    qos,
    requests_of,
)
from numaudit.containermanager.topologymanager.hints import (
    ProviderHints,
    TopologyHint,
    candidate_masks,
    sums_by_mask,
)
from numaudit.containermanager.topologymanager.policy import EMPTY_POD_SHARED_POOL, AdmissionError
from numaudit.containermanager.versions import (
    LATEST_FEATURES,
    KubeletFeatures,
    charges_pods_again,
)
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import Quantities


class CPUContainer(Struct, frozen=True):
    """One container's wish for exclusive CPUs."""

    name: str
    exclusive: int
    """Whole CPUs of its own; 0 = it runs on the shared pool."""
    init: bool = False
    restartable: bool = False
    """A restartable init container (sidecar) of a kubelet that treats them apart from ordinary ones."""


class CPUPod(Struct, frozen=True):
    """A pod's wish for exclusive CPUs."""

    uid: str
    containers: tuple[CPUContainer, ...]
    """Init containers first, in the order of the spec."""
    pod_level: int | None = None
    """Whole CPUs of the pod's own resources, where they are managed; None = not such a pod."""
    managed: bool = True
    """False for pod-level resources that the kubelet cannot manage."""

    def container(self, name: str) -> CPUContainer:
        return next(one for one in self.containers if one.name == name)

    @property
    def exclusive(self) -> int:
        """Whole CPUs that the pod needs at once.

        Restartable init containers keep theirs; ordinary ones end before the next container starts.
        """
        if self.pod_level is not None:
            return self.pod_level
        sidecars = peak = 0
        for one in self.containers:
            if one.init and one.restartable:
                sidecars += one.exclusive
            elif one.init:
                peak = max(peak, sidecars + one.exclusive)
        return max(peak, sidecars + sum(one.exclusive for one in self.containers if not one.init))


def cpu_pod(pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> CPUPod:
    """A pod's request to the CPU Manager: whole CPUs, for Guaranteed pods only.

    A container of a pod that is managed at pod level has CPUs of its own only when it would be
    Guaranteed by itself.
    """
    guaranteed = qos(pod, features) == "Guaranteed"
    init_names = {one.name for one in pod.init_containers}
    containers = tuple(
        CPUContainer(
            one.name,
            _whole_cpus(requests_of(one, features)) if guaranteed and is_eligible(pod, one, features) else 0,
            init=one.name in init_names,
            restartable=is_sidecar(pod, one.name, features),
        )
        for one in pod.all_containers
    )
    pod_level = None
    if is_managed_at_pod_level(pod, features) and pod.resources is not None:
        pod_level = _whole_cpus(pod.resources.requests) if guaranteed else 0
    return CPUPod(pod.uid, containers, pod_level, managed=not is_unsupported(pod, features))


def hints_for_container(policy: CPUPolicy, state: CPUState, pod: CPUPod, name: str) -> ProviderHints:
    """The CPU Manager's answer in container scope: None = no preference, {"cpu": []} = impossible."""
    request = pod.container(name).exclusive
    if request == 0 or not pod.managed:
        return None
    held = state.entries.get(pod.uid, {}).get(name)
    if held is not None:
        return {CPU: generate_hints(policy, held, CpuSet(), request) if len(held) == request else []}
    reusable = state.reusable.get(pod.uid, CpuSet())
    return {CPU: generate_hints(policy, policy.available(state), reusable, request)}


def hints_for_pod(policy: CPUPolicy, state: CPUState, pod: CPUPod) -> ProviderHints:
    """The CPU Manager's answer in pod scope.

    A pod with pod-level resources that has its CPUs already is asked about these, except in 1.36, which looks at its
    containers' one by one.
    """
    request = pod.exclusive
    if request == 0 or not pod.managed:
        return None
    try:
        check_shared_pool(pod)
    except AdmissionError:
        return {CPU: []}
    own = state.pod_entries.get(pod.uid)
    if own is not None and not charges_pods_again(policy.version):
        return {CPU: generate_hints(policy, own, CpuSet(), request)}
    entries = state.entries.get(pod.uid, {})
    assigned = CpuSet()
    for one in pod.containers:
        held = entries.get(one.name)
        if held is None:
            continue
        if len(held) != one.exclusive:
            return {CPU: []}
        assigned |= held
    if len(assigned) == request:
        return {CPU: generate_hints(policy, assigned, CpuSet(), request)}
    reusable = state.reusable.get(pod.uid, CpuSet()) | assigned
    return {CPU: generate_hints(policy, policy.available(state), reusable, request)}


def generate_hints(policy: CPUPolicy, available: CpuSet, reusable: CpuSet, request: int) -> list[TopologyHint]:
    """Every set of nodes that can give `request` CPUs, in the kubelet's order; empty = impossible.

    All reusable CPUs must be inside the set, even when fewer would do. Preferred are the sets of the
    smallest size that could hold the request on an empty machine, reserved CPUs included.
    """
    topology = policy.topology
    usable, must_have = count_by_node(topology, available), count_by_node(topology, reusable)
    size = count_by_node(topology, topology.cpus)
    needed_nodes = NodeSet.from_ids(must_have).mask
    masks = candidate_masks(topology.nodes)
    sizes, free, missing = sums_by_mask(masks, size), sums_by_mask(masks, usable), request - len(reusable)
    least = next((len(mask) for mask in masks if sizes[mask.mask] >= request), len(topology.nodes))
    fitting = [mask for mask in masks if free[mask.mask] >= missing and not needed_nodes & ~mask.mask]
    return [TopologyHint(mask, len(mask) == least or _is_socket_aligned(policy, mask, least)) for mask in fitting]


def check_shared_pool(pod: CPUPod) -> None:
    """Raise AdmissionError when a pod with pod-level CPUs leaves none for containers without their own."""
    if pod.pod_level is None:
        return
    used, shared = 0, False
    for one in pod.containers:
        if one.init and not one.restartable:
            if not one.exclusive and used >= pod.pod_level:
                raise AdmissionError(
                    "pod rejected, pod has shared init containers but no cpus available for them",
                    EMPTY_POD_SHARED_POOL,
                )
        elif one.exclusive:
            used += one.exclusive
        else:
            shared = True
    if shared and used >= pod.pod_level:
        raise AdmissionError(
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers",
            EMPTY_POD_SHARED_POOL,
        )


def _whole_cpus(requests: Quantities) -> int:
    """The cpu request if it is a whole number, to the thousandth; else 0."""
    cpus = requests.get(CPU)
    return cpus.value if cpus is not None and cpus.milli_value == cpus.value * 1000 else 0


def count_by_node(topology: CPUTopology, cpus: CpuSet) -> dict[int, int]:
    """Number of these CPUs on each node. The kubelet counts CPUs that the machine lacks as node 0's."""
    counts = {
        node: count for node, mask in topology.masks[Group.NODE].items() if (count := (mask & cpus.mask).bit_count())
    }
    unknown = len(cpus - topology.cpus)
    if unknown:
        counts[0] = counts.get(0, 0) + unknown
    return counts


def _is_socket_aligned(policy: CPUPolicy, mask: NodeSet, least: int) -> bool:
    """With align-by-socket: does the set span as few sockets as the request needs?"""
    if not policy.options.align_by_socket:
        return False
    topology = policy.topology
    nodes_per_socket = topology.num_numa_nodes // topology.num_sockets
    if nodes_per_socket == 0:
        return False
    sockets = topology.groups_of(Group.SOCKET, topology.cpus_in(Group.NODE, mask))
    return len(sockets) == -(-least // nodes_per_socket)


def free_and_all(policy: CPUPolicy, state: CPUState) -> dict[int, tuple[int, int]]:
    """NUMA node -> CPUs that may still be given to a container exclusively, and all that ever may."""
    free = count_by_node(policy.topology, policy.available(state) & policy.topology.cpus)
    every = count_by_node(policy.topology, policy.allocatable)
    return {node: (free.get(node, 0), every.get(node, 0)) for node in policy.topology.nodes}
