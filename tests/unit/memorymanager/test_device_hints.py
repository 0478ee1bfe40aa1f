"""Hints of the Device Manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containermanager.device.hints import (
    Device,
    DeviceState,
    container_requests,
    generate_hints,
    hints,
    pod_requests,
)
from numaudit.containermanager.pod.spec import Container, Pod, Resources
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint, merge
from numaudit.containermanager.versions import KubeletFeatures
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity

NIC = "vendor.example/nic"
TWO = NodeSet.of(0, 1)
FOUR = NodeSet.of(0, 1, 2, 3)


def devices(**places: str | None) -> dict[str, Device]:
    """`a="0"`: on node 0; `a=""`: topology without a node; `a=None`: no topology."""
    return {one: Device(one, None if nodes is None else NodeSet.parse(nodes)) for one, nodes in places.items()}


def state(known: Mapping[str, Device], **held: set[str]) -> DeviceState:
    """Pod "uid" holds these by container."""
    entries = {"uid": {name: {NIC: frozenset(ids)} for name, ids in held.items()}} if held else {}
    return DeviceState({NIC: known}, entries)


def short(hints: Sequence[TopologyHint] | None) -> str:
    """Hints in shorthand: `0+ 01-` is node 0, preferred, and both nodes, not preferred."""
    assert hints is not None
    return " ".join(f"{''.join(map(str, h.affinity or ()))}{'+' if h.preferred else '-'}" for h in hints)


def nics(answer: ProviderHints) -> str:
    assert answer is not None
    return short(answer[NIC])


def ask(of: DeviceState, count: int, *, nodes: NodeSet = TWO, version: tuple[int, int] = (1, 36)) -> ProviderHints:
    return hints(of, "uid", "app", {NIC: count}, nodes=nodes, version=version)


def test_no_devices_asked_for_is_an_empty_answer() -> None:
    assert hints(DeviceState(), "uid", "app", {}, nodes=TWO) == {}
    assert hints(DeviceState(), "uid", None, {}, nodes=TWO) == {}


def test_devices_without_nodes_are_no_preference() -> None:
    assert ask(state(devices(a=None, b="")), 1) == {NIC: None}
    assert ask(state({}), 1) == {NIC: None}


def test_one_device_on_each_node() -> None:
    both = state(devices(a="0", b="1"))
    assert nics(ask(both, 1)) == "0+ 1+ 01-"
    assert nics(ask(both, 2)) == "01+"


def test_only_nodes_with_devices_are_tried_since_1_36() -> None:
    single = state(devices(a="0"))
    assert nics(ask(single, 1)) == "0+"
    assert nics(ask(single, 1, version=(1, 32))) == "0+ 01-"


def test_the_1_36_change_alters_a_merge() -> None:
    cpus: ProviderHints = {"cpu": [TopologyHint(TWO, True)]}
    single = state(devices(a="0"))
    now = merge([ask(single, 1), cpus], policy="best-effort", nodes=TWO).result
    before = merge([ask(single, 1, version=(1, 32)), cpus], policy="best-effort", nodes=TWO).result
    assert now.hint == TopologyHint(NodeSet.of(0), False)
    assert before.hint == TopologyHint(TWO, False)


def test_devices_on_nodes_the_machine_lacks_leave_all_its_nodes() -> None:
    assert generate_hints(devices(a="7"), ["a"], (), 1, nodes=TWO) == []
    assert short(generate_hints(devices(a="7", b="1"), ["a", "b"], (), 1, nodes=TWO)) == "1+"


def test_preferred_counts_unhealthy_and_used_devices() -> None:
    known = devices(a="0", b="0", c="1")
    sick = {**known, "b": Device("b", NodeSet.of(0), healthy=False)}
    assert nics(ask(state(sick), 2)) == "01-"
    used = DeviceState({NIC: known}, {"other": {"app": {NIC: frozenset("b")}}})
    assert nics(ask(used, 2)) == "01-"


def test_too_few_free_devices_are_impossible() -> None:
    assert ask(state(devices(a="0", b="1")), 3) == {NIC: []}


def test_a_device_without_nodes_never_counts_as_matching() -> None:
    assert ask(state(devices(a="0", b=None)), 2) == {NIC: []}


def test_a_device_on_two_nodes_matches_either() -> None:
    assert nics(ask(state(devices(a="0-1", b="1")), 2)) == "1+ 01-"


def test_devices_already_held_give_the_sets_that_hold_them() -> None:
    known = devices(a="0", b="1", c="1")
    assert nics(ask(state(known, app={"b"}), 1)) == "1+ 01-"
    assert ask(state(known, app={"b"}), 2) == {NIC: []}


def test_reusable_devices_must_be_inside_the_set() -> None:
    known = devices(a="0", b="1", c="1")
    after_init = DeviceState({NIC: known}, {"uid": {"init": {NIC: frozenset("a")}}}, {"uid": {NIC: frozenset("a")}})
    assert nics(ask(after_init, 1)) == "0+ 01-"
    assert nics(ask(after_init, 3)) == "01+"
    assert ask(after_init, 4) == {NIC: []}


def test_a_reusable_device_without_topology_is_passed_over() -> None:
    known = devices(a="0", b=None, c="")
    assert short(generate_hints(known, ["a"], ["b"], 1, nodes=TWO)) == "0+"
    assert generate_hints(known, ["a"], ["c"], 1, nodes=TWO) == []


def test_a_pod_asks_without_what_it_could_reuse() -> None:
    known = devices(a="0", b="1")
    reusing = DeviceState({NIC: known}, {}, {"uid": {NIC: frozenset("a")}})
    in_use = DeviceState({NIC: known}, {"other": {"c": {NIC: frozenset("a")}}}, {"uid": {NIC: frozenset("a")}})
    assert nics(hints(reusing, "uid", None, {NIC: 1}, nodes=TWO)) == "0+ 1+ 01-"
    assert hints(in_use, "uid", None, {NIC: 2}, nodes=TWO) == {NIC: []}
    assert nics(ask(in_use, 2)) == "01+"


def test_a_pod_counts_what_all_its_containers_hold() -> None:
    of = state(devices(a="0", b="1", c="1"), x={"b"}, y={"c"})
    assert nics(hints(of, "uid", None, {NIC: 2}, nodes=TWO)) == "1+ 01-"
    assert hints(of, "uid", None, {NIC: 1}, nodes=TWO) == {NIC: []}


def limited(name: str, count: int, *, sidecar: bool = False) -> Container:
    limits = {NIC: Quantity.of(count), "cpu": Quantity.of(1)}
    return Container(name, Resources({}, limits), restarts_always=sidecar)


def test_requests_are_the_limits_of_registered_or_allocated_resources() -> None:
    pod = Pod("p", "default", "uid", (limited("app", 2),))
    assert container_requests(state(devices(a="0")), pod, "app") == {NIC: 2}
    assert container_requests(DeviceState(), pod, "app") == {}
    gone = DeviceState({}, {"other": {"app": {NIC: frozenset("a")}}})
    assert container_requests(gone, pod, "app") == {NIC: 2}


@pytest.mark.parametrize(("version", "total"), [((1, 36), 8), ((1, 28), 8), ((1, 23), 5)])
def test_a_pod_needs_its_sidecars_devices_beside_the_others(version: tuple[int, int], total: int) -> None:
    pod = Pod(
        "p",
        "default",
        "uid",
        (limited("app", 1),),
        (
            limited("init-1", 5),
            limited("side-1", 1, sidecar=True),
            limited("side-2", 2, sidecar=True),
            limited("init-2", 5),
        ),
    )
    assert pod_requests(state(devices(a="0")), pod, KubeletFeatures(version)) == {NIC: total}


@pytest.mark.parametrize(("version", "answer"), [((1, 23), {NIC: []}), ((1, 28), {NIC: None})])
def test_1_23_finds_no_place_for_a_device_whose_topology_has_no_nodes(
    version: tuple[int, int], answer: ProviderHints
) -> None:
    """kubernetes/kubernetes#112234."""
    of = DeviceState({NIC: {"a": Device("a", NodeSet())}})
    assert ask(of, 1, version=version) == answer


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.none() | st.integers(0, 15).map(NodeSet), max_size=8),
    st.data(),
)
def test_hints_are_exactly_the_sets_that_fit(places: dict[str, NodeSet | None], data: st.DataObject) -> None:
    known = {one: Device(one, nodes) for one, nodes in places.items()}
    ids = st.sets(st.sampled_from(sorted(known))) if known else st.just(set[str]())
    free, reusable = data.draw(ids), data.draw(ids)
    free -= reusable
    request = data.draw(st.integers(1, 4))
    hints = generate_hints(known, free, reusable, request, nodes=FOUR, version=(1, 32))
    expected = []
    for mask in FOUR.subsets():
        must = [nodes for one in reusable if (nodes := places[one]) is not None]
        near = [one for one in free if not (places[one] or NodeSet()).isdisjoint(mask)]
        if all(not nodes.isdisjoint(mask) for nodes in must) and len(must) + len(near) >= request:
            expected.append(mask)
    assert [hint.affinity for hint in hints] == expected
    could_hold = [
        len(mask)
        for mask in FOUR.subsets()
        if sum(not (nodes or NodeSet()).isdisjoint(mask) for nodes in places.values()) >= request
    ]
    least = min(could_hold, default=4)
    assert all(hint.preferred == (len(hint.affinity or NodeSet()) == least) for hint in hints)
