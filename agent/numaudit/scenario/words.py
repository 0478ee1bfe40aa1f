"""Sizes, sets of nodes and verdicts as a sentence names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaudit.containermanager.memory.candidates import JudgedCandidate
from numaudit.containermanager.memory.group_rules import BrokenRule
from numaudit.containermanager.pod.spec import CPU, MEMORY
from numaudit.containermanager.predicates import in_unit
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity, in_units, some_of

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
_LONGEST = 7
_NAMED = 8
"""Devices that serve alike: a network card may have hundreds of virtual functions."""


def amount(size: int) -> str:
    """Bytes as Kubernetes writes them: 15Gi; rounded where that would be long: 737.5Mi."""
    exact = str(Quantity.of(size))
    return exact if len(exact) <= _LONGEST else in_units(size)


def of_resource(resource: str, amount_: int) -> str:
    """An amount in the scheduler's unit: 7500m, 1536Mi, 3; so exact that sums can be checked."""
    return f"{amount_}m" if resource == CPU else str(in_unit(resource, amount_))


def number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def count_of_nodes(count: int) -> str:
    """one node, two nodes"""
    return f"{number(count)} node{'' if count == 1 else 's'}"


def listed(names: Iterable[object]) -> str:
    """0; 0 and 1; 0, 1 and 2"""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def any_of(count: int, ids: Sequence[str]) -> str:
    """one of nic0, nic2"""
    return f"{number(count)} of {some_of(ids, _NAMED)}"


def request(sizes: Mapping[str, int]) -> str:
    """15Gi of memory; 4Gi of memory and 1Gi of hugepages-1Gi"""
    return listed(f"{amount(size)} of {name}" for name, size in sizes.items())


def hint(one: TopologyHint) -> str:
    """0-1, preferred"""
    return f"{_affinity(one)}, {'preferred' if one.preferred else 'not preferred'}"


def hints(some: Iterable[TopologyHint] | None) -> str:
    """node 0 or 1 (3 more are not preferred); the preferred ones by name"""
    if some is None:
        return "no preference"
    listed = tuple(some)
    if not listed:
        return "no node fits"
    preferred = [_affinity(one) for one in listed if one.preferred]
    others = len(listed) - len(preferred)
    more = f" ({others} more {'is' if others == 1 else 'are'} not preferred)" if others else ""
    return f"{_one_of(preferred)}{more}"


def _one_of(sets: Sequence[str]) -> str:
    """node 0, 1 or 2; nodes 0 or 0-1; no preferred node"""
    if not sets:
        return "no preferred node"
    word = "node" if all(one.isdecimal() for one in sets) else "nodes"
    *first, last = sets
    text = f"{', '.join(first)} or {last}" if first else last
    return "any node" if "any" in sets else f"{word} {text}"


def _affinity(one: TopologyHint) -> str:
    return "any" if one.affinity is None else str(one.affinity)


def verdict(candidate: JudgedCandidate) -> str:
    """The verdict on a candidate, with its numbers."""
    match candidate.verdict:
        case BrokenRule.KEPT:
            return "preferred" if candidate.preferred else "possible, not preferred"
        case BrokenRule.TOO_SMALL | BrokenRule.NOT_FREE:
            what = "allocatable" if candidate.verdict is BrokenRule.TOO_SMALL else "free"
            of = [
                f"{amount(one.available)}{'' if one.resource == MEMORY else f' of {one.resource}'} {what}, "
                f"{amount(one.requested)} needed"
                for one in candidate.shortages
            ]
            return f"{candidate.verdict}: {'; '.join(of)}" if of else str(candidate.verdict)
        case BrokenRule.IN_A_GROUP:
            return f"{candidate.verdict}: containers use the node together with others"
        case BrokenRule.BREAKS_A_GROUP:
            conflicts = NodeSet.from_ids(candidate.conflicts)
            return f"{candidate.verdict}: containers use {conflicts.in_words} alone or in another group"
