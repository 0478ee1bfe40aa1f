"""A node's pods for schedulers: their fingerprint, and the placement of containers on single NUMA nodes.

The placement is in the form of numaplacement: a vector of text for each node. Containers are ordered by their hashes.
A node's vector has the places of its containers in that order, each as the distance from the one before. The busiest
node has none: it holds all that are in no vector. A node without containers has none either.

A scheduler counts the containers again, from the pods that it knows, and reads nothing where the numbers differ.

Sources: github.com/k8stopologyawareschedwg/numaplacement (npv0v001) at 05c4e97, pre-alpha; its consumer,
scheduler-plugins at 903da7d: pkg/noderesourcetopology/cache/overreserve.go, resourcerequests/exclusive.go.
github.com/k8stopologyawareschedwg/podfingerprint (pfp0v001).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from xxhash import xxh64_intdigest

from numaudit.containermanager.cpu.topology import Group
from numaudit.containermanager.pod.spec import CPU, Container, Pod, is_memory, qos
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.topology.nodeset import CpuSet, NodeSet

_PREFIX = "pfp0v001"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Fingerprint of (namespace, name) pairs, in any order."""
    hashes = sorted(xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode())) for namespace, name in pods)
    return f"{_PREFIX}{xxh64_intdigest(b''.join(one.to_bytes(8, 'little') for one in hashes)):016x}"


ContainerName = tuple[str, str, str]
"""Namespace, pod, container."""

_ALPHABET = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_TERMINALS = 64
_CONTINUATIONS = len(_ALPHABET) - _TERMINALS


class Placement(NamedTuple):
    """Metadata of the node, and the vectors."""

    metadata: str
    """npv0v001::ve=leb89::cc=<containers>::nn=<highest node + 1>::bn=<busiest node>"""
    vectors: Mapping[int, str]
    """NUMA node -> vector, of all nodes with containers but the busiest."""


def placement_of(kubelet: Kubelet, state: NodeState, in_zones: Collection[str]) -> Placement | None:
    """Placement of the containers that a scheduler counts; None where the node of one of them is not known.

    `in_zones`: the resources that some zone lists.
    """
    node_of: dict[ContainerName, int] = {}
    for pod in state.pods.values():
        for container in _lasting(pod):
            if not _is_counted(pod, container, in_zones):
                continue
            nodes = _nodes(kubelet, state, pod.uid, container.name)
            if len(nodes) != 1 or not nodes <= kubelet.machine.online:
                return None
            node_of[pod.namespace, pod.name, container.name] = min(nodes)
    return placement(node_of, 1 + max(kubelet.machine.online))


def _lasting(pod: Pod) -> tuple[Container, ...]:
    """App containers and sidecars: not those that end before the app containers start."""
    return tuple(one for one in pod.init_containers if one.restarts_always) + pod.containers


def _is_counted(pod: Pod, container: Container, in_zones: Collection[str]) -> bool:
    """Has it resources of its own to a scheduler? It asks the pod alone, not which managers the kubelet has."""
    is_guaranteed = qos(pod) == "Guaranteed"
    for name, asked in container.resources.requests.items():
        if "/" in name and "kubernetes.io/" not in name:
            if name in in_zones:
                return True
        elif is_guaranteed and asked.nano > 0 and (is_memory(name) or (name == CPU and asked.nano % 10**9 == 0)):
            return True
    return False


def _nodes(kubelet: Kubelet, state: NodeState, uid: str, container: str) -> NodeSet:
    """NUMA nodes of what the managers gave it; none = that is not known."""
    nodes = NodeSet()
    for block in state.memory.state.entries.get(uid, {}).get(container, ()):
        nodes |= block.nodes
    if kubelet.cpu is not None and state.cpu is not None:
        cpus = state.cpu.entries.get(uid, {}).get(container, CpuSet())
        by_node = kubelet.cpu.topology.masks[Group.NODE]
        nodes |= NodeSet.from_ids(id_ for id_, mask in by_node.items() if not CpuSet(mask).isdisjoint(cpus))
    return nodes | _of_devices(state, uid, container, nodes)


def _of_devices(state: NodeState, uid: str, container: str, others: NodeSet) -> NodeSet:
    """Nodes of its devices; a device on several nodes adds none if it is near one of the others."""
    nodes = NodeSet()
    held = state.devices.entries.get(uid, {}).get(container, {})
    known = (state.devices.known(resource).get(id_) for resource, ids in held.items() for id_ in ids)
    for near in sorted({one.nodes for one in known if one is not None and one.nodes}, key=len):
        if near.isdisjoint(others | nodes):
            nodes |= near
    return nodes


def placement(node_of: Mapping[ContainerName, int], count: int) -> Placement:
    """Placement of these containers on the nodes below `count`; of equally busy ones the first has no vector."""
    in_order = [node_of[name] for name in sorted(node_of, key=_hash)]
    places = [[place for place, on in enumerate(in_order) if on == node] for node in range(count)]
    busiest = max(range(count), key=lambda node: (len(places[node]), -node))
    return Placement(
        f"npv0v001::ve=leb89::cc={len(in_order)}::nn={count}::bn={busiest}",
        {node: "".join(_deltas(own)) for node, own in enumerate(places) if own and node != busiest},
    )


def _hash(name: ContainerName) -> tuple[int, ContainerName]:
    return xxh64_intdigest("\0".join(name).encode()), name


def _deltas(places: Iterable[int]) -> Iterator[str]:
    before = 0
    for place in places:
        yield leb89(place - before)
        before = place


def leb89(number: int) -> str:
    """A number from 0 on: one character up to 63, else base 25, most significant first, and a last of base 64."""
    if number < _TERMINALS:
        return _ALPHABET[number]
    rest, last = divmod(number - _TERMINALS, _TERMINALS)
    digits = [_ALPHABET[last]]
    while True:
        rest, digit = divmod(rest, _CONTINUATIONS)
        digits.append(_ALPHABET[_TERMINALS + digit])
        if not rest:
            return "".join(reversed(digits))
