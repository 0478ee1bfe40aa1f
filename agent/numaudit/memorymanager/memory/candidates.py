"""Which sets of nodes could hold a request, and what rules out the others.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints, findBestHint).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from numaudit.errors import InputError
from numaudit.memorymanager.go.json import UINT64
from numaudit.memorymanager.memory.machine_state import table_of
from numaudit.memorymanager.memory.state import MachineState
from numaudit.memorymanager.pod.requests import Requests
from numaudit.memorymanager.topologymanager.hints import TopologyHint, candidate_masks
from numaudit.topology.nodeset import NodeSet

Reusable = Mapping[NodeSet, Mapping[str, int]]
"""What a pod's ended init containers leave to its next containers: set of nodes -> resource -> bytes."""


class Verdict(StrEnum):
    """What became of a candidate: the first rule that it breaks."""

    KEPT = "kept"
    TOO_SMALL = "too-small"
    """The nodes could not hold the request even when empty."""
    IN_A_GROUP = "in-a-group"
    """The single node belongs to a group, so it takes no single-node assignment."""
    BREAKS_A_GROUP = "breaks-a-group"
    """A node has assignments of its own, or belongs to a group of other nodes."""
    NOT_FREE = "not-free"
    """The nodes have too little free memory now."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is missing of one resource on a set of nodes, in bytes."""

    resource: str
    requested: int
    available: int


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """One candidate with the reason why it is no hint."""

    mask: NodeSet
    verdict: Verdict
    preferred: bool = False
    shortages: tuple[Shortage, ...] = ()
    """For TOO_SMALL and NOT_FREE."""
    conflicts: tuple[int, ...] = ()
    """For IN_A_GROUP and BREAKS_A_GROUP: the nodes that forbid it."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    mask: NodeSet
    size: int
    parent: int
    """Index of the candidate without the last node; -1 for a single node."""
    last: int
    """Id of the last node."""
    preferred: TopologyHint
    not_preferred: TopologyHint


def calculate_hints(
    machine: MachineState, requests: Requests, reusable: Reusable | None = None
) -> dict[str, Sequence[TopologyHint]]:
    """The hints for a request: the same list for every resource, in the kubelet's order.

    When no set of nodes is left, or nothing is asked for, there is no key at all.
    Raises InputError for a resource that a node of the machine does not have.
    """
    if not requests:
        return {}
    verdicts, fewest = _examine(machine, requests, reusable or {})
    hints = tuple(
        candidate.preferred if candidate.size == fewest else candidate.not_preferred
        for candidate, verdict in zip(_candidates(_nodes(machine)), verdicts, strict=True)
        if verdict is Verdict.KEPT
    )
    return dict.fromkeys(requests, hints) if hints else {}


def judge_candidates(
    machine: MachineState, requests: Requests, reusable: Reusable | None = None
) -> tuple[JudgedCandidate, ...]:
    """Every candidate with what became of it, in the kubelet's order. Raises as `calculate_hints`."""
    reusable = reusable or {}
    verdicts, fewest = _examine(machine, requests, reusable)
    judged: list[JudgedCandidate] = []
    for candidate, verdict in zip(_candidates(_nodes(machine)), verdicts, strict=True):
        mask = candidate.mask
        judged.append(
            JudgedCandidate(
                mask,
                verdict,
                preferred=verdict is Verdict.KEPT and candidate.size == fewest,
                shortages=_shortages(machine, mask, verdict, requests, reusable.get(mask, {})),
                conflicts=_conflicts(machine, mask, verdict),
            )
        )
    return tuple(judged)


def fewest_nodes(machine: MachineState, requests: Requests) -> int | None:
    """The smallest number of nodes that could hold a request when empty; None = not even all of them could.

    Raises as `calculate_hints`.
    """
    _check_resources(machine, requests)
    for candidate in _candidates(_nodes(machine)):
        nodes = [machine[id_].memory_map for id_ in candidate.mask]
        if all(sum(node[name].allocatable for node in nodes) & UINT64 >= asked for name, asked in requests.items()):
            return candidate.size
    return None


