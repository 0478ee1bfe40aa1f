"""The rule about memory that was promised and may be lacking when it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about
from numaudit.evaluation.room.huge_pages import huge_pages_of
from numaudit.evaluation.room.movable import available, movable_from
from numaudit.intent.node import ContainerIntent
from numaudit.snapshot import Resident
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units


def _oom_risk(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Promised but not yet resident memory for which its nodes have too few pages that are free or reclaimable, or that
    the kernel can swap or demote.

    All promises within a set of nodes draw on the same pages, so they are added up for each set.
    """
    outstanding = _outstanding(evidence)
    yield from _oom_risk_of_huge_pages(evidence)
    by_mask: Counter[int] = Counter()  # a number is its own hash, and there are a thousand sets
    for _, nodes, size in outstanding:
        by_mask[nodes.mask] += size
    sums = {NodeSet(mask): size for mask, size in by_mask.items()}
    for nodes in sums:
        free = available(evidence.snapshot.nodes, nodes)
        wanted = sum(size for within, size in sums.items() if within <= nodes)
        if free is None or wanted <= free:
            continue
        movable = movable_from(nodes, evidence.snapshot)
        if wanted <= free + movable.at_most:
            continue
        for one, within, size in outstanding:
            if within == nodes and size:
                text = (
                    f"{in_units(size)} of its promised memory is not resident yet; all promises on node {nodes} may "
                    f"still claim {in_units(wanted)}, but only {in_units(free)} are free or reclaimable there"
                    f"{movable.in_words}"
                )
                yield about(one, text, nodes)


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
                    yield about(one.container, text, nodes)


def _outstanding(evidence: TickEvidence) -> list[tuple[ContainerIntent, NodeSet, int]]:
    """Each container with its nodes and the bytes of type memory that it may still ask of them."""
    found = []
    residency: Mapping[Any, Resident] = evidence.snapshot.residency
    for one in evidence.intent.alive:
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


RULES = (
    Rule(
        "oom-risk",
        "critical",
        "Move pods that are not Guaranteed off the node, or raise --reserved-memory of these NUMA nodes: when the "
        "promised memory is used, the kernel must kill a process.",
        _oom_risk,
    ),
)
