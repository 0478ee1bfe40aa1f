"""The merge of the providers' hints, compared with trying every combination as the kubelet does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containermanager.topologymanager.hints import (
    MergeResult,
    ProviderHints,
    TopologyHint,
    candidate_masks,
    merge,
)
from numaudit.containermanager.topologymanager.policy import POLICIES, Distances, TopologyOptions
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet

CLOSEST = TopologyOptions(prefer_closest_numa_nodes=True)
TWO = NodeSet.of(0, 1)
FOUR = NodeSet.of(0, 1, 2, 3)
LINE: Distances = {a: {b: 10 + 5 * abs(a - b) for b in range(4)} for a in range(4)}
"""Four nodes in a row."""


def hint(*ids: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(NodeSet.of(*ids), preferred)


def any_node(*, preferred: bool = True) -> TopologyHint:
    return TopologyHint(None, preferred)


def four(*bad: str, good: str = "") -> list[TopologyHint]:
    """Hints in shorthand: "12" is nodes 1 and 2."""
    wanted = [hint(*map(int, one)) for one in good.split()]
    return wanted + [hint(*map(int, one), preferred=False) for one in " ".join(bad).split()]


def test_policy_none_asks_no_provider() -> None:
    assert merge([{"cpu": []}], policy="none", nodes=TWO) == MergeResult(any_node(preferred=False), admit=True)


@pytest.mark.parametrize("silent", [None, {}, {"cpu": None}])
def test_a_silent_provider_accepts_any_node(silent: ProviderHints) -> None:
    other: ProviderHints = {"memory": [hint(1), hint(0, 1, preferred=False)]}
    assert merge([silent, other], policy="restricted", nodes=TWO) == MergeResult(hint(1), admit=True)


def test_no_preference_at_all_means_all_nodes() -> None:
    assert merge([None, {}], policy="best-effort", nodes=TWO) == MergeResult(hint(0, 1), admit=True)
    assert merge([None, {}], policy="restricted", nodes=TWO) == MergeResult(hint(0, 1), admit=True)
    assert merge([], policy="restricted", nodes=TWO) == MergeResult(hint(0, 1), admit=True)


def test_all_nodes_become_any_node_under_single_numa_node() -> None:
    assert merge([None], policy="single-numa-node", nodes=TWO) == MergeResult(any_node(), admit=True)
    only = {"memory": [hint(0)]}
    assert merge([only], policy="single-numa-node", nodes=NodeSet.of(0)) == MergeResult(any_node(), admit=True)


def test_an_empty_list_means_impossible_and_an_empty_answer_does_not() -> None:
    fits: ProviderHints = {"memory": [hint(0)]}
    assert not merge([{"cpu": []}, fits], policy="single-numa-node", nodes=TWO).admit
    assert merge([{}, fits], policy="single-numa-node", nodes=TWO).admit
    assert merge([{"cpu": []}, fits], policy="best-effort", nodes=TWO).hint == hint(0, preferred=False)


def test_single_numa_node_refuses_what_needs_two_nodes() -> None:
    answer = merge([{"memory": [hint(0, 1)]}], policy="single-numa-node", nodes=TWO)
    assert answer == MergeResult(any_node(preferred=False), admit=False)


def test_providers_that_never_meet_get_all_nodes() -> None:
    providers: list[ProviderHints] = [{"cpu": [hint(0)]}, {"memory": [hint(1)]}]
    assert merge(providers, policy="best-effort", nodes=TWO) == MergeResult(hint(0, 1, preferred=False), admit=True)
    assert not merge(providers, policy="restricted", nodes=TWO).admit


def test_different_masks_are_preferred_together_only_before_1_24() -> None:
    providers: list[ProviderHints] = [{"cpu": [hint(0, 1)]}, {"memory": [hint(0)]}]
    now = merge(providers, policy="restricted", nodes=TWO)
    assert now == MergeResult(hint(0, preferred=False), admit=False)
    assert merge(providers, policy="restricted", nodes=TWO, version=(1, 23)) == MergeResult(hint(0), admit=True)


def test_the_hungriest_resource_sets_the_goal() -> None:
    """Recorded: 3 CPUs need two nodes, so {1,2} wins over any single node for the memory."""
    cpu = four("012 013 023 123 0123", good="12 13 23")
    memory = four("12 13 23 123", good="0 1 2 3")
    providers: list[ProviderHints] = [{}, {"cpu": cpu}, {"memory": memory}]
    assert merge(providers, policy="best-effort", nodes=FOUR).hint == hint(1, 2, preferred=False)
    # Before 1.24 the narrowest won, wherever the AND of two masks gave it.
    old = merge(providers, policy="best-effort", nodes=FOUR, version=(1, 23)).hint
    assert old == hint(1)


def test_less_than_the_goal_is_better_than_more() -> None:
    """Of sizes 1 and 4 with goal 3, the smaller wins although it is farther off."""
    six = NodeSet.parse("0-5")
    providers: list[ProviderHints] = [{"cpu": four("012 2345")}, {"memory": four("0 2345")}]
    assert merge(providers, policy="best-effort", nodes=six).hint == hint(0, preferred=False)
    assert enumerate_all(providers, "best-effort", six, None, old=False).hint == hint(0, preferred=False)


def test_a_wide_preferred_memory_hint_widens_the_cpu_hint() -> None:
    """Recorded: 1 CPU on nodes 2 or 3, 1400 MiB on nodes 1 and 2."""
    cpu = four("02 03 12 13 23 012 013 023 123 0123", good="2 3")
    providers: list[ProviderHints] = [{}, {"cpu": cpu}, {"memory": four(good="12")}]
    assert merge(providers, policy="best-effort", nodes=FOUR).hint == hint(1, 2, preferred=False)
    assert not merge(providers, policy="restricted", nodes=FOUR).admit


def test_the_group_both_prefer_is_admitted_under_restricted() -> None:
    both = four("012 013 023 123 0123", good="01 02 03 12 13 23")
    answer = merge([{}, {"cpu": both}, {"memory": both}], policy="restricted", nodes=FOUR)
    assert answer == MergeResult(hint(0, 1), admit=True)


def test_near_nodes_win_over_a_smaller_bitmask_when_asked_for() -> None:
    offer: list[ProviderHints] = [{"memory": four(good="02 23")}]
    assert merge(offer, policy="restricted", nodes=FOUR).hint == hint(0, 2)
    near = merge(offer, policy="restricted", nodes=FOUR, options=CLOSEST, distances=LINE)
    assert near.hint == hint(2, 3)


def test_distance_does_not_make_a_wider_set_win() -> None:
    offer: list[ProviderHints] = [{"memory": four(good="03 012")}]
    far: Distances = {a: {b: 255 if {a, b} == {0, 3} else 10 for b in range(4)} for a in range(4)}
    assert merge(offer, policy="restricted", nodes=FOUR, options=CLOSEST, distances=far).hint == hint(0, 3)


def test_single_numa_node_ignores_distances() -> None:
    slow_node_0: Distances = {0: {0: 11, 1: 20}, 1: {0: 20, 1: 10}}
    offer: list[ProviderHints] = [{"memory": [hint(0), hint(1)]}]
    for policy, best in (("single-numa-node", 0), ("restricted", 1)):
        answer = merge(offer, policy=policy, nodes=TWO, options=CLOSEST, distances=slow_node_0)
        assert answer.hint == hint(best)


def test_a_missing_distance_is_named() -> None:
    alike = {"cpu": [hint(0), hint(1)]}
    with pytest.raises(InputError, match="no distance from NUMA node 1 to node 1"):
        merge([alike], policy="restricted", nodes=TWO, options=CLOSEST, distances={0: {0: 10}})


def test_distances_are_asked_for_only_where_sizes_tie() -> None:
    for hints in ([hint(0), hint(0, 1)], [hint(0, preferred=False), hint(0, 1, preferred=False)]):
        merged = merge([{"cpu": hints}], policy="best-effort", nodes=TWO, options=CLOSEST, distances={})
        assert merged.hint.affinity == NodeSet.of(0)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match='unknown policy: "Restricted"'):
        merge([], policy="Restricted", nodes=TWO)


def test_more_nodes_than_anyone_can_try_are_refused() -> None:
    assert len(candidate_masks(NodeSet.parse("0-7"))) == 255
    with pytest.raises(InputError, match="17 NUMA nodes"):
        candidate_masks(NodeSet.parse("0-16"))


# The kubelet's own way, step by step, for the comparison.


def enumerate_all(
    providers: Sequence[ProviderHints], policy: str, nodes: NodeSet, distances: Distances | None, *, old: bool
) -> MergeResult:
    if policy == "none":
        return MergeResult(any_node(preferred=False), admit=True)
    lists: list[list[TopologyHint]] = []
    for provider in providers:
        if not provider:
            lists.append([any_node()])
        else:
            for offered in provider.values():
                if offered is None:
                    lists.append([any_node()])
                else:
                    lists.append(list(offered) or [any_node(preferred=False)])
    if policy == "single-numa-node":
        lists = [[h for h in one if h.preferred and (h.affinity is None or len(h.affinity) == 1)] for one in lists]
        distances = None
    smallest = [min((len(h.affinity) for h in one if h.affinity is not None), default=0) for one in lists]
    goal = max(smallest, default=0)
    best: TopologyHint | None = None
    for permutation in product(*lists):
        masks = [h.affinity for h in permutation if h.affinity is not None]
        merged = nodes
        for mask in masks:
            merged &= mask
        preferred = all(h.preferred for h in permutation) and (old or all(mask == masks[0] for mask in masks))
        candidate = TopologyHint(merged, preferred)
        best = pick(best, candidate, goal, distances, old=old)
    best = best or TopologyHint(nodes, False)
    if policy == "single-numa-node" and best.affinity == nodes:
        best = TopologyHint(None, best.preferred)
    return MergeResult(best, policy == "best-effort" or best.preferred)


def pick(
    current: TopologyHint | None, candidate: TopologyHint, goal: int, distances: Distances | None, *, old: bool
) -> TopologyHint | None:
    assert candidate.affinity is not None
    if not candidate.affinity:
        return current
    if current is None:
        return candidate
    assert current.affinity is not None
    if current.preferred != candidate.preferred:
        return candidate if candidate.preferred else current
    tie = candidate if wins_tie(candidate.affinity, current.affinity, distances) else current
    c, k = len(current.affinity), len(candidate.affinity)
    if current.preferred or old or c > goal:
        return tie
    if c == goal:
        return tie if k == goal else current
    if k > goal:
        return current
    if k == goal or k > c:
        return candidate
    return current if k < c else tie


def wins_tie(candidate: NodeSet, current: NodeSet, distances: Distances | None) -> bool:
    if (
        distances is not None
        and len(candidate) == len(current)
        and mean(candidate, distances) != mean(current, distances)
    ):
        return mean(candidate, distances) < mean(current, distances)
    return candidate.is_narrower_than(current)


def mean(mask: NodeSet, distances: Distances) -> float:
    pairs = [distances[a][b] for a in mask for b in mask]
    return sum(pairs) / len(pairs)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[ProviderHints], NodeSet, Distances]:
    count = draw(st.integers(1, 4))
    masks = st.none() | st.integers(1, 2**count - 1).map(NodeSet)
    lists = st.none() | st.lists(st.builds(TopologyHint, masks, st.booleans()), max_size=5)
    providers: st.SearchStrategy[ProviderHints] = st.none() | st.dictionaries(
        st.sampled_from(["a", "b"]), lists, max_size=2
    )
    distance = st.sampled_from([10, 11, 12, 20, 21])
    rows = draw(st.lists(st.lists(distance, min_size=4, max_size=4), min_size=4, max_size=4))
    table = {a: dict(enumerate(row)) for a, row in enumerate(rows)}
    return draw(st.lists(providers, max_size=4)), NodeSet((1 << count) - 1), table


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("closest", [False, True])
@pytest.mark.parametrize("version", [(1, 23), (1, 36)])
@given(case=cases())
def test_the_merge_is_what_trying_every_combination_gives(
    case: tuple[list[ProviderHints], NodeSet, Distances], policy: str, closest: bool, version: tuple[int, int]
) -> None:
    providers, nodes, distances = case
    expected = enumerate_all(providers, policy, nodes, distances if closest else None, old=version < (1, 24))
    options = TopologyOptions(prefer_closest_numa_nodes=closest)
    answer = merge(providers, policy=policy, nodes=nodes, options=options, distances=distances, version=version)
    assert answer == expected