def largest_by_size(machine: MachineState, resource: str) -> dict[int, tuple[int, int]]:
    """Number of nodes -> the largest request that a set of that size can take now, and could when empty; 0 = none.

    Raises as `calculate_hints`.
    """
    _check_resources(machine, {resource: 0})
    candidates, groups, grouped = _candidates(_nodes(machine)), _groups(machine), _grouped(machine)
    free, capacity = (_sums(candidates, machine, resource, column, {}) for column in ("free", "allocatable"))
    largest: dict[int, tuple[int, int]] = {}
    for one, now, empty in zip(candidates, free, capacity, strict=True):
        is_open = _rule_against(one, groups, grouped) is None
        most_now, most_empty = largest.get(one.size, (0, 0))
        largest[one.size] = max(most_now, min(now, empty) if is_open else 0), max(most_empty, empty)
    return largest


def find_best_hint(hints: Iterable[TopologyHint]) -> TopologyHint:
    """The narrowest preferred hint, else the narrowest. Raises InputError when there is none."""
    best: TopologyHint | None = None
    for hint in hints:
        if hint.affinity is not None and (best is None or _is_better(hint, hint.affinity, best)):
            best = hint
    if best is None:
        raise InputError("the request names no memory at all, so no node can be chosen: a kubelet would crash here")
    return best


def breaks_a_group(machine: MachineState, mask: NodeSet) -> bool:
    """Would an assignment to these nodes overlap another group, or a node with assignments of its own?"""
    return _breaks(_groups(machine), mask.mask, len(mask))


def sum_free(machine: MachineState, mask: NodeSet, resource: str) -> int:
    """Free bytes of the nodes together. Raises InputError where one does not have the resource."""
    return sum(table_of(machine, id_, resource).free for id_ in mask) & UINT64


def _examine(machine: MachineState, requests: Requests, reusable: Reusable) -> tuple[list[Verdict], int]:
    """A verdict for each candidate, and the smallest number of nodes that could hold the request when empty.

    That number depends on capacity alone, not on what is free or in groups.
    """
    candidates = _candidates(_nodes(machine))
    _check_resources(machine, requests)
    could_hold = [True] * len(candidates)
    have_free = could_hold
    for name, asked in requests.items():
        handed_on = {mask: left[name] for mask, left in reusable.items() if name in left}
        could_hold = _reach(could_hold, _sums(candidates, machine, name, "allocatable", {}), asked)
        have_free = _reach(have_free, _sums(candidates, machine, name, "free", handed_on), asked)
    groups, grouped = _groups(machine), _grouped(machine)
    fewest = len(machine)
    verdicts: list[Verdict] = []
    for candidate, can_hold, has_free in zip(candidates, could_hold, have_free, strict=True):
        if not can_hold:
            verdicts.append(Verdict.TOO_SMALL)
            continue
        fewest = min(fewest, candidate.size)
        against = _rule_against(candidate, groups, grouped)
        verdicts.append(against or (Verdict.KEPT if has_free else Verdict.NOT_FREE))
    return verdicts, fewest


def _reach(so_far: list[bool], sums: list[int], asked: int) -> list[bool]:
    return [yes and has >= asked for yes, has in zip(so_far, sums, strict=True)]


def _shortages(
    machine: MachineState, mask: NodeSet, verdict: Verdict, requests: Requests, handed_on: Mapping[str, int]
) -> tuple[Shortage, ...]:
    if verdict is Verdict.TOO_SMALL:
        has = {name: sum(machine[id_].memory_map[name].allocatable for id_ in mask) & UINT64 for name in requests}
    elif verdict is Verdict.NOT_FREE:
        has = {name: (sum_free(machine, mask, name) + handed_on.get(name, 0)) & UINT64 for name in requests}
    else:
        return ()
    return tuple(Shortage(name, asked, has[name]) for name, asked in requests.items() if has[name] < asked)


