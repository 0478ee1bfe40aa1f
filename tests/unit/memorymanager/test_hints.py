"""The Topology Manager's configuration, and its merge beside trying every combination as the kubelet does."""

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
from numaudit.containermanager.topologymanager.policy import (
    POLICIES,
    Distances,
    OptionGates,
    TopologyManager,
    TopologyOptions,
    create_topology_manager,
    parse_options,
)
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet

CLOSEST = TopologyOptions(prefer_closest_numa_nodes=True)
TWO = NodeSet.of(0, 1)
FOUR = NodeSet.of(0, 1, 2, 3)


def hint(*ids: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(NodeSet.of(*ids), preferred)


def any_node(*, preferred: bool = True) -> TopologyHint:
    return TopologyHint(None, preferred)


def four(*bad: str, good: str = "") -> list[TopologyHint]:
    """Hints in shorthand: "12" is nodes 1 and 2."""
    wanted = [hint(*map(int, one)) for one in good.split()]
    return wanted + [hint(*map(int, one), preferred=False) for one in " ".join(bad).split()]


def test_different_masks_are_preferred_together_only_before_1_24() -> None:
    providers: list[ProviderHints] = [{"cpu": [hint(0, 1)]}, {"memory": [hint(0)]}]
    now = merge(providers, policy="restricted", nodes=TWO).result
    assert now == MergeResult(hint(0, preferred=False), admit=False)
    assert merge(providers, policy="restricted", nodes=TWO, version=(1, 23)).result == MergeResult(hint(0), admit=True)


def test_the_hungriest_resource_sets_the_goal() -> None:
    """Recorded: 3 CPUs need two nodes, so {1,2} wins over any single node for the memory."""
    cpu = four("012 013 023 123 0123", good="12 13 23")
    memory = four("12 13 23 123", good="0 1 2 3")
    providers: list[ProviderHints] = [{}, {"cpu": cpu}, {"memory": memory}]
    assert merge(providers, policy="best-effort", nodes=FOUR).result.hint == hint(1, 2, preferred=False)
    # Before 1.24 the narrowest won, wherever the AND of two masks gave it.
    old = merge(providers, policy="best-effort", nodes=FOUR, version=(1, 23)).result.hint
    assert old == hint(1)


def test_less_than_the_goal_is_better_than_more() -> None:
    """Of sizes 1 and 4 with goal 3, the smaller wins although it is farther off."""
    six = NodeSet.parse("0-5")
    providers: list[ProviderHints] = [{"cpu": four("012 2345")}, {"memory": four("0 2345")}]
    assert merge(providers, policy="best-effort", nodes=six).result.hint == hint(0, preferred=False)
    assert enumerate_all(providers, "best-effort", six, None, old=False).hint == hint(0, preferred=False)


def test_a_missing_distance_is_named() -> None:
    alike = {"cpu": [hint(0), hint(1)]}
    with pytest.raises(InputError, match="no distance from NUMA node 1 to node 1"):
        merge([alike], policy="restricted", nodes=TWO, options=CLOSEST, distances={0: {0: 10}})


def test_distances_are_asked_for_only_where_sizes_tie() -> None:
    for hints in ([hint(0), hint(0, 1)], [hint(0, preferred=False), hint(0, 1, preferred=False)]):
        merged = merge([{"cpu": hints}], policy="best-effort", nodes=TWO, options=CLOSEST, distances={}).result
        assert merged.hint.affinity == NodeSet.of(0)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match='unknown policy: "Restricted"'):
        merge([], policy="Restricted", nodes=TWO)


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
    answer = merge(providers, policy=policy, nodes=nodes, options=options, distances=distances, version=version).result
    assert answer == expected


def test_a_mask_holds_node_63_and_no_larger_id() -> None:
    assert len(candidate_masks(NodeSet.of(0, 63))) == 3
    with pytest.raises(InputError, match=r"cannot tell: this machine has node 64.* ids up to 63 only"):
        candidate_masks(NodeSet.of(0, 64))


def test_a_kubelet_crashes_at_any_pod_on_such_a_machine_unless_its_policy_is_none() -> None:
    nodes = NodeSet.parse("0,8,250-255")
    for policy in ("best-effort", "restricted", "single-numa-node"):
        with pytest.raises(InputError, match="this machine has nodes 250-255"):
            merge([], policy=policy, nodes=nodes)
    assert merge([], policy="none", nodes=nodes).result.admit


