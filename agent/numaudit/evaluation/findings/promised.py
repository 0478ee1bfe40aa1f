"""Rules about promises: stale ones, those that do not fit each other, and those that memory may lack for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numaudit.evaluation.causes import remedies
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.evaluation.room.huge_pages import huge_pages_of
from numaudit.intent import ContainerIntent, Intent
from numaudit.snapshot import NodeMemory, Resident
from numaudit.topology.nodeset import NodeSet
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
            yield _of(
                one,
                f"the kubelet still promises it {in_units(size)} on node "
                f"{one.promise.memory_nodes}, but its pod is gone",
            )
        elif one.has_ended and one.promise.memory and any(block.size for block in one.promise.memory):
            size = sum(block.size for block in one.promise.memory)
            yield _of(
                one,
                f"the kubelet still promises it {in_units(size)} on node "
                f"{one.promise.memory_nodes}, but the container has ended",
            )


def _cpu_memory_disagree(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in _alive(evidence.intent):
        memory, cpus = one.promise.memory_nodes, one.promise.cpus
        if not memory or not cpus:
            continue
        cpu_nodes = evidence.snapshot.machine.nodes_of_cpus(cpus)
        if not cpu_nodes <= memory:
            are = "is" if len(cpus) == 1 else "are"
            where = f"{are} on {cpu_nodes.in_words}, but its promised memory is on {memory.in_words}"
            text = f"its exclusive {cpus.in_words} {where}"
            found = _of(one, text, cpu_nodes - memory)
            yield found._replace(remedy=_remedy(evidence.intent))


def _remedy(intent: Intent) -> str | None:
    """None = that of the rule."""
    return remedies.remedy_for_split_resources(intent) or (None if intent.promised_by == "kubelet" else _OF_A_COMMAND)


def _device_remote(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in _alive(evidence.intent):
        memory = one.promise.memory_nodes
        for devices in one.promise.devices or ():
            if memory and devices.nodes and devices.nodes.isdisjoint(memory):
                ids = ", ".join(devices.ids[:3])
                text = (
                    f"{devices.resource} ({ids}) is on {devices.nodes.in_words}, but the promised "
                    f"memory is on {memory.in_words}"
                )
                apart = remedies.remedy_for_split_resources(evidence.intent)
                yield _of(one, text, devices.nodes)._replace(remedy=apart)


def _oom_risk(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Promised but not yet resident memory that free and reclaimable pages of its nodes cannot give.

    All promises within a set of nodes draw on the same pages, so they are added up for each set.
    """
    outstanding = _outstanding(evidence)
    yield from _oom_risk_of_huge_pages(evidence)
    by_mask: Counter[int] = Counter()  # a number is its own hash, and there are a thousand sets
    for _, nodes, size in outstanding:
        by_mask[nodes.mask] += size
    sums = {NodeSet(mask): size for mask, size in by_mask.items()}
    for nodes in sums:
        available = _available(evidence.snapshot.nodes, nodes)
        wanted = sum(size for within, size in sums.items() if within <= nodes)
        if available is None or wanted <= available:
            continue
        for one, within, size in outstanding:
            if within == nodes and size:
                text = (
                    f"{in_units(size)} of its promised memory is not resident yet; all promises on node {nodes} may "
                    f"still claim {in_units(wanted)}, but only {in_units(available)} are free or reclaimable there"
                )
                yield _of(one, text, nodes)


def _oom_risk_of_huge_pages(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Promised huge pages that are not used yet, and that the pools of their nodes do not have.

    Nothing else makes room for them: pages of a pool are neither reclaimed nor swapped nor demoted.
    """
    for of_size in huge_pages_of(evidence.snapshot):
        for nodes in of_size.room.unclaimed:
            within = [one for one in of_size.claims if one.nodes <= nodes]
            sizes, free = [one.unclaimed for one in within], of_size.room.free_on(nodes)
            wanted = sum(filter(None, sizes))
            if free is None or None in sizes or wanted <= free:
                continue
            for one in within:
                if one.nodes == nodes and one.unclaimed:
                    text = (
                        f"{in_units(one.unclaimed)} of its promised {of_size.type} are not used yet; all promises on "
                        f"{nodes.in_words} may still claim {in_units(wanted)}, but only {in_units(free)} are "
                        "free in the kernel's pool there: its mmap(2) or first touch would fail"
                    )
                    yield _of(one.container, text, nodes)


def _outstanding(evidence: TickEvidence) -> list[tuple[ContainerIntent, NodeSet, int]]:
    """Each container with its nodes and the bytes of type memory that it may still ask of them."""
    found = []
    residency: Mapping[Any, Resident] = evidence.snapshot.residency
    for one in _alive(evidence.intent):
        nodes = one.promise.memory_nodes
        if nodes is None or not nodes.mask:
            continue
        resident = [residency[cgroup] for cgroup in one.cgroups if cgroup in residency]
        if not resident or len(resident) < len(one.cgroups):
            continue
        left = sum([block.size for block in one.promise.memory or () if block.type == "memory"])
        for each in resident:
            # Page cache counts towards a container's limit too, but the kernel can drop it when asked for more.
            left -= sum(each.anon.values()) if each.anon else 0
            left -= sum(each.shmem.values()) if each.shmem else 0
        found.append((one, nodes, max(0, left)))
    return found


def _available(memory: Sequence[NodeMemory], nodes: NodeSet) -> int | None:
    by_node: Mapping[int, NodeMemory] = {one.node: one for one in memory}
    total = 0
    for node in nodes:
        one = by_node.get(node)
        if one is None or one.free is None:
            return None
        total += one.free + (one.reclaimable or 0)
    return total


def _alive(intent: Intent) -> Iterator[ContainerIntent]:
    return (one for one in intent.containers if not one.is_stale and not one.has_ended)


def _of(one: ContainerIntent, text: str, nodes: NodeSet | None = None) -> RuleResult:
    return RuleResult(
        text,
        container_id=one.cgroups[0] if len(one.cgroups) == 1 else None,
        pod_uid=one.pod_uid,
        container=one.name,
        numa_nodes=nodes if nodes is not None else one.promise.memory_nodes,
        namespace=one.namespace,
        pod=one.pod,
    )


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
        "device-remote",
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, and recreate the pod.",
        _device_remote,
    ),
    Rule(
        "oom-risk",
        "critical",
        "Move pods that are not Guaranteed off the node, or raise --reserved-memory of these NUMA nodes: when the "
        "promised memory is used, the kernel must kill a process.",
        _oom_risk,
    ),
)
