"""Whether memory was there, and only the rule of groups forbade it.

The Memory Manager keeps nodes that serve a container alone apart from nodes that serve one together. Where
that rule leaves no set of nodes, the kubelet speaks of a lack of memory all the same (KAI-Scheduler#2013).

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints).
"""

from __future__ import annotations

from dataclasses import replace

from numaudit.memorymanager.memory.candidates import JudgedCandidate, Reusable, Verdict, judge_candidates
from numaudit.memorymanager.memory.state import MachineState
from numaudit.memorymanager.pod.requests import Requests
from numaudit.topology.nodeset import NodeSet


def kept_apart(
    machine: MachineState, requests: Requests, reusable: Reusable, within: NodeSet | None
) -> JudgedCandidate | None:
    """The first set of nodes that has the memory and breaks the rule of groups; None = no set has it.

    `within`: the nodes of the hint, which the set must hold; None = any set. Raises InputError where the
    map lacks a resource that is asked for.
    """
    if not requests:
        return None
    without_groups = {id_: replace(node, number_of_assignments=0, cells=(id_,)) for id_, node in machine.items()}
    has_memory = {
        one.mask for one in judge_candidates(without_groups, requests, reusable) if one.verdict is Verdict.KEPT
    }
    for one in judge_candidates(machine, requests, reusable):
        is_forbidden = one.verdict in (Verdict.IN_A_GROUP, Verdict.BREAKS_A_GROUP)
        if is_forbidden and one.mask in has_memory and (within is None or within <= one.mask):
            return one
    return None


def in_words(forbidden: JudgedCandidate) -> str:
    """nodes 0-1 have the memory, but ..."""
    nodes = NodeSet.from_ids(forbidden.conflicts)
    if forbidden.verdict is Verdict.IN_A_GROUP:
        return f"node {forbidden.mask} has the memory, but it is in a group with other nodes"
    serves = f"node {nodes} serves" if len(nodes) == 1 else f"nodes {nodes} serve"
    return f"nodes {forbidden.mask} have the memory, but {serves} containers alone or in another group"
