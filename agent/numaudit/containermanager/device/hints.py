"""Topology hints of the Device Manager.

Source: pkg/kubelet/cm/devicemanager/topology_hints.go. The Device Manager ignores a pod's QoS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint, candidate_masks
from numaudit.containermanager.versions import LATEST, LATEST_FEATURES, KubeletFeatures, KubernetesVersion
from numaudit.topology.nodeset import NodeSet

DeviceIds = frozenset[str]


class Device(Struct, frozen=True):
    """A device that a plugin listed."""

    id: str
    nodes: NodeSet | None = None
    """Its NUMA nodes; None = the plugin gives no topology, which is not the same as an empty set."""
    healthy: bool = True


class DeviceState(Struct, frozen=True):
    """Devices that the plugins listed and the Device Manager gave away.

    `reusable` is kept in memory only: what ordinary init containers hold and no later container took over.
    """

    plugins: Mapping[str, Mapping[str, Device]] = field(default_factory=dict)
    """Registered resource name -> device id -> device."""
    entries: Mapping[str, Mapping[str, Mapping[str, DeviceIds]]] = field(default_factory=dict)
    """Pod UID -> container name -> resource name -> ids."""
    reusable: Mapping[str, Mapping[str, DeviceIds]] = field(default_factory=dict)
    """Pod UID -> resource name -> ids."""
    undecided: Mapping[str, Mapping[str, Mapping[str, DeviceIds]]] = field(default_factory=dict)
    """Pod UID -> container name -> resource name -> ids that serve alike. Those of them in `entries` are one
    possibility: a kubelet takes any, as many."""

    def known(self, resource: str) -> Mapping[str, Device]:
        return self.plugins.get(resource, {})

    def healthy(self, resource: str) -> DeviceIds:
        return frozenset(one.id for one in self.known(resource).values() if one.healthy)

    def used(self, resource: str) -> DeviceIds:
        return frozenset().union(*(self.held_by_pod(uid, resource) for uid in self.entries))

    def available(self, resource: str) -> DeviceIds:
        return self.healthy(resource) - self.used(resource)

    def held_by_pod(self, uid: str, resource: str) -> DeviceIds:
        held = self.entries.get(uid, {}).values()
        return frozenset().union(*(one[resource] for one in held if resource in one))

    def decided(self, uid: str, container: str) -> dict[str, tuple[DeviceIds, int, DeviceIds]]:
        """Resource -> what a container certainly holds, and of how many others, any of those that serve alike."""
        undecided = self.undecided.get(uid, {}).get(container, {})
        found: dict[str, tuple[DeviceIds, int, DeviceIds]] = {}
        for resource, ids in self.entries.get(uid, {}).get(container, {}).items():
            alike = undecided.get(resource, frozenset())
            found[resource] = ids - alike, len(ids & alike), alike
        return found

    def is_device(self, resource: str) -> bool:
        """Is this a plugin's resource, now or when something was allocated?"""
        return resource in self.plugins or bool(self.used(resource))

    def has_topology(self, resource: str, version: KubernetesVersion = LATEST) -> bool:
        """Does a device of the resource say where it is? To 1.23 a topology without nodes says so, too."""
        known = self.known(resource).values()
        if version < (1, 28):
            return any(one.nodes is not None for one in known)
        return any(one.nodes for one in known)


def container_requests(state: DeviceState, pod: Pod, name: str) -> dict[str, int]:
    """Number of devices of each resource that a container asks for: its limits."""
    limits = pod.container(name).resources.limits
    return {resource: amount.value for resource, amount in limits.items() if state.is_device(resource)}


