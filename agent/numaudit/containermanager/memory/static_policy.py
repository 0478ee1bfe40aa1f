"""The static Memory Manager: hints for the Topology Manager, allocation, release.

Source: pkg/kubelet/cm/memorymanager/{policy_static,memory_manager}.go. All functions are pure: they
take what the policy remembers and return what it remembers afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containermanager.memory import candidates
from numaudit.containermanager.memory.candidates import calculate_hints, find_best_hint
from numaudit.containermanager.memory.group_rules import breaks_a_group
from numaudit.containermanager.memory.state import (
    Block,
    MachineState,
    MemoryState,
    Reusable,
    charge,
    release,
    shrink_init_blocks,
    update_reusable,
)
from numaudit.containermanager.pod.requests import Requests, container_requests, divide, pod_requests, shared_pool_error
from numaudit.containermanager.pod.spec import MEMORY, Pod, is_sidecar, is_unsupported, qos
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.containermanager.topologymanager.policy import EMPTY_POD_SHARED_POOL, AdmissionError
from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures, charges_pods_again
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet

NO_DEFAULT = "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
NO_PREFERRED_DEFAULT = "[memorymanager] failed to find the default preferred hint"
NO_EXTENSION = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
NO_PREFERRED_EXTENSION = "[memorymanager] failed to find the extended preferred hint"
GROUP_VIOLATION = "[memorymanager] preferred hint violates NUMA node allocation"

NO_HINT = TopologyHint(None, preferred=False)
"""The Topology Manager's answer for a container for which it has stored nothing."""


class MemoryPolicy(Struct, frozen=True):
    """The state of the static policy."""

    state: MemoryState
    """The content of the state file."""
    reusable: Mapping[str, Reusable] = field(default_factory=dict)
    """Pod UID -> what its init containers leave. In RAM only, so a kubelet restart loses it."""


class MemoryAllocation(Struct, frozen=True):
    """The state after an allocation, and the nodes of the allocation (None = nowhere)."""

    policy: MemoryPolicy
    affinity: NodeSet | None = None


def is_managed(pod: Pod, features: KubeletFeatures) -> bool:
    """Does the static policy give this pod's containers memory of their own?"""
    return qos(pod, features) == "Guaranteed" and not is_unsupported(pod, features)


def container_hints(
    policy: MemoryPolicy, pod: Pod, container: str, features: KubeletFeatures = LATEST_FEATURES
) -> ProviderHints:
    """The policy's answer for one container (`GetTopologyHints`)."""
    if not is_managed(pod, features):
        return None
    try:
        requests = container_requests(pod, pod.container(container), features)
    except AdmissionError:
        return None  # the kubelet logs it here; Allocate refuses the pod for it
    held = policy.state.entries.get(pod.uid, {}).get(container)
    if held is not None:
        return _regenerate(held, requests)
    return calculate_hints(policy.state.machine, requests, policy.reusable.get(pod.uid))