def _conflicts(machine: MachineState, mask: NodeSet, verdict: Verdict) -> tuple[int, ...]:
    if verdict is Verdict.IN_A_GROUP:
        return tuple(mask)
    if verdict is Verdict.BREAKS_A_GROUP:
        return tuple(
            NodeSet.from_ids(
                id_ for members, group in _groups(machine) if mask.mask != group for id_ in mask & NodeSet(members)
            )
        )
    return ()


def _rule_against(candidate: _Candidate, groups: Sequence[tuple[int, int]], grouped: int) -> Verdict | None:
    """The group rule that the candidate breaks, if any; `grouped` is the bitmask of the nodes in groups."""
    if candidate.size == 1 and candidate.mask.mask & grouped:
        return Verdict.IN_A_GROUP
    return Verdict.BREAKS_A_GROUP if _breaks(groups, candidate.mask.mask, candidate.size) else None


def _grouped(machine: MachineState) -> int:
    """The nodes that belong to a group of several, as a bitmask."""
    return NodeSet.from_ids(id_ for id_, node in machine.items() if len(node.cells or ()) > 1).mask


def _breaks(groups: Sequence[tuple[int, int]], mask: int, size: int) -> bool:
    if size > 1:
        for members, group in groups:
            if mask & members and mask != group:
                return True
    return False


def _groups(machine: MachineState) -> list[tuple[int, int]]:
    """For the nodes with assignments: which nodes have the same cells, and these cells, both as bitmasks.

    A node outside any group has itself as cells.
    """
    groups: dict[int, int] = {}
    for id_, node in machine.items():
        if node.number_of_assignments > 0:
            group = NodeSet.from_ids(node.cells or ()).mask
            groups[group] = groups.get(group, 0) | 1 << id_
    return [(members, group) for group, members in groups.items()]


def _sums(
    candidates: Sequence[_Candidate],
    machine: MachineState,
    resource: str,
    column: Literal["allocatable", "free"],
    extra: Mapping[NodeSet, int],
) -> list[int]:
    """The column summed over the nodes of each candidate, plus `extra` of that very candidate, modulo 2^64."""
    values = {id_: getattr(node.memory_map[resource], column) for id_, node in machine.items()}
    sums: list[int] = []
    for one in candidates:
        value = values[one.last]
        sums.append(value if one.parent < 0 else (sums[one.parent] + value) & UINT64)
    if extra:
        return [(has + extra.get(one.mask, 0)) & UINT64 for one, has in zip(candidates, sums, strict=True)]
    return sums


def _nodes(machine: MachineState) -> NodeSet:
    return NodeSet.from_ids(machine)


def _check_resources(machine: MachineState, requests: Requests) -> None:
    for id_, node in machine.items():
        for name in requests:
            if name not in node.memory_map:
                raise InputError(
                    f"NUMA node {id_} has no {name} at all, a kubelet would crash here; "
                    f"ask for one of {', '.join(sorted(node.memory_map))}"
                )


@lru_cache(maxsize=8)
def _candidates(nodes: NodeSet) -> tuple[_Candidate, ...]:
    """All sets of one or more nodes, by size and then in order. Computed once for each machine."""
    index_of: dict[int, int] = {0: -1}
    candidates: list[_Candidate] = []
    for mask in candidate_masks(nodes):
        last = mask.mask.bit_length() - 1
        candidates.append(
            _Candidate(
                mask,
                len(mask),
                parent=index_of[mask.mask & ~(1 << last)],
                last=last,
                preferred=TopologyHint(mask, preferred=True),
                not_preferred=TopologyHint(mask, preferred=False),
            )
        )
        index_of[mask.mask] = len(candidates) - 1
    return tuple(candidates)


def _is_better(hint: TopologyHint, affinity: NodeSet, best: TopologyHint) -> bool:
    if hint.preferred != best.preferred:
        return hint.preferred
    return best.affinity is not None and affinity.is_narrower_than(best.affinity)
