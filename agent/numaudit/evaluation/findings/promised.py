"""Rules about promises: stale ones, and those that do not fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.causes import remedies
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_OF_A_COMMAND = (
    "Set `topologyManagerPolicy` to restricted or single-numa-node in the configuration of `numaudit run`, so that "
    "CPUs and memory are chosen together, and start the command again."
)
"""Remedy where `numaudit run` chose both."""
OF_CLAIMS = (
    "The Topology Manager does not align resource claims. Claim CPUs, memory and devices of one node (by a selector on "
    "resource.kubernetes.io/numaNode), and leave out the request that makes the kubelet promise the same resource."
)


def _stale(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.containers:
        memory, nodes = one.managers.memory, one.managers.memory_nodes
        if one.is_stale and memory:
            size = sum(block.size for block in memory)
            yield about(one, f"the kubelet still promises it {in_units(size)} on node {nodes}, but its pod is gone")
        elif one.has_ended and memory and any(block.size for block in memory):
            size = sum(block.size for block in memory)
            yield about(
                one, f"the kubelet still promises it {in_units(size)} on node {nodes}, but the container has ended"
            )


def _cpu_memory_disagree(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.alive:
        if one.claims:
            yield from _disagreement_with_claims(evidence, one)
            continue
        memory, cpus = one.promise.memory_nodes, one.promise.cpus
        if not memory or not cpus:
            continue
        cpu_nodes = evidence.snapshot.machine.nodes_of_cpus(cpus)
        if cpu_nodes is not None and not cpu_nodes <= memory:
            are = "is" if len(cpus) == 1 else "are"
            where = f"{are} on {cpu_nodes.in_words}, but its promised memory is on {memory.in_words}"
            text = f"its exclusive {cpus.in_words} {where}"
            found = about(one, text, cpu_nodes - memory)
            yield found._replace(remedy=_remedy(evidence.intent))


def _disagreement_with_claims(evidence: TickEvidence, one: ContainerIntent) -> Iterator[RuleResult]:
    """Each source of CPUs and memory with its nodes, as soon as two of them do not fit each other."""
    nodes_of = evidence.snapshot.machine.nodes_of_cpus
    sources = [("the kubelet", one.managers.cpus, one.managers.memory_nodes)]
    sources += [(claim.in_words, claim.cpus, claim.memory_nodes) for claim in one.claims]
    cpus = [(who, held, nodes_of(held)) for who, held, _ in sources if held]
    memory = [(who, nodes) for who, _, nodes in sources if nodes]
    on = NodeSet.from_ids(node for _, nodes in memory for node in nodes)
    outside = NodeSet.from_ids(node for _, _, nodes in cpus for node in nodes or () if on and node not in on)
    of_kubelet = one.managers.memory_nodes
    apart = bool(of_kubelet) and any(nodes != of_kubelet for _, nodes in memory)
    twice = bool(one.managers.cpus) and one.managers.cpus != one.promise.cpus
    if outside or apart or twice:
        where = {nodes: "" if nodes is None else f" on {nodes.in_words}" for _, _, nodes in cpus}
        said = [f"{held.in_words}{where[nodes]} by {who}" for who, held, nodes in cpus]
        said += [f"memory on {nodes.in_words} by {who}" for who, nodes in memory]
        yield about(one, f"its promises do not fit each other: {'; '.join(said)}", outside or on)._replace(
            remedy=OF_CLAIMS
        )


def _remedy(intent: Intent) -> str | None:
    """None = that of the rule."""
    return remedies.remedy_for_split_resources(intent) or (None if intent.promised_by == "kubelet" else _OF_A_COMMAND)


def _claim_unknown(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.alive:
        for claim in one.claims:
            if claim.problem is not None:
                yield about(one, f"what {claim.in_words} promises is unknown: {claim.problem}", NodeSet())


RULES = (
    Rule(
        "stale",
        "warning",
        "The memory manager frees it at the next admission of any pod: start one, or restart the kubelet with the "
        "node drained. Until then new pods may be refused although the memory is free.",
        _stale,
    ),
    Rule(
        "cpu-memory-disagree",
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, so that CPUs and memory are chosen together, "
        "and recreate the pod.",
        _cpu_memory_disagree,
    ),
    Rule(
        "claim-unknown",
        "info",
        "See docs/dra.md for the drivers and formats that are known. Where a CDI file is missing, see that the driver "
        "runs.",
        _claim_unknown,
    ),
)
