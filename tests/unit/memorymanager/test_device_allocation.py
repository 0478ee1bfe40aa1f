"""Which devices a container gets: near its hint."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.containermanager.device.allocation import ByAffinity, allocate, remove_stale, split_by_affinity
from numaudit.containermanager.device.hints import Device, DeviceState
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.topology.nodeset import NodeSet

NIC = "vendor.example/nic"


def state(**places: str | None) -> DeviceState:
    known = {one: Device(one, None if nodes is None else NodeSet.parse(nodes)) for one, nodes in places.items()}
    return DeviceState({NIC: known})


FOUR = state(a="0", b="0", c="1", d="1")


def given_to(of: DeviceState, count: int, nodes: str | None) -> set[str]:
    affinity = None if nodes is None else NodeSet.parse(nodes)
    after = allocate(of, "uid", "app", {NIC: count}, affinity)
    return set(after.entries["uid"]["app"][NIC])


def refusal(of: DeviceState, requests: Mapping[str, int], *, runs_since_before: bool = False) -> str:
    with pytest.raises(AdmissionError) as caught:
        allocate(of, "uid", "app", requests, NodeSet.of(0), runs_since_before=runs_since_before)
    assert caught.value.reason == "UnexpectedAdmissionError"
    return str(caught.value)


def test_devices_are_split_by_how_they_lie_to_the_hint() -> None:
    of = state(a="0", b="1", both="0-1", bare=None, empty="")
    split = split_by_affinity(of, NIC, frozenset(of.plugins[NIC]), NodeSet.of(0))
    assert split == ByAffinity(frozenset({"a", "both"}), frozenset({"b"}), frozenset({"bare", "empty"}))


def test_without_a_hint_or_without_topology_nothing_is_aligned() -> None:
    everything = frozenset(FOUR.plugins[NIC])
    assert split_by_affinity(FOUR, NIC, everything, None) == ByAffinity(frozenset(), frozenset(), everything)
    bare = state(a=None, b="")
    assert split_by_affinity(bare, NIC, frozenset("ab"), NodeSet.of(0)).no_affinity == frozenset("ab")


def test_aligned_devices_are_taken_first() -> None:
    assert given_to(FOUR, 1, "1") <= {"c", "d"}
    assert given_to(FOUR, 2, "1") == {"c", "d"}
    three = given_to(FOUR, 3, "1")
    assert {"c", "d"} < three
    assert len(three) == 3


def test_devices_on_other_nodes_are_taken_before_those_on_none() -> None:
    assert given_to(state(a="1", bare=None, z="0"), 2, "0") == {"z", "a"}


def test_used_and_unhealthy_devices_are_not_given() -> None:
    sick = {**FOUR.plugins[NIC], "c": Device("c", NodeSet.of(1), healthy=False)}
    of = DeviceState({NIC: sick}, {"other": {"app": {NIC: frozenset("a")}}})
    assert given_to(of, 2, "1") == {"b", "d"}
    assert refusal(of, {NIC: 3}) == f"requested number of devices unavailable for {NIC}. Requested: 3, Available: 2"


def test_what_an_init_container_had_is_taken_over_first() -> None:
    after_init = allocate(FOUR, "uid", "init", {NIC: 1}, NodeSet.of(1), ordinary_init=True)
    assert after_init.reusable == {"uid": {NIC: frozenset("c")}}
    after = allocate(after_init, "uid", "app", {NIC: 2}, NodeSet.of(0))
    assert "c" in after.entries["uid"]["app"][NIC]
    assert after.entries["uid"]["app"][NIC] & {"a", "b"}
    assert after.reusable == {"uid": {NIC: frozenset()}}


def test_a_sidecar_keeps_what_it_took_over() -> None:
    after_init = allocate(FOUR, "uid", "init", {NIC: 1}, NodeSet.of(1), ordinary_init=True)
    sidecar = allocate(after_init, "uid", "side", {NIC: 1}, NodeSet.of(1))
    app = allocate(sidecar, "uid", "app", {NIC: 1}, NodeSet.of(1))
    held = {name: set(one[NIC]) for name, one in app.entries["uid"].items()}
    assert held == {"init": {"c"}, "side": {"c"}, "app": {"d"}}


def test_another_pod_ends_what_was_reusable() -> None:
    after_init = allocate(FOUR, "uid", "init", {NIC: 1}, NodeSet.of(1), ordinary_init=True)
    assert allocate(after_init, "other", "app", {}, None).reusable == {"other": {}}


HELD = DeviceState(FOUR.plugins, {"uid": {"app": {NIC: frozenset("a")}}})


def test_a_container_admitted_again_keeps_its_devices() -> None:
    assert allocate(HELD, "uid", "app", {NIC: 1}, NodeSet.of(1)).entries == HELD.entries


@pytest.mark.parametrize(
    ("of", "count", "message"),
    [
        (HELD, 2, f'pod "uid" container "app" changed request for resource "{NIC}" from 1 to 2'),
        (DeviceState(), 1, f"cannot allocate unregistered device {NIC}"),
        (
            DeviceState({NIC: {"a": Device("a", healthy=False)}}),
            1,
            f"no healthy devices present; cannot allocate unhealthy devices {NIC}",
        ),
        (
            DeviceState({NIC: {"a": Device("a", healthy=False), "b": Device("b")}}, HELD.entries),
            1,
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {NIC}",
        ),
    ],
)
def test_what_cannot_be_given_is_refused_in_the_kubelets_words(of: DeviceState, count: int, message: str) -> None:
    assert refusal(of, {NIC: count}) == message


def test_a_container_that_ran_before_the_kubelet_is_let_be() -> None:
    gone = DeviceState({}, HELD.entries)
    assert allocate(gone, "uid", "app", {NIC: 1}, None, runs_since_before=True).entries == HELD.entries
    assert "changed request" in refusal(gone, {NIC: 2}, runs_since_before=True)
    assert refusal(gone, {NIC: 1}) == f"cannot allocate unregistered device {NIC}"


def test_devices_of_pods_that_are_gone_come_back() -> None:
    two = DeviceState(FOUR.plugins, {**HELD.entries, "here": {"app": {NIC: frozenset("b")}}})
    left = remove_stale(two, {"here"})
    assert left.entries.keys() == {"here"}
    assert left.available(NIC) == frozenset("acd")


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 7).map(NodeSet), min_size=1),
    st.none() | st.integers(1, 7).map(NodeSet),
    st.data(),
)
def test_no_device_far_away_is_given_while_a_near_one_is_free(
    places: dict[str, NodeSet | None], affinity: NodeSet | None, data: st.DataObject
) -> None:
    of = DeviceState({NIC: {one: Device(one, nodes) for one, nodes in places.items()}})
    count = data.draw(st.integers(1, len(places)))
    after = allocate(of, "uid", "app", {NIC: count}, affinity)
    got = after.entries["uid"]["app"][NIC]
    assert len(got) == count
    split = split_by_affinity(of, NIC, frozenset(places), affinity)
    assert got <= split.aligned or split.aligned <= got


def undecided(of: DeviceState, uid: str, name: str = "app") -> set[str]:
    return set(of.undecided.get(uid, {}).get(name, {}).get(NIC, ()))


def test_which_of_several_equal_devices_is_taken_is_not_known() -> None:
    one = allocate(FOUR, "one", "app", {NIC: 1}, NodeSet.of(0))
    assert undecided(one, "one") == {"a", "b"}
    assert undecided(allocate(FOUR, "two", "app", {NIC: 2}, NodeSet.of(0)), "two") == set()
    assert undecided(allocate(FOUR, "three", "app", {NIC: 3}, NodeSet.of(0)), "three") == {"c", "d"}


def test_what_a_plugin_prefers_among_distant_devices_may_be_without_a_node() -> None:
    after = allocate(state(a="0", far="1", bare=None), "u", "app", {NIC: 2}, NodeSet.of(0))
    assert undecided(after, "u") == {"far", "bare"}


def test_the_last_of_equal_devices_is_not_known_either_while_the_others_are_not() -> None:
    first = allocate(FOUR, "one", "app", {NIC: 1}, NodeSet.of(0))
    second = allocate(first, "two", "app", {NIC: 1}, NodeSet.of(0))
    assert undecided(second, "two") == {"a", "b"}
    third = allocate(remove_stale(second, ["two"]), "three", "app", {NIC: 1}, NodeSet.of(0))
    assert undecided(third, "three") == {"a", "b"}
    alone = allocate(remove_stale(third, []), "four", "app", {NIC: 2}, NodeSet.of(0))
    assert undecided(alone, "four") == set()


def test_a_container_takes_over_the_same_undecided_device_from_an_init_container() -> None:
    init = allocate(FOUR, "u", "init", {NIC: 1}, NodeSet.of(0), ordinary_init=True)
    assert undecided(allocate(init, "u", "app", {NIC: 1}, NodeSet.of(0)), "u") == {"a", "b"}
