"""Would the kubelet of a node admit a pod? By the annotations of its NodeResourceTopology alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from clusters.nrt_rebuilt import Rebuilt, rebuilt
from numaudit.containermanager.device.hints import DeviceState, container_requests
from numaudit.containermanager.memory.static_policy import is_managed
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.policy import CONTAINER_SCOPE, NONE, KubeletHangs
from numaudit.errors import InputError, ParseError
from numaudit.memorymanager.admission import Admission, admit
from numaudit.memorymanager.outcome import AdmissionOutcome

_MISALIGNED = (AdmissionOutcome.DEGRADED, AdmissionOutcome.EXTENDED)
_PARTS = {
    "memory": "the memory map",
    "cpus": "the CPUs",
    "devices": "the devices",
    "costs": "the distances between nodes",
}


class FilterAnswer(Struct, frozen=True):
    """Yes, no, or cannot tell."""

    admits: bool | None
    """None = the annotations cannot tell."""
    reason: str | None = None
    """Reason of a no, in the kubelet's words, or reason why they cannot tell; None = yes."""
    is_aligned: bool | None = None
    """Of a yes: False = some container would get memory on other nodes than the kubelet prefers (`degraded`,
    `extended`), so that a scheduler may look for a better node."""


def would_admit(annotations: Mapping[str, str], pod: object) -> FilterAnswer:
    """Would the kubelet's managers admit this pod now?

    `annotations`: of the node's NodeResourceTopology. `pod`: a v1 Pod in plain values, which is not on the node yet.
    Whether the node as a whole has enough of each resource is not asked: every scheduler counts that itself. Raises
    InputError for what is no Pod.
    """
    one = read_pod(pod)
    try:
        node = rebuilt(annotations)
    except ParseError as error:
        return FilterAnswer(None, str(error))
    unknown = next(_unknown(node, one), None)
    if unknown is not None:
        return FilterAnswer(None, unknown)
    try:
        admission = admit(node.kubelet, node.state, one)
    except (InputError, KubeletHangs) as error:  # such a pod crashes a kubelet, or a value contradicts another
        return FilterAnswer(None, str(error))
    if _is_by_chance(node, admission):
        return FilterAnswer(None, "it depends on which of several free devices a container gets first")
    if admission.rejection is None:
        return FilterAnswer(True, None, all(each.outcome not in _MISALIGNED for each in admission.placements))
    rejection = admission.rejection
    detail = "" if rejection.detail is None else f" ({rejection.detail})"
    return FilterAnswer(False, f"{rejection.reason}: {rejection.message}{detail}")


def _unknown(node: Rebuilt, pod: Pod) -> Iterator[str]:
    """Reasons why nothing can be said of this pod."""
    extended = {name for one in pod.all_containers for name in one.resources.limits if "/" in name}
    needed = {"devices": bool(extended), "costs": True}
    for part in sorted(node.missing):
        if needed.get(part, is_managed(pod, node.kubelet.features)):
            yield f"{_PARTS[part]} of the node are not published (numaudit.io/{part})"
    unplaced = sorted(extended & node.unplaced)
    if unplaced and node.kubelet.topology.policy != NONE:
        yield f"the NUMA nodes of the free {unplaced[0]} are not known"


def _is_by_chance(node: Rebuilt, admission: Admission) -> bool:
    """May the kubelet take one device or another for a container, so that a later one has other hints?

    It takes any of those that are near. They serve alike if they are on the same node, and there are enough.
    """
    if node.kubelet.topology.scope != CONTAINER_SCOPE:
        return False
    state, pod = node.state.devices, admission.pod
    wanted = {one.name: container_requests(state, pod, one.name) for one in pod.all_containers}
    users = Counter(resource for asked in wanted.values() for resource, count in asked.items() if count)
    hints = {decision.container: decision.merged.affinity for decision in admission.decisions}
    for resource in (resource for resource, times in users.items() if times > 1):
        places = _free_by_place(state, resource)
        if len(places) < 2:
            continue
        for container, asked in wanted.items():
            if not asked.get(resource) or container not in hints:
                continue
            affinity = hints[container]
            near = 0 if affinity is None or len(affinity) != 1 else places.get(affinity.mask, 0)
            if near < asked[resource] or any(mask.bit_count() != 1 for mask in places):
                return True
            places[affinity.mask if affinity is not None else 0] -= asked[resource]
    return False


def _free_by_place(state: DeviceState, resource: str) -> Counter[int]:
    """Nodes as a bitmask -> free devices there; 0 = on no node."""
    known = state.known(resource)
    return Counter(nodes.mask if (nodes := known[one].nodes) else 0 for one in state.available(resource))