def pod_hints(policy: MemoryPolicy, pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> ProviderHints:
    """The policy's answer for a whole pod (`GetPodTopologyHints`)."""
    if not is_managed(pod, features):
        return None
    try:
        requests = pod_requests(pod, features)
        pool_error = shared_pool_error(pod, features)
    except AdmissionError:
        return None
    if pool_error is not None:
        return {name: [] for name in requests}
    if not requests:
        return None
    own = policy.state.pod_entries.get(pod.uid)
    if own is not None and not charges_pods_again(features.version):
        return _regenerate(own, requests)
    for container in pod.all_containers:
        held = policy.state.entries.get(pod.uid, {}).get(container.name)
        if held is not None:
            return _regenerate(held, requests)
    return calculate_hints(policy.state.machine, requests, policy.reusable.get(pod.uid))


def allocate(
    policy: MemoryPolicy,
    pod: Pod,
    container: str,
    hint: TopologyHint = NO_HINT,
    features: KubeletFeatures = LATEST_FEATURES,
) -> MemoryAllocation:
    """Give a container its memory on the nodes of the topology hint, or near them (`Allocate`).

    Raises AdmissionError with the kubelet's text; then nothing has changed.
    """
    if not is_managed(pod, features):
        return MemoryAllocation(policy)
    held = policy.state.entries.get(pod.uid, {}).get(container)
    if held is not None:
        reusable = update_reusable(policy.reusable, pod, container, held, features)
        return MemoryAllocation(replace(policy, reusable=reusable), _nodes_of(held))
    requests = container_requests(pod, pod.container(container), features)
    handed_on = policy.reusable.get(pod.uid, {})
    mask = choose_nodes(policy.state.machine, requests, handed_on, hint, features)
    blocks = _blocks(mask, requests)
    machine = policy.state.machine
    for block in blocks:
        reused = handed_on.get(mask, {}).get(block.type, 0)
        machine = charge(machine, tuple(mask), block.type, max(0, block.size - reused))
    containers = shrink_init_blocks(policy.state.entries.get(pod.uid, {}), pod, container, blocks, features)
    state = replace(
        policy.state,
        machine=machine,
        entries={**policy.state.entries, pod.uid: {**containers, container: blocks}},
    )
    reusable = update_reusable(policy.reusable, pod, container, blocks, features)
    return MemoryAllocation(MemoryPolicy(state, reusable), mask)


def allocate_pod(
    policy: MemoryPolicy, pod: Pod, hint: TopologyHint = NO_HINT, features: KubeletFeatures = LATEST_FEATURES
) -> MemoryAllocation:
    """Give a pod with pod-level resources its memory at once, and divide it (`AllocatePod`).

    A pod that has its memory already keeps it, except in 1.36, which charges it again and replaces
    its blocks, as it does when a restarted kubelet admits its pods again. Raises AdmissionError; then
    nothing has changed.
    """
    if not is_managed(pod, features):
        return MemoryAllocation(policy)
    held = policy.state.pod_entries.get(pod.uid)
    if held is not None and not charges_pods_again(features.version):
        return MemoryAllocation(policy, _nodes_of(held))
    pool_error = shared_pool_error(pod, features)
    if pool_error is not None:
        raise AdmissionError(pool_error, EMPTY_POD_SHARED_POOL)
    requests = pod_requests(pod, features)
    mask = choose_nodes(policy.state.machine, requests, policy.reusable.get(pod.uid, {}), hint, features)
    machine = policy.state.machine
    for name, size in requests.items():
        machine = charge(machine, tuple(mask), name, size)
    containers = {name: _blocks(mask, share) for name, share in divide(pod, requests, features).items()}
    state = MemoryState(
        machine,
        {**policy.state.entries, pod.uid: containers},
        {**policy.state.pod_entries, pod.uid: _blocks(mask, requests)},
    )
    return MemoryAllocation(replace(policy, state=state), mask)


def choose_nodes(
    machine: MachineState, requests: Requests, handed_on: Reusable, hint: TopologyHint, features: KubeletFeatures
) -> NodeSet:
    """The nodes for a request: those of the hint, or the policy's default, extended where they lack memory.

    Whether they lack memory is decided without what init containers hand on, although the hints
    count it. Raises AdmissionError, and InputError for a hint that names absent nodes or a resource that
    they do not have.
    """
    best = hint
    if best.affinity is None:
        offered = calculate_hints(machine, requests, handed_on)
        if not offered:
            raise AdmissionError(NO_DEFAULT)
        best = find_best_hint(offered.get(MEMORY) or ())
        if hint.preferred and not best.preferred:
            raise AdmissionError(NO_PREFERRED_DEFAULT)
    mask = _checked(best.affinity, machine)
    if any(candidates.sum_free(machine, mask, name) < size for name, size in requests.items()):
        offered = calculate_hints(machine, requests, handed_on)
        wider = [one for one in offered.get(MEMORY) or () if one.affinity is not None and mask <= one.affinity]
        if not wider:
            raise AdmissionError(NO_EXTENSION)
        extended = find_best_hint(wider)
        if best.preferred and not extended.preferred:
            raise AdmissionError(NO_PREFERRED_EXTENSION)
        mask = _checked(extended.affinity, machine)
    if features.checks_groups_on_allocation and breaks_a_group(machine, mask):
        raise AdmissionError(GROUP_VIOLATION)
    return mask


def add_container(
    policy: MemoryPolicy, pod: Pod, container: str, features: KubeletFeatures = LATEST_FEATURES
) -> MemoryPolicy:
    """A container is about to start: ordinary init containers before it have ended (`AddContainer`)."""
    for init in pod.init_containers:
        if init.name == container:
            break
        if not is_sidecar(pod, init.name, features):
            policy = remove_container(policy, pod.uid, init.name)
    return policy


def remove_container(policy: MemoryPolicy, pod_uid: str, container: str) -> MemoryPolicy:
    """Release what a container holds (`RemoveContainer`); a container that holds nothing is no error.

    Memory of a pod that is managed as one is released with the last of its containers.
    """
    containers = policy.state.entries.get(pod_uid, {})
    blocks = containers.get(container)
    if blocks is None:
        return policy
    rest = {name: held for name, held in containers.items() if name != container}
    entries = {uid: held for uid, held in policy.state.entries.items() if uid != pod_uid}
    if rest:
        entries[pod_uid] = rest
    pod_entries = policy.state.pod_entries
    if pod_uid in pod_entries:
        if rest:
            return replace(policy, state=replace(policy.state, entries=entries))
        blocks = pod_entries[pod_uid]
        pod_entries = {uid: held for uid, held in pod_entries.items() if uid != pod_uid}
    state = MemoryState(release(policy.state.machine, blocks), entries, pod_entries)
    return replace(policy, state=state)


def remove_stale_state(policy: MemoryPolicy, active: Mapping[str, Pod]) -> MemoryPolicy:
    """Remove every container that no active pod (by UID) has (`removeStaleState`).

    The kubelet does this when it is asked about a pod, and only then: until the next admission a
    state file may list pods that are long gone.
    """
    for uid, containers in policy.state.entries.items():
        pod = active.get(uid)
        alive = () if pod is None else {one.name for one in pod.all_containers}
        for name in containers:
            if name not in alive:
                policy = remove_container(policy, uid, name)
    return policy


def memory_nodes(state: MemoryState, pod_uid: str, container: str) -> NodeSet | None:
    """The nodes of a container's memory (`GetMemoryNUMANodes`); None = it is not pinned."""
    return _nodes_of(state.entries.get(pod_uid, {}).get(container, ()))


def cpuset_mems(nodes: NodeSet | None) -> str:
    """The text the kubelet gives to the container runtime: `0,1`, never a range; empty = not pinned."""
    return ",".join(str(id_) for id_ in nodes or ())


def _blocks(mask: NodeSet, requests: Requests) -> tuple[Block, ...]:
    return tuple(Block(tuple(mask), name, size) for name, size in requests.items())


def _regenerate(blocks: Sequence[Block], requests: Requests) -> ProviderHints:
    """The hints for a request whose memory is held already; None when it is another request by now."""
    if len(blocks) != len(requests):
        return None
    hints: dict[str, Sequence[TopologyHint]] = {}
    for block in blocks:
        if requests.get(block.type) != block.size:
            return None
        hints[block.type] = [TopologyHint(NodeSet.from_ids(block.numa_affinity or ()), preferred=True)]
    return hints


def _nodes_of(blocks: Sequence[Block]) -> NodeSet | None:
    nodes = NodeSet.from_ids(id_ for block in blocks for id_ in block.numa_affinity or ())
    return nodes or None


def _checked(mask: NodeSet | None, machine: MachineState) -> NodeSet:
    absent = [id_ for id_ in mask or () if id_ not in machine]
    if mask is None or absent:
        raise InputError(f"the hint {mask} names NUMA nodes that the machine does not have: {absent}")
    return mask
