"""A container's admission in a sentence or two: its request, and the reason for its nodes or for the refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numaudit.containermanager.cpu.hints import cpu_pod
from numaudit.containermanager.memory.candidates import JudgedCandidate, fewest_nodes, largest_by_size
from numaudit.containermanager.memory.group_rules import BrokenRule
from numaudit.containermanager.memory.state import MachineState, MemoryState
from numaudit.containermanager.memory.static_policy import is_managed
from numaudit.containermanager.pod.requests import NOT_INT64, Requests, container_requests, pod_requests
from numaudit.containermanager.pod.spec import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    Pod,
    is_eligible,
    is_memory,
    is_unsupported,
    qos,
    requests_of,
)
from numaudit.containermanager.predicates import PODS, NodeShortage, node_requests
from numaudit.containermanager.topologymanager.hints import IMPOSSIBLE, MergeSteps, Offer
from numaudit.containermanager.topologymanager.policy import RESTRICTED, SINGLE_NUMA_NODE, AdmissionError
from numaudit.containermanager.versions import POD_LEVEL_GATE
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import AdmissionOutcome, Decision, Placement, Rejection
from numaudit.scenario import words
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import at_most, plural

PROVIDERS = ("devices", "cpu", "memory")
_MOST_HOLDERS = 3


def of_container(
    kubelet: Kubelet, admission: Admission, decision: Decision | None, place: Placement, who: str = "It"
) -> str:
    """Of a container that was placed; `who` is the subject."""
    chosen = place.memory_nodes
    if chosen is None:
        return _not_managed(kubelet, admission.pod, place.container, who)
    machine = admission.state.memory.state.machine if decision is None else _before(decision).machine
    requests = _asked(kubelet, admission.pod, place.container, decision)
    needs = _needs(machine, requests, _asker(decision, who))
    return f"{needs} {_sentence(_choice(decision, admission, place, chosen))}"


def of_refusal(
    kubelet: Kubelet, admission: Admission, decision: Decision | None, rejection: Rejection, who: str = "It"
) -> str:
    """Of the container, or the pod, that was refused; `who` is the subject."""
    if rejection.shortage is not None:
        return _sentence("; ".join(filter(None, [_too_little_on_the_node(rejection.shortage), rejection.detail])))
    state = admission.state.memory.state
    requests = _asked(kubelet, admission.pod, rejection.container, decision)
    needs = f"{_needs(state.machine, requests, _asker(decision, who))} " if requests and state.machine else ""
    why = _sentence(_why_refused(kubelet, admission, decision, rejection, requests))
    return " ".join([f"{needs}{why}", *_absent_pages(kubelet, admission.pod)])


def _asker(decision: Decision | None, who: str) -> str:
    """In pod scope the request is that of the whole pod."""
    is_whole = decision is not None and decision.container is None and decision.memory_requests
    return "The pod" if is_whole and who != "It" else who


def _absent_pages(kubelet: Kubelet, pod: Pod) -> Iterator[str]:
    """Sizes of huge pages that are missing besides."""
    known = kubelet.allocatable
    for name in () if known is None else node_requests(pod, kubelet.features):
        if known is not None and name.startswith(HUGEPAGES_PREFIX) and not known.get(name):
            yield f"The node has no {name.removeprefix(HUGEPAGES_PREFIX)} pages, which the pod requests as well."


def _why_refused(
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


def _sentence(clause: str) -> str:
    """With a capital and a full stop."""
    return f"{_capital(clause)}{'' if clause.endswith('.') else '.'}"


def _capital(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}"


def _too_little_on_the_node(short: NodeShortage) -> str:
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


def _before(decision: Decision) -> MemoryState:
    return decision.memory_before.state


def _asked(kubelet: Kubelet, pod: Pod, container: str | None, decision: Decision | None) -> Requests:
    if decision is not None and decision.memory_requests:
        return decision.memory_requests
    if kubelet.memory_policy == "None" or not is_managed(pod, kubelet.features):
        return {}
    try:
        if container is None:
            return pod_requests(pod, kubelet.features)
        return container_requests(pod, pod.container(container), kubelet.features)
    except AdmissionError:
        return {}


def _not_managed(kubelet: Kubelet, pod: Pod, container: str, who: str) -> str:
    if kubelet.memory_policy == "None":
        return "The Memory Manager policy is None, so no memory is promised."
    quality = qos(pod, kubelet.features)
    if quality != "Guaranteed":
        who = "spec.resources" if kubelet.features.counts_pod_level and pod.resources is not None else "each container"
        return (
            f"The pod is {quality}, so the Memory Manager promises it no memory. "
            f"To change that, give {who} limits of cpu and memory that equal its requests."
        )
    if is_unsupported(pod, kubelet.features):
        return (
            "The pod has resources of its own (spec.resources), and the static managers of this kubelet leave such "
            f"pods alone: {POD_LEVEL_GATE} is off."
        )
    if not is_eligible(pod, pod.container(container), kubelet.features):
        return f"{who} would not be Guaranteed by itself, so no memory of the pod is its own."
    return f"{who} requests no memory of its own."


def _needs(machine: MachineState, requests: Requests, who: str) -> str:
    """It needs 15Gi of memory, which takes two nodes: no single node has more than 10Gi allocatable."""
    needs = f"{who} needs {words.request(requests)}"
    fewest = fewest_nodes(machine, requests)
    if fewest is None:
        return f"{needs}, but {_all_together(machine, requests)}."
    if fewest == 1:
        return f"{needs}."
    size = fewest - 1
    which = "no single node has" if size == 1 else f"no {words.number(size)} nodes together have"
    needs = f"{needs}, which takes {words.count_of_nodes(fewest)}: {which}"
    for name, asked in requests.items():
        most = largest_by_size(machine, name)[size][1]
        if most < asked:
            of = "" if name == MEMORY else f" of {name}"
            return f"{needs} more than {words.amount(most)}{of} allocatable."
    return f"{needs} all of it allocatable."


def _all_together(machine: MachineState, requests: Requests) -> str:
    short = [
        f"{words.amount(most)}{'' if name == MEMORY else f' of {name}'}"
        for name, asked in requests.items()
        if (most := largest_by_size(machine, name)[len(machine)][1]) < asked
    ]
    return f"all nodes together have only {words.listed(short)} allocatable"


def _choice(decision: Decision | None, admission: Admission, place: Placement, chosen: NodeSet) -> str:
    if place.outcome is AdmissionOutcome.DEFAULT_HINT or decision is None:
        return f"the Topology Manager has no hint for it, so the Memory Manager chose {chosen.in_words} itself"
    if place.outcome is AdmissionOutcome.EXTENDED:
        merged = (place.hint.affinity or NodeSet()).in_words
        return f"the merged hint is {merged}, which has too little free memory, so it gets {chosen.in_words}"
    if not place.hint.preferred:
        which = "is" if len(chosen) == 1 else "are"
        return f"{_why_not_preferred(decision, admission)}, so it gets {chosen.in_words}, which {which} not preferred"
    kind = {1: "node", 2: "pair"}.get(len(chosen), f"set of {words.number(len(chosen))}")
    verb = "is" if len(chosen) == 1 else "are"
    first = next((one.mask for one in decision.candidates if one.preferred), None)
    if first is None and not decision.candidates:
        return f"the merged hint of the other resources is {chosen.in_words}, so its memory is there"
    if first is None:
        return f"it keeps {chosen.in_words}"
    how = f"the first free {kind}" if first == chosen else f"the first {kind} on which all providers agree"
    return f"{chosen.in_words} {verb} {how}"


def _why_not_preferred(decision: Decision, admission: Admission) -> str:
    if any(one.preferred for one in decision.candidates):
        return f"not all prefer the same nodes ({_preferences(decision.merge)})"
    dead = [one for one in decision.candidates if one.verdict not in (BrokenRule.KEPT, BrokenRule.TOO_SMALL)]
    if not dead:
        return f"not all prefer the same nodes ({_preferences(decision.merge)})"
    narrow = [one for one in dead if len(one.mask) == len(dead[0].mask)]
    return _ruled_out(narrow) + _in_brackets(_holders(decision, admission))


def _ruled_out(candidates: Sequence[JudgedCandidate]) -> str:
    """nodes 0-1 are in a group with other nodes, node 2 has too little free memory"""
    words_of = {
        BrokenRule.IN_A_GROUP: ("is in a group with other nodes", "are in a group with other nodes"),
        BrokenRule.NOT_FREE: ("has too little free memory", "have too little free memory"),
    }
    parts: list[str] = []
    for rule in dict.fromkeys(one.verdict for one in candidates):
        masks = [one.mask for one in candidates if one.verdict is rule]
        if rule not in words_of or len(masks[0]) > 1:
            parts += [f"{one.mask.in_words} {words.verdict(one)}" for one in candidates if one.verdict is rule]
        else:
            alone = NodeSet.from_ids(node for mask in masks for node in mask)
            parts.append(f"{alone.in_words} {words_of[rule][len(alone) > 1]}")
    return ", ".join(parts[:_MOST_HOLDERS])


def _holders(decision: Decision, admission: Admission) -> str:
    """Name the holders of the nodes that the rule of groups keeps apart."""
    conflicts = NodeSet.from_ids(node for one in decision.candidates for node in one.conflicts)
    return holders(_before(decision), conflicts, _names(admission))


def _names(admission: Admission) -> dict[str, str]:
    return {uid: pod.full_name for uid, pod in admission.state.pods.items()}


def _in_brackets(text: str) -> str:
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
    return f"not all prefer the same nodes: {_preferences(merge)}{rule}"


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


def _preferences(merge: MergeSteps) -> str:
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
    return alone + _capital(detail) + _in_brackets(holders(memory, conflicts, _names(admission)))


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
