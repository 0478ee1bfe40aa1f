"""Memory, CPUs and devices that the pods on a node hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from numaudit.containermanager.memory.state import Block
from numaudit.containermanager.pod.spec import MEMORY, Pod
from numaudit.containermanager.predicates import PODS, Amounts
from numaudit.containermanager.versions import LATEST_FEATURES
from numaudit.memorymanager.admission import NodeState, lacking_on_node
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.scenario import words
from numaudit.topology.nodeset import CpuSet, NodeSet


def holders(state: NodeState) -> list[str]:
    """UIDs of the active pods that hold something, the one that holds least first."""
    cpus = {} if state.cpu is None else state.cpu.entries

    def held(uid: str) -> tuple[int, int]:
        return sum(block.size for block in blocks(state, uid)), sum(len(own) for own in cpus.get(uid, {}).values())

    holding = {*state.memory.state.entries, *cpus, *state.devices.entries}
    return sorted((uid for uid in state.pods if uid in holding), key=held)


def removable_pods(kubelet: Kubelet, state: NodeState, pod: Pod) -> list[str]:
    """UIDs of the pods without which there is more room for this one, the one that holds least first.

    Where the node as a whole has too little, these are also pods that hold nothing of their own.
    """
    holding = holders(state)
    short = lacking_on_node(kubelet, state, pod)
    if short is None or short.used is None:
        return holding
    others = (uid for uid in state.pods if uid not in holding)
    return [*(uid for uid in others if short.resource == PODS or request_to_node(state, uid)), *holding]


def request_to_node(state: NodeState, uid: str) -> Amounts:
    """A pod's request to the node as a whole; nothing where that is not added up."""
    return {} if state.capacity is None else state.capacity.of_pod(state.pods[uid], LATEST_FEATURES)


def blocks(state: NodeState, uid: str) -> Iterator[Block]:
    """The memory and huge pages of a pod's containers."""
    for of_container in state.memory.state.entries.get(uid, {}).values():
        yield from of_container


def nodes_of(state: NodeState, uid: str) -> NodeSet:
    """The nodes of its memory."""
    return NodeSet.from_ids(node for block in blocks(state, uid) for node in block.numa_affinity or ())


def memory_of(state: NodeState, uid: str) -> int:
    """Bytes, without huge pages."""
    return sum(block.size for block in blocks(state, uid) if block.type == MEMORY)


def kind_of(state: NodeState, uid: str) -> Hashable:
    """Equal for two pods whose removal leaves the same behind; a CPU or a device is only ever held by one."""
    memory = sorted((block.numa_affinity or (), block.type, block.size) for block in blocks(state, uid))
    cpus = {} if state.cpu is None else state.cpu.entries.get(uid, {})
    devices = [ids for resources in state.devices.entries.get(uid, {}).values() for ids in resources.values()]
    return tuple(memory), frozenset(cpus.values()), frozenset(devices), frozenset(request_to_node(state, uid).items())


def in_words(state: NodeState, uid: str) -> str:
    """1Gi of memory on node 0 and CPUs 1-2: of all its containers together"""
    amounts: dict[tuple[str, NodeSet], int] = {}
    for block in blocks(state, uid):
        what = block.type, NodeSet.from_ids(block.numa_affinity or ())
        amounts[what] = amounts.get(what, 0) + block.size
    parts = [f"{words.amount(size)} of {type_} on {nodes.in_words}" for (type_, nodes), size in amounts.items()]
    own = {} if state.cpu is None else state.cpu.entries.get(uid, {})
    cpus = CpuSet.from_ids(one for of_container in own.values() for one in of_container)
    parts += [cpus.in_words] if cpus else []
    for container in state.devices.entries.get(uid, {}):
        for resource, (certain, count, alike) in state.devices.decided(uid, container).items():
            names = [*sorted(certain), *([words.any_of(count, sorted(alike))] if count else [])]
            parts.append(f"{resource} {words.listed(names)}")
    return words.listed(parts) if parts else _asked_in_words(state, uid)


def _asked_in_words(state: NodeState, uid: str) -> str:
    asked = request_to_node(state, uid)
    parts = [f"{words.of_resource(name, asked[name])} of {name}" for name in sorted(asked)]
    return words.listed(parts) if parts else "nothing of its own"
