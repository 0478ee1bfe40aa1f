"""Rules about promises: stale ones, and those that do not fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.causes import remedies
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about, alive
from numaudit.intent import Intent
from numaudit.topology.sizes import in_units

_OF_A_COMMAND = (
    "Set `topologyManagerPolicy` to restricted or single-numa-node in the configuration of `numaudit run`, so that "
    "CPUs and memory are chosen together, and start the command again."
)
"""Remedy where `numaudit run` chose both."""


def _stale(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.containers:
        if one.is_stale and one.promise.memory:
            size = sum(block.size for block in one.promise.memory)
            yield about(
                one,
                f"the kubelet still promises it {in_units(size)} on node "
                f"{one.promise.memory_nodes}, but its pod is gone",
            )
        elif one.has_ended and one.promise.memory and any(block.size for block in one.promise.memory):
            size = sum(block.size for block in one.promise.memory)
            yield about(
                one,
                f"the kubelet still promises it {in_units(size)} on node "
                f"{one.promise.memory_nodes}, but the container has ended",
            )


def _cpu_memory_disagree(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in alive(evidence.intent):
        memory, cpus = one.promise.memory_nodes, one.promise.cpus
        if not memory or not cpus:
            continue
        cpu_nodes = evidence.snapshot.machine.nodes_of_cpus(cpus)
        if not cpu_nodes <= memory:
            are = "is" if len(cpus) == 1 else "are"
            where = f"{are} on {cpu_nodes.in_words}, but its promised memory is on {memory.in_words}"
            text = f"its exclusive {cpus.in_words} {where}"
            found = about(one, text, cpu_nodes - memory)
            yield found._replace(remedy=_remedy(evidence.intent))


def _remedy(intent: Intent) -> str | None:
    """None = that of the rule."""
    return remedies.remedy_for_split_resources(intent) or (None if intent.promised_by == "kubelet" else _OF_A_COMMAND)


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
)
