"""Are nodes alike? Facts of made-up nodes, and who differs from most of them."""

from __future__ import annotations

import io

import pytest

from numaudit.api.cluster_document import NodeComparison, NodeGroup, UnlikeSetting
from numaudit.evaluation.setup.facts import SetupFact
from numaudit.kubectl.alike import compare, unlike_nodes
from numaudit.views.terminal.alike_tables import print_comparison
from numaudit.views.terminal.terminal import console

GI = 1 << 30


def group(name: str, *values: str | int | None, numa_node: int | None = None) -> NodeGroup:
    """Of the nodes w0, w1, ..., each with one value of the fact."""
    (found,) = compare({f"w{i}": [SetupFact(name, value, numa_node)] for i, value in enumerate(values)}, {})
    return found


def shown(one: UnlikeSetting) -> tuple[str | int | None, dict[str | int, list[str]]]:
    return one.majority, {value.value: value.names for value in one.unlike}


@pytest.mark.parametrize(
    ("values", "majority", "unlike"),
    [
        (("Static", "Static", "None"), "Static", {"None": ["w2"]}),
        (("Static", "None"), None, {"None": ["w1"], "Static": ["w0"]}),
        (("a", "a", "b", "b"), None, {"a": ["w0", "w1"], "b": ["w2", "w3"]}),
        (("a", "a", "b", "c"), None, {"a": ["w0", "w1"], "b": ["w2"], "c": ["w3"]}),
        (("a", "a", "a", "b", "c"), "a", {"b": ["w3"], "c": ["w4"]}),
    ],
)
def test_the_value_of_more_than_half_is_the_reference_and_without_one_all_values_are_said(
    values: tuple[str, ...], majority: str | None, unlike: dict[str, list[str]]
) -> None:
    found = group("memoryManagerPolicy", *values)
    assert [shown(one) for one in found.unlike] == [(majority, unlike)]
    assert unlike_nodes(found) == sorted(node for nodes in unlike.values() for node in nodes)


@pytest.mark.parametrize("values", [("a",), ("a", "a"), (None, None), ("a", None), (0, 0, 0)])
def test_values_that_are_the_same_or_known_of_one_node_are_no_difference(values: tuple[str | int | None, ...]) -> None:
    assert group("x", *values).unlike == []


@pytest.mark.parametrize(
    ("name", "usual", "last", "is_alike"),
    [
        ("memory", 100 * GI, 101 * GI, True),
        ("memory", 100 * GI, 101 * GI + 1, False),
        ("memory", 101 * GI, 100 * GI, True),
        ("memory", 101 * GI, 100 * GI - 1, False),
        ("reservedMemory", 100 * GI, 100 * GI + 1, False),
    ],
)
def test_memory_may_differ_by_a_hundredth_and_reservations_by_no_byte(
    name: str, usual: int, last: int, is_alike: bool
) -> None:
    found = group(name, usual, usual, last, numa_node=1)
    assert [shown(one) for one in found.unlike] == ([] if is_alike else [(usual, {last: ["w2"]})])


def test_sizes_that_drift_a_little_are_one_size_where_there_is_no_majority() -> None:
    sizes = (64 * GI, 64 * GI + 1, 128 * GI, 128 * GI + 1)
    (found,) = group("memory", *sizes).unlike
    assert [one.names for one in found.unlike] == [["w0", "w1"], ["w2", "w3"]]


def test_versions_are_apart_from_what_is_unlike() -> None:
    found = group("kubelet version", "v1.36.0", "v1.35.4", "v1.36.0")
    assert found.unlike == []
    assert [shown(one) for one in found.versions] == [("v1.36.0", {"v1.35.4": ["w1"]})]


def test_what_is_not_known_is_not_compared_and_is_named_where_others_know_it() -> None:
    found = group("distances", "10 20", None, "10 20", numa_node=0)
    assert (found.unlike, found.unknown) == ([], {"w1": ["distances of node 0"]})
    assert group("distances", None, None).unknown == {}


def test_nodes_are_compared_with_those_of_the_same_label_value_only() -> None:
    values = {"a1": "x", "a2": "x", "b1": "y", "b2": "y", "c1": "z", "c2": "x"}
    nodes = {name: [SetupFact("devices", value)] for name, value in values.items()}
    found = compare(nodes, {name: name[0] for name in nodes if not name.startswith("c")})
    assert [(one.label_value, one.names, unlike_nodes(one)) for one in found] == [
        ("a", ["a1", "a2"], []),
        ("b", ["b1", "b2"], []),
        (None, ["c1", "c2"], ["c1", "c2"]),
    ]


def test_a_numa_node_that_only_some_machines_have_is_said_once() -> None:
    facts = {name: [SetupFact("NUMA nodes", "0-1"), SetupFact("memory", GI, 0), SetupFact("memory", GI, 1)]
             for name in ("w0", "w1")}  # fmt: skip
    facts["w2"] = [SetupFact("NUMA nodes", "0"), SetupFact("memory", GI, 0)]
    (found,) = compare(facts, {})
    assert [(one.name, one.numa_node) for one in found.unlike] == [("NUMA nodes", None)]
    assert found.unknown == {}


def test_long_values_that_differ_at_their_end_look_different() -> None:
    words = "hugepagesz=1G hugepages=0:16,1:16 " * 10
    out = io.StringIO()
    groups = [group("kernelParameters", *(words + end for end in "aab"))]
    print_comparison(NodeComparison(None, "pool", groups, [], []), console(file=out))
    assert f"{words}a" in out.getvalue()
    assert f"{words}b" in out.getvalue()
