"""A container's admission in a sentence or two: its request, and the reason for its nodes or for the refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.containermanager.memory.candidates import JudgedCandidate, fewest_nodes, largest_by_size
from numaudit.containermanager.memory.group_rules import BrokenRule
from numaudit.containermanager.memory.state import MachineState, MemoryState
from numaudit.containermanager.memory.static_policy import is_managed
from numaudit.containermanager.pod.requests import Requests, container_requests, pod_requests
from numaudit.containermanager.pod.spec import (
    HUGEPAGES_PREFIX,
    MEMORY,
    Pod,
    is_eligible,
    is_unsupported,
    qos,
)
from numaudit.containermanager.predicates import node_requests
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import POD_LEVEL_GATE
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import AdmissionOutcome, Decision, Placement, Rejection
from numaudit.scenario import words
from numaudit.scenario.refusals import (
    capital,
    holders,
    in_brackets,
    names_of,
    preferences,
    too_little_on_the_node,
    why_refused,
)
from numaudit.topology.nodeset import NodeSet

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
        return _sentence("; ".join(filter(None, [too_little_on_the_node(rejection.shortage), rejection.detail])))
    state = admission.state.memory.state
    requests = _asked(kubelet, admission.pod, rejection.container, decision)
    needs = f"{_needs(state.machine, requests, _asker(decision, who))} " if requests and state.machine else ""
    why = _sentence(why_refused(kubelet, admission, decision, rejection, requests))
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


def _sentence(clause: str) -> str:
    """With a capital and a full stop."""
    return f"{capital(clause)}{'' if clause.endswith('.') else '.'}"


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
        return f"not all prefer the same nodes ({preferences(decision.merge)})"
    dead = [one for one in decision.candidates if one.verdict not in (BrokenRule.KEPT, BrokenRule.TOO_SMALL)]
    if not dead:
        return f"not all prefer the same nodes ({preferences(decision.merge)})"
    narrow = [one for one in dead if len(one.mask) == len(dead[0].mask)]
    return _ruled_out(narrow) + in_brackets(_holders(decision, admission))


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
    return holders(_before(decision), conflicts, names_of(admission))
