"""Sets of nodes that could hold a request, and the reasons that rule out the others.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints, findBestHint).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from numaudit.containermanager.memory.group_rules import (
    BrokenRule,
    conflicts_of,
    grouped_nodes,
    groups_of,
    rule_against,
)
from numaudit.containermanager.memory.state import MachineState, Reusable, table_of
from numaudit.containermanager.pod.requests import Requests
from numaudit.containermanager.topologymanager.hints import TopologyHint, candidate_masks
from numaudit.encoding.go_json import UINT64
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet


class Shortage(Struct, frozen=True):
    """The shortage of one resource on a set of nodes, in bytes."""

    resource: str
    requested: int
    available: int


class JudgedCandidate(Struct, frozen=True):
    """One candidate with the reason why it is no hint."""

    mask: NodeSet
    verdict: BrokenRule
    preferred: bool = False
    shortages: tuple[Shortage, ...] = ()
    """For TOO_SMALL and NOT_FREE."""
    conflicts: tuple[int, ...] = ()
    """For IN_A_GROUP and BREAKS_A_GROUP: the nodes that forbid it."""

    @property
    def rule_in_words(self) -> str:
        """nodes 0-1 together have the memory, but ..."""
        if self.verdict is BrokenRule.IN_A_GROUP:
            return f"node {self.mask} has the memory, but it is in a group with other nodes"
        nodes = NodeSet.from_ids(self.conflicts)
        which = "them" if nodes == self.mask else nodes.in_words
        return f"nodes {self.mask} together have the memory, but containers use {which} alone or in another group"


class _Candidate(Struct, frozen=True):
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
        if verdict is BrokenRule.KEPT
    )
    return dict.fromkeys(requests, hints) if hints else {}


def judge_candidates(
    machine: MachineState, requests: Requests, reusable: Reusable | None = None
) -> tuple[JudgedCandidate, ...]:
    """Every candidate with its judgement, in the kubelet's order. Raises as `calculate_hints`."""
    reusable = reusable or {}
    verdicts, fewest = _examine(machine, requests, reusable)
    judged: list[JudgedCandidate] = []
    for candidate, verdict in zip(_candidates(_nodes(machine)), verdicts, strict=True):
        mask = candidate.mask
        judged.append(
            JudgedCandidate(
                mask,
                verdict,
                preferred=verdict is BrokenRule.KEPT and candidate.size == fewest,
                shortages=_shortages(machine, mask, verdict, requests, reusable.get(mask, {})),
                conflicts=conflicts_of(machine, mask, verdict),
            )
        )
    return tuple(judged)


def kept_apart(
    machine: MachineState, requests: Requests, reusable: Reusable, within: NodeSet | None
) -> JudgedCandidate | None:
    """The first candidate that has the memory and breaks the rule of groups; None = none does.

    `within`: the nodes of the hint, which the candidate must hold; None = any. Raises as `calculate_hints`.
    """
    if not requests:
        return None
    candidates = _candidates(_nodes(machine))
    _check_resources(machine, requests)
    have_free = _have_free(candidates, machine, requests, reusable)
    if not any(have_free):
        return None
    groups, grouped = groups_of(machine), grouped_nodes(machine)
    for candidate, has_free in zip(candidates, have_free, strict=True):
        mask = candidate.mask
        if has_free and (within is None or within <= mask):
            verdict = rule_against(candidate.mask, candidate.size, groups, grouped)
            if verdict is not None:
                return JudgedCandidate(mask, verdict, conflicts=conflicts_of(machine, mask, verdict))
    return None


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


def largest_by_size(
    machine: MachineState, resource: str, limit: Callable[[NodeSet], int] | None = None
) -> dict[int, tuple[int, int]]:
    """Number of nodes -> the largest request that a set of that size can take now, and could when empty; 0 = none.

    `limit`: the most that a set of nodes can give now, whatever the map says. Raises as `calculate_hints`.
    """
    _check_resources(machine, {resource: 0})
    candidates, groups, grouped = _candidates(_nodes(machine)), groups_of(machine), grouped_nodes(machine)
    free, capacity = (_sums(candidates, machine, resource, column, {}) for column in ("free", "allocatable"))
    largest: dict[int, tuple[int, int]] = {}
    for one, now, empty in zip(candidates, free, capacity, strict=True):
        is_open = rule_against(one.mask, one.size, groups, grouped) is None
        most_now, most_empty = largest.get(one.size, (0, 0))
        most = min(now, empty) if is_open else 0
        if most > most_now and limit is not None:
            most = min(most, limit(one.mask))
        largest[one.size] = max(most_now, most), max(most_empty, empty)
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


def sum_free(machine: MachineState, mask: NodeSet, resource: str) -> int:
    """Free bytes of the nodes together. Raises InputError where one does not have the resource."""
    return sum(table_of(machine, id_, resource).free for id_ in mask) & UINT64


def _examine(machine: MachineState, requests: Requests, reusable: Reusable) -> tuple[list[BrokenRule], int]:
    """A verdict for each candidate, and the smallest number of nodes that could hold the request when empty.

    That number depends on capacity alone, not on what is free or in groups.
    """
    candidates = _candidates(_nodes(machine))
    _check_resources(machine, requests)
    could_hold = [True] * len(candidates)
    for name, asked in requests.items():
        could_hold = _reach(could_hold, _sums(candidates, machine, name, "allocatable", {}), asked)
    have_free = _have_free(candidates, machine, requests, reusable)
    groups, grouped = groups_of(machine), grouped_nodes(machine)
    fewest = len(machine)
    verdicts: list[BrokenRule] = []
    for candidate, can_hold, has_free in zip(candidates, could_hold, have_free, strict=True):
        if not can_hold:
            verdicts.append(BrokenRule.TOO_SMALL)
            continue
        fewest = min(fewest, candidate.size)
        against = rule_against(candidate.mask, candidate.size, groups, grouped)
        verdicts.append(against or (BrokenRule.KEPT if has_free else BrokenRule.NOT_FREE))
    return verdicts, fewest


def _have_free(
    candidates: Sequence[_Candidate], machine: MachineState, requests: Requests, reusable: Reusable
) -> list[bool]:
    """For each candidate, True when it has the request free, with what is handed on to this very set of nodes."""
    have_free = [True] * len(candidates)
    for name, asked in requests.items():
        handed_on = {mask: left[name] for mask, left in reusable.items() if name in left}
        have_free = _reach(have_free, _sums(candidates, machine, name, "free", handed_on), asked)
    return have_free


def _reach(so_far: list[bool], sums: list[int], asked: int) -> list[bool]:
    return [yes and has >= asked for yes, has in zip(so_far, sums, strict=True)]


def _shortages(
    machine: MachineState, mask: NodeSet, verdict: BrokenRule, requests: Requests, handed_on: Mapping[str, int]
) -> tuple[Shortage, ...]:
    if verdict is BrokenRule.TOO_SMALL:
        has = {name: sum(machine[id_].memory_map[name].allocatable for id_ in mask) & UINT64 for name in requests}
    elif verdict is BrokenRule.NOT_FREE:
        has = {name: (sum_free(machine, mask, name) + handed_on.get(name, 0)) & UINT64 for name in requests}
    else:
        return ()
    return tuple(Shortage(name, asked, has[name]) for name, asked in requests.items() if has[name] < asked)


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
