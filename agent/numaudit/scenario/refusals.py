"""The reason of a refusal in words: which of a kubelet's checks it was, and the amounts that decided. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaudit.containermanager.cpu.hints import cpu_pod
from numaudit.containermanager.memory.candidates import fewest_nodes, largest_by_size
from numaudit.containermanager.memory.state import MachineState, MemoryState
from numaudit.containermanager.pod.requests import NOT_INT64, Requests
from numaudit.containermanager.pod.spec import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    Pod,
    is_memory,
    requests_of,
)
from numaudit.containermanager.predicates import PODS, NodeShortage
from numaudit.containermanager.topologymanager.hints import IMPOSSIBLE, MergeSteps, Offer
from numaudit.containermanager.topologymanager.policy import RESTRICTED, SINGLE_NUMA_NODE
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import AdmissionOutcome, Decision, Rejection
from numaudit.scenario import words
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import at_most, plural

PROVIDERS = ("devices", "cpu", "memory")
_MOST_HOLDERS = 3


def why_refused(
    kubelet: Kubelet,
    admission: Admission,
    decision: Decision | None,
    rejection: Rejection,
    requests: Requests,
) -> str:
    match rejection.outcome:
        case AdmissionOutcome.REJECTED_AFFINITY if decision is not None:
            return _no_agreement(kubelet, admission, decision.merge)
        case AdmissionOutcome.REJECTED_GROUP_RULE:
            return _group_rule(admission, decision, rejection)
        case AdmissionOutcome.REJECTED_CAPACITY if rejection.detail is not None:
            return _group_rule(admission, decision, rejection)
        case AdmissionOutcome.REJECTED_CAPACITY:
            return _no_room(admission.state.memory.state, requests, decision)
        case AdmissionOutcome.REJECTED_PREFERRED_EXTENSION:
            return "the preferred nodes have too little free memory, and the nodes that have enough are not preferred"
        case _ if NOT_INT64 in rejection.message:
            return _no_whole_bytes(admission.pod, rejection.container, kubelet)
        case _:
            return rejection.message


def _no_whole_bytes(pod: Pod, container: str | None, kubelet: Kubelet) -> str:
    """container side requests 107374182400m of memory, and the Memory Manager takes only whole bytes"""
    asked = [
        f"container {one.name} requests {quantity} of {name}"
        for one in pod.all_containers
        for name, quantity in requests_of(one, kubelet.features).items()
        if container in (None, one.name) and is_memory(name) and quantity.as_int64 is None
    ]
    return f"{words.listed(asked) if asked else 'the pod requests more'}, and the Memory Manager takes only whole bytes"


def capital(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}"


def too_little_on_the_node(short: NodeShortage) -> str:
    """the node has 7500m of cpu for pods; its pods request 7400m of it, and this one 250m"""
    has, asked = (words.of_resource(short.resource, one) for one in (short.capacity, short.requested))
    if short.resource.startswith(HUGEPAGES_PREFIX) and not short.capacity:
        return f"the node has no {short.resource.removeprefix(HUGEPAGES_PREFIX)} pages, and this pod requests {asked}"
    if short.used is None:
        return f"the node has {has} of {short.resource} for all its pods, and this one alone requests {asked}"
    used = words.of_resource(short.resource, short.used)
    if short.resource == PODS:
        return f"the node takes {has} pods and has {used}"
    return f"the node has {has} of {short.resource} for pods; its pods request {used} of it, and this one {asked}"


def names_of(admission: Admission) -> dict[str, str]:
    return {uid: pod.full_name for uid, pod in admission.state.pods.items()}


def in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _no_agreement(kubelet: Kubelet, admission: Admission, merge: MergeSteps) -> str:
    for offer in merge.offers:
        if list(offer.hints) == [IMPOSSIBLE]:
            return _nothing_left(kubelet, admission, _name(offer))
    policy = kubelet.topology.policy
    if policy == SINGLE_NUMA_NODE:
        without = [_name(one) for one in merge.offers if not one.kept]
        if without:
            return (
                f"no single node has {words.listed(without)} for it, and the policy {SINGLE_NUMA_NODE} takes only one"
            )
    rule = f". The policy {RESTRICTED} admits only what all prefer" if policy == RESTRICTED else ""
    return f"not all prefer the same nodes: {preferences(merge)}{rule}"


def _nothing_left(kubelet: Kubelet, admission: Admission, resource: str) -> str:
    """no NUMA node has a whole CPU free (0 of 7)"""
    if resource == CPU and kubelet.cpu is not None and admission.state.cpu is not None:
        if (held := _held_otherwise(kubelet, admission)) is not None:
            return held
        free = len(kubelet.cpu.available(admission.state.cpu))
        of = f"({free} of {len(kubelet.cpu.allocatable)})"
        return f"too few whole CPUs are free {of}" if free else f"no NUMA node has a whole CPU free {of}"
    return f"no NUMA node can provide {resource} (its hints are empty)"


def _held_otherwise(kubelet: Kubelet, admission: Admission) -> str | None:
    """Of a pod that is admitted again: for which of the CPUs that it has the CPU Manager offers no node."""
    pod, state = cpu_pod(admission.pod, kubelet.features), admission.state.cpu
    if state is None:
        return None
    own = state.pod_entries.get(pod.uid)
    if own is not None and len(own) < pod.exclusive:
        return f"the pod has CPUs {own} and asks for {pod.exclusive}, so the CPU Manager offers no node"
    for one in pod.containers:
        held = state.entries.get(pod.uid, {}).get(one.name)
        if held is not None and len(held) != one.exclusive:
            asked = f"{one.exclusive} exclusive" if one.exclusive else "no exclusive one"
            return (
                f"container {one.name} has {plural(len(held), 'CPU')} and asks for {asked}, so the CPU Manager "
                "offers no node"
            )
    return None


def preferences(merge: MergeSteps) -> str:
    """memory prefers 0-1, cpu 0"""
    return ", ".join(_preference(one) for one in merge.offers if one.resource is not None)


def _preference(offer: Offer) -> str:
    masks = [one.affinity for one in offer.kept if one.preferred and one.affinity is not None]
    if masks:
        return f"{_name(offer)} prefers {' or '.join(map(str, masks[:_MOST_HOLDERS]))}"
    left = [one.affinity for one in offer.kept if one.affinity is not None]
    return f"{_name(offer)} has no preferred nodes left" + (
        f" ({left[0]} is possible, but not preferred)" if left else ""
    )


def _name(offer: Offer) -> str:
    return offer.resource or PROVIDERS[offer.provider]


def _group_rule(admission: Admission, decision: Decision | None, rejection: Rejection) -> str:
    detail = rejection.detail or f"{rejection.message.split(',')[0]}"
    memory = admission.state.memory.state
    conflicts = NodeSet()
    if decision is not None:
        judged = [one for one in decision.candidates if one.conflicts]
        named = [one for one in judged if one.rule_in_words == detail] or judged[:1]
        conflicts = NodeSet.from_ids(node for one in named for node in one.conflicts)
    if not conflicts:
        conflicts = NodeSet.from_ids(node for node, table in memory.machine.items() if table.number_of_assignments)
    alone = "" if decision is None else _free_alone(memory.machine, decision.memory_requests)
    return alone + capital(detail) + in_brackets(holders(memory, conflicts, names_of(admission)))


def _free_alone(machine: MachineState, requests: Requests) -> str:
    """No node has 24Gi free (the most: 11Gi, on node 3). Empty where one has, or where none could ever have it."""
    if fewest_nodes(machine, requests) != 1:
        return ""
    for name, asked in requests.items():
        free = {node: table.memory_map[name].free for node, table in machine.items()}
        most = max(free.values())
        if most < asked:
            where = NodeSet.from_ids(node for node, amount in free.items() if amount == most).in_words
            of = "" if name == MEMORY else f" of {name}"
            return f"no node has {words.amount(asked)}{of} free (the most: {at_most(most)}, on {where}). "
    return ""


def holders(memory: MemoryState, on: NodeSet, names: Mapping[str, str]) -> str:
    """Name the pods with memory on these nodes: default/a holds 5Gi on node 0."""
    held: dict[tuple[str, str, NodeSet], int] = {}
    for uid, containers in memory.entries.items():
        for blocks in containers.values():
            for block in blocks:
                what = uid, block.type, NodeSet.from_ids(block.numa_affinity or ())
                held[what] = held.get(what, 0) + block.size
    found = [
        f"{names.get(uid, uid)} holds {words.amount(size)}{'' if type_ == MEMORY else f' of {type_}'} "
        f"on {nodes.in_words}"
        for (uid, type_, nodes), size in held.items()
        if nodes & on
    ]
    more = [f"{len(found) - _MOST_HOLDERS} more"] if len(found) > _MOST_HOLDERS else []
    return ", ".join([*found[:_MOST_HOLDERS], *more])


def _no_room(memory: MemoryState, requests: Requests, decision: Decision | None) -> str:
    for name, asked in requests.items():
        sizes: Sequence[tuple[int, int]] = list(largest_by_size(memory.machine, name).values())
        of = "" if name == MEMORY else f" of {name}"
        free = max((now for now, _ in sizes), default=0)
        narrow = sizes[0][0] if sizes else 0
        if free < asked:
            return f"no nodes that it may use have more than {words.amount(free)}{of} free"
        if decision is not None and narrow < asked:
            merged = decision.merged.affinity
            where = "" if merged is None else f" on {merged.in_words} (the merged hint)"
            return f"too little memory is free{where}, and it may not use more nodes"
    return "the nodes of the merged hint do not have enough free memory"
