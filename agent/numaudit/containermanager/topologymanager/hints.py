"""Topology hints and how the Topology Manager merges them.

Source: pkg/kubelet/cm/topologymanager/{policy*,numa_info}.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache

from msgspec import Struct, field

from numaudit.containermanager.topologymanager.policy import (
    BEST_EFFORT,
    NONE,
    POLICIES,
    SINGLE_NUMA_NODE,
    Distances,
    TopologyOptions,
)
from numaudit.containermanager.versions import LATEST, MERGES_EQUAL_HINTS, KubernetesVersion
from numaudit.encoding.go_syntax import quote
from numaudit.encoding.value import Value
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet


class TopologyHint(Value, frozen=True):
    """One candidate of a provider."""

    affinity: NodeSet | None = field(name="nodes")
    """The set of nodes; null = any."""
    preferred: bool
    """Is it preferred, that is as narrow as possible?"""


ProviderHints = Mapping[str, Sequence[TopologyHint] | None] | None
"""A provider's answer by resource. The shapes differ in meaning: None or {} = no preference at all;
{r: None} = no preference for r; {r: []} = impossible; {r: [...]} = these."""


class MergeResult(Struct, frozen=True):
    """The hint that all providers have to follow, and whether the pod may start."""

    hint: TopologyHint
    admit: bool


class Offer(Struct, frozen=True):
    """The hints for one resource of one provider, as the merge takes them."""

    provider: int
    """Its place in the order in which the kubelet asks."""
    resource: str | None
    """None = the provider has no preference at all."""
    hints: Sequence[TopologyHint]
    kept: Sequence[TopologyHint]
    """Those that the policy lets take part: all but under single-numa-node."""


SLOW_COMBINATIONS = 500_000_000
"""The kubelet walks some 16 million a second: 255^4 took 258 s (kubernetes#137700)."""
_PER_SECOND = 255**4 / 258


class MergeSteps(Struct, frozen=True):
    """Record of how a merge came to its result. Sets of nodes are bitmasks."""

    offers: Sequence[Offer]
    """Empty under policy none."""
    agreed: Set[int]
    """The sets on which a preferred hint of each offer agrees."""
    reachable: Set[int]
    """Nodes that some combination of hints leaves; computed only where all hints do not agree."""
    goal: int
    """Number of nodes that a hint which is not preferred should have; 0 = any number, or no provider was asked."""
    finalists: Set[int]
    """Of these the narrowest (with distances the nearest, then the lowest) is taken; empty = none was left."""
    result: MergeResult

    @property
    def seconds(self) -> float | None:
        """Seconds that a kubelet is busy with this merge; None = too short to matter."""
        return self.combinations / _PER_SECOND if self.combinations >= SLOW_COMBINATIONS else None

    @property
    def combinations(self) -> int:
        """Number of combinations of hints that the kubelet itself walks through; here sets of masks are enough."""
        return math.prod(len(one.kept) for one in self.offers) if self.offers else 0


MOST_NODES = 16
"""Candidates are all sets of nodes, 2^n of them; with more nodes than this we would take too long."""
_NEVER_ENDS = 30
"""Nodes from which on a kubelet, at some microseconds for each set, takes an hour and more."""

LARGEST_ID = 63
"""Of a node in the kubelet's masks. Source: pkg/kubelet/cm/topologymanager/bitmask/bitmask.go (Add)."""

NO_PREFERENCE = TopologyHint(None, True)
IMPOSSIBLE = TopologyHint(None, False)


def require_ids(nodes: NodeSet) -> None:
    """Raises InputError for a machine on which a kubelet crashes as soon as it makes a mask of all its nodes."""
    beyond = NodeSet.from_ids(node for node in nodes if node > LARGEST_ID)
    if beyond:
        raise InputError(
            f"cannot tell: this machine has {beyond.in_words}, and a kubelet's masks have ids up to {LARGEST_ID} only: "
            "it crashes when it looks for nodes for a container; use the policies none of Topology and Memory Manager"
        )


@lru_cache(maxsize=8)
def candidate_masks(nodes: NodeSet) -> tuple[NodeSet, ...]:
    """Every set of these nodes, in the order in which providers try them.

    Raises InputError beyond MOST_NODES, and for ids at which a kubelet crashes.
    """
    require_ids(nodes)
    if len(nodes) > MOST_NODES:
        never = ", so it practically never ends the admission (kubernetes/kubernetes#135541)"
        raise InputError(
            f"cannot tell: a kubelet tries all 2^{len(nodes)} sets of the {len(nodes)} NUMA nodes, those without CPUs "
            f"included{never if len(nodes) >= _NEVER_ENDS else ''}; at most {MOST_NODES} nodes are tried here"
        )
    return tuple(nodes.subsets())


def sums_by_mask(masks: Sequence[NodeSet], amounts: Mapping[int, int]) -> dict[int, int]:
    """Bitmask -> what its nodes have together. `masks` as `candidate_masks` gives them, `amounts` by node."""
    sums = {0: 0}
    for one in masks:
        lowest = one.mask & -one.mask
        sums[one.mask] = sums[one.mask ^ lowest] + amounts.get(lowest.bit_length() - 1, 0)
    return sums


def merge(
    hints: Sequence[ProviderHints],
    *,
    policy: str,
    nodes: NodeSet,
    options: TopologyOptions = TopologyOptions(),  # noqa: B008 -- an immutable value
    distances: Distances | None = None,
    version: KubernetesVersion = LATEST,
) -> MergeSteps:
    """Merge the providers' answers into one hint, with all that led to it.

    `nodes` are the machine's NUMA nodes. `distances` are needed with prefer-closest-numa-nodes.
    Before 1.24 a merged hint could be preferred although the providers' masks differed, and among
    hints that are not preferred the narrowest won. Raises InputError for an unknown policy, or for
    a distance that is needed and missing.

    The kubelet tries every combination of one hint from each list. What it keeps is the maximum of
    a total order over (mask, preferred), so the sets of masks that combinations can reach are enough.
    """
    if policy not in POLICIES:
        raise InputError(f"unknown policy: {quote(policy)}")
    if policy == NONE:
        return MergeSteps((), _NO_MASKS, _NO_MASKS, 0, _NO_MASKS, MergeResult(TopologyHint(None, False), admit=True))
    require_ids(nodes)
    offers = _offers(hints, policy)
    by_distance = options.prefer_closest_numa_nodes and policy != SINGLE_NUMA_NODE
    closest = (distances or {}) if by_distance else None
    old = version < MERGES_EQUAL_HINTS
    lists = [one.kept for one in offers]
    preferred = [[hint for hint in one if hint.preferred] for one in lists]
    agreed = _reachable(preferred, nodes.mask) if old else _equal(preferred, nodes.mask)
    if agreed:
        return MergeSteps(offers, agreed, _NO_MASKS, 0, agreed, _result(agreed, True, policy, nodes, closest))
    reachable = _reachable(lists, nodes.mask)
    goal = 0 if old else _goal(lists)
    nearest_goal = min((_off_goal(mask.bit_count(), goal) for mask in reachable), default=0)
    finalists = {mask for mask in reachable if _off_goal(mask.bit_count(), goal) == nearest_goal}
    return MergeSteps(offers, agreed, reachable, goal, finalists, _result(finalists, False, policy, nodes, closest))


_NO_MASKS: Set[int] = frozenset()


def _offers(providers: Sequence[ProviderHints], policy: str) -> list[Offer]:
    """One for each resource of each provider, and one for each provider that has no preference."""
    offers: list[Offer] = []
    for number, provider in enumerate(providers):
        for resource, given in provider.items() if provider else [(None, None)]:
            hints = [NO_PREFERENCE] if given is None else given or [IMPOSSIBLE]
            offers.append(Offer(number, resource, hints, _single_nodes(hints) if policy == SINGLE_NUMA_NODE else hints))
    return offers


def _single_nodes(hints: Sequence[TopologyHint]) -> list[TopologyHint]:
    return [one for one in hints if one.preferred and (one.affinity is None or len(one.affinity) == 1)]


def _result(
    finalists: Set[int], preferred: bool, policy: str, nodes: NodeSet, closest: Distances | None
) -> MergeResult:
    best = NodeSet(_narrowest(finalists, closest)) if finalists else nodes
    affinity = None if policy == SINGLE_NUMA_NODE and best == nodes else best
    return MergeResult(TopologyHint(affinity, preferred), admit=policy == BEST_EFFORT or preferred)


def _reachable(lists: Sequence[Sequence[TopologyHint]], nodes: int) -> set[int]:
    """Every bitmask but the empty one that is the AND of one hint from each list."""
    reached = {nodes}
    for one in lists:
        offered = {nodes if hint.affinity is None else hint.affinity.mask for hint in one}
        reached = {mask & other for mask in reached for other in offered} - {0}
    return reached


def _equal(lists: Sequence[Sequence[TopologyHint]], nodes: int) -> set[int]:
    """The same, of the combinations in which all hints that have a mask have the same one."""
    offered = [{None if hint.affinity is None else hint.affinity.mask for hint in one} for one in lists]
    candidates = set[int | None]({None}).union(*offered)
    common = [mask for mask in candidates if all(mask in one or None in one for one in offered)]
    return {nodes if mask is None else mask & nodes for mask in common} - {0}


def _goal(lists: Sequence[Sequence[TopologyHint]]) -> int:
    """The number of nodes that the hungriest resource needs at least."""
    sizes = ([len(hint.affinity) for hint in one if hint.affinity is not None] for one in lists)
    return max((min(one) for one in sizes if one), default=0)


def _off_goal(size: int, goal: int) -> int:
    """Rank of a size for a hint that is not preferred: the goal first, then smaller sizes downwards, then larger
    ones."""
    return goal - size if size <= goal else goal + 1


def _narrowest(masks: Set[int], closest: Distances | None) -> int:
    """Fewest nodes, then (with distances) nearest nodes, then the smallest bitmask.

    Only sets of the same size are compared by their distances.
    """
    fewest = min(mask.bit_count() for mask in masks)
    tied = [mask for mask in masks if mask.bit_count() == fewest]
    if closest is None or len(tied) == 1:
        return min(tied)
    return min(tied, key=lambda mask: (_sum_of_distances(mask, closest), mask))


def _sum_of_distances(mask: int, closest: Distances) -> int:
    """Over all ordered pairs, each node with itself included; for sets of one size it stands for the mean."""
    return sum(_distance(closest, a, b) for a in NodeSet(mask) for b in NodeSet(mask))


def _distance(distances: Distances, from_node: int, to_node: int) -> int:
    try:
        return distances[from_node][to_node]
    except KeyError:
        raise InputError(
            f"no distance from NUMA node {from_node} to node {to_node} is known: "
            "prefer-closest-numa-nodes needs all of them"
        ) from None