def test_sixteen_nodes_are_tried_and_of_more_it_is_said_that_a_kubelet_does_not_end() -> None:
    assert len(candidate_masks(NodeSet.from_ids(range(16)))) == (1 << 16) - 1
    with pytest.raises(InputError, match=r"all 2\^34 sets .* never ends the admission.*#135541"):
        candidate_masks(NodeSet.from_ids(range(34)))
    with pytest.raises(InputError, match=r"all 2\^17 sets .* at most 16"):
        candidate_masks(NodeSet.from_ids(range(17)))


DISTANCES = {0: {0: 10, 1: 20}, 1: {0: 20, 1: 10}}


def test_policy_none_ignores_everything_else() -> None:
    manager = create_topology_manager("none", "galaxy", {"nonsense": "x"}, nodes=99)
    assert manager == TopologyManager("none", "none", TopologyOptions())


def test_both_options_are_read() -> None:
    options = {"prefer-closest-numa-nodes": "T", "max-allowable-numa-nodes": "12"}
    manager = create_topology_manager("restricted", "pod", options, nodes=12, distances=DISTANCES)
    assert manager == TopologyManager("restricted", "pod", TopologyOptions(True, 12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": "1"}, 'unknown Topology Manager Policy option: "a"'),
        (
            {"prefer-closest-numa-nodes": "yes"},
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "ten"},
            "unable to convert policy option to integer "
            '"max-allowable-numa-nodes": strconv.Atoi: parsing "ten": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "7"},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
        (
            {"prefer-closest-numa-nodes": "true"},
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
        ),
    ],
)
def test_bad_options_are_named_before_anything_else(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        create_topology_manager("nonsense", "nonsense", options, nodes=99)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("policy", "scope", "nodes", "message"),
    [
        ("x", "x", 9, "unsupported on machines with more than 8 NUMA Nodes"),
        ("x", "x", 8, 'unknown policy: "x"'),
        ("restricted", "x", 8, 'unknown scope: "x"'),
        ("None", "container", 2, 'unknown policy: "None"; did you mean none?'),
    ],
)
def test_nodes_policy_and_scope_are_checked_in_this_order(policy: str, scope: str, nodes: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        create_topology_manager(policy, scope, {}, nodes=nodes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("version", "gates", "message"),
    [
        ((1, 23), OptionGates(alpha=True), 'unknown Topology Manager Policy option: "prefer-closest-numa-nodes"'),
        (
            (1, 26),
            OptionGates(),
            'Topology Manager Policy Alpha-level Options not enabled, but option "prefer-closest-numa-nodes" provided',
        ),
        (
            (1, 28),
            OptionGates(beta=False),
            'Topology Manager Policy Beta-level Options not enabled, but option "prefer-closest-numa-nodes" provided',
        ),
    ],
)
def test_an_option_needs_the_gate_of_its_level(version: tuple[int, int], gates: OptionGates, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_options({"prefer-closest-numa-nodes": "1"}, gates=gates, version=version)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ((1, 32), "Topology Manager Policy Beta-level Options not enabled"),
        ((1, 33), "topology manager policy beta-level options not enabled"),
    ],
)
def test_the_gate_message_of_beta_options_lost_its_capitals_in_1_33(version: tuple[int, int], text: str) -> None:
    closed = OptionGates(beta=False)
    with pytest.raises(InputError) as caught:
        parse_options({"max-allowable-numa-nodes": "8"}, gates=closed, version=version)
    assert str(caught.value) == (f'{text}, but option "max-allowable-numa-nodes" provided')


def test_stable_options_need_no_gate() -> None:
    closed = OptionGates(alpha=False, beta=False)
    both = {"prefer-closest-numa-nodes": "f", "max-allowable-numa-nodes": "9"}
    assert parse_options(both, gates=closed) == TopologyOptions(False, 9)


@given(st.dictionaries(st.sampled_from(["prefer-closest-numa-nodes", "max-allowable-numa-nodes", "x"]), st.text()))
def test_any_options_are_read_or_refused(options: dict[str, str]) -> None:
    try:
        parsed = parse_options(options)
    except InputError as error:
        assert any(name in str(error) for name in options)
    else:
        assert parsed.max_allowable_numa_nodes >= 8
        assert "x" not in options
