"""The Topology Manager's configuration, in the kubelet's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containermanager.topologymanager.policy import (
    OptionGates,
    TopologyManager,
    TopologyOptions,
    create_topology_manager,
    parse_options,
)
from numaudit.errors import InputError

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