def pod_requests(state: DeviceState, pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> dict[str, int]:
    """Number of devices of each resource that a pod needs at once.

    Restartable init containers keep theirs; ordinary ones end before the next container starts. 1.28
    counts them so here, although it treats them as ordinary ones everywhere else.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    apps: dict[str, int] = {}
    for one in pod.all_containers:
        for resource, count in container_requests(state, pod, one.name).items():
            if one.restarts_always and features.version >= (1, 28):
                sidecars[resource] = sidecars.get(resource, 0) + count
            elif one in pod.init_containers:
                peak[resource] = max(peak.get(resource, 0), sidecars.get(resource, 0) + count)
            else:
                apps[resource] = apps.get(resource, 0) + count
    return {
        resource: max(peak.get(resource, 0), sidecars.get(resource, 0) + apps.get(resource, 0))
        for resource in {**sidecars, **peak, **apps}
    }


def hints(
    state: DeviceState,
    uid: str,
    name: str | None,
    requests: Mapping[str, int],
    *,
    nodes: NodeSet,
    version: KubernetesVersion = LATEST,
) -> ProviderHints:
    """The Device Manager's answer about a container; `name` None = in pod scope, where reusable devices do not count.

    `nodes` are the machine's. {} = no devices asked for, {r: None} = no device of r has a node, {r: []} = impossible.
    """
    found: dict[str, list[TopologyHint] | None] = {}
    for resource, request in requests.items():
        if name is None:
            held, reusable = state.held_by_pod(uid, resource) or None, frozenset[str]()
        else:
            held = state.entries.get(uid, {}).get(name, {}).get(resource)
            reusable = state.reusable.get(uid, {}).get(resource, frozenset())
        found[resource] = _hints(state, resource, request, held=held, reusable=reusable, nodes=nodes, version=version)
    return found


def generate_hints(
    known: Mapping[str, Device],
    available: Iterable[str],
    reusable: Iterable[str],
    request: int,
    *,
    nodes: NodeSet,
    version: KubernetesVersion = LATEST,
) -> list[TopologyHint]:
    """Every set of nodes that can give `request` devices, in the kubelet's order; empty = impossible.

    Since 1.36 only nodes that host a known device of the resource are tried (kubernetes/kubernetes#138244).
    Every reusable device with topology must be inside the set. A device without nodes never counts.
    Preferred are the sets of the smallest size that could hold the request if all known devices,
    unhealthy and used ones included, were free.
    """
    if version >= (1, 36):
        hosting = NodeSet(0)
        for device in known.values():
            hosting |= device.nodes or NodeSet()
        nodes = hosting & nodes or nodes
    everywhere = Counter((device.nodes or NodeSet()).mask for device in known.values())
    usable = Counter((_nodes_of(known, one) or NodeSet()).mask for one in available)
    must_have = [of for one in reusable if (of := _nodes_of(known, one)) is not None]
    least = len(nodes)
    fitting: list[NodeSet] = []
    for mask in candidate_masks(nodes):
        if _count_in(everywhere, mask) >= request:
            least = min(least, len(mask))
        if any(of.isdisjoint(mask) for of in must_have):
            continue
        if len(must_have) + _count_in(usable, mask) >= request:
            fitting.append(mask)
    return [TopologyHint(mask, len(mask) == least) for mask in fitting]


def _hints(
    state: DeviceState,
    resource: str,
    request: int,
    *,
    held: DeviceIds | None,
    reusable: DeviceIds,
    nodes: NodeSet,
    version: KubernetesVersion,
) -> list[TopologyHint] | None:
    if not state.has_topology(resource, version):
        return None
    known = state.known(resource)
    if held is not None:
        if len(held) != request:
            return []
        return generate_hints(known, held, (), request, nodes=nodes, version=version)
    available = state.available(resource)
    if len(available | reusable) < request:
        return []
    return generate_hints(known, available, reusable, request, nodes=nodes, version=version)


def _nodes_of(known: Mapping[str, Device], one: str) -> NodeSet | None:
    device = known.get(one)
    return None if device is None else device.nodes


def _count_in(places: Mapping[int, int], mask: NodeSet) -> int:
    """Number of devices that have a node of this set; `places`: their nodes as a bitmask -> how many devices."""
    return sum(count for of, count in places.items() if of & mask.mask)
