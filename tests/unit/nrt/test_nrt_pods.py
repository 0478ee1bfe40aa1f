"""Fingerprint and placement vectors: against values worked out by hand, and read back."""

from __future__ import annotations

import time
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clusters.nrt_rebuilt import left_out
from clusters.placement_consumer import ALPHABET, Name, decoded, hash_of, nodes_of, read_placement
from kubelets.random_nodes import random_kubelet, random_pod, random_state
from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.containermanager.memory.state import Block, charge
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.predicates import Capacity
from numaudit.containermanager.topologymanager.policy import SINGLE_NUMA_NODE, KubeletHangs
from numaudit.errors import InputError
from numaudit.memorymanager.admission import admit, remove
from numaudit.nrt.describe import topology_of
from numaudit.nrt.placement import fingerprint, leb89, placement
from numaudit.nrt.resource_topology import MOST_BYTES, annotations_of, node_resource_topology, read_part, size_of
from numaudit.nrt.topology import PodPart
from numaudit.topology.nodeset import NodeSet

BOTH = "pfp0v0012465ca44edc992c3"


def test_a_fingerprint_worked_out_by_hand() -> None:
    """By XXH64 each name is hashed with the hash of its namespace as seed, and the sorted hashes are hashed again.

    713f9fcf87b74951 of prod/db-0 and 91e1e3a23275f5de of default/web-1.
    """
    assert fingerprint([("prod", "db-0"), ("default", "web-1")]) == BOTH
    assert fingerprint([("default", "web-1"), ("prod", "db-0")]) == BOTH
    assert fingerprint([("default", "db-0"), ("prod", "web-1")]) != BOTH


def test_the_fingerprint_of_no_pods_is_that_of_no_bytes() -> None:
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "!"),
        (1, "#"),
        (63, ALPHABET[63]),
        # 64 - 64 = 0: last 0, rest 0: one digit of base 25, then the last one
        (64, ALPHABET[64] + "!"),
        (127, ALPHABET[64] + ALPHABET[63]),
        # 128 - 64 = 64: last 0, rest 1
        (128, ALPHABET[65] + "!"),
        # 64 + 64 * 24 + 5 = 1605: rest 24 is the last digit of base 25
        (1605, ALPHABET[88] + ALPHABET[5]),
        # 64 + 64 * 25 = 1664: rest 25 = 1 * 25 + 0, most significant first
        (1664, ALPHABET[65] + ALPHABET[64] + "!"),
    ],
)
def test_numbers_worked_out_by_hand(number: int, text: str) -> None:
    assert len(ALPHABET) == 89
    assert leb89(number) == text
    assert decoded(text) == [number]


ORDER = "cbad"
"""Pods by the hashes of `ns NUL pod NUL app`, ascending."""


def test_a_placement_worked_out_by_hand() -> None:
    """By their hashes the order is as in ORDER; nodes 0 and 1 have one container each, and node 2 has two."""
    names = [("ns", "a", "app"), ("ns", "b", "app"), ("ns", "c", "app"), ("ns", "d", "app")]
    order = sorted(names, key=hash_of)
    assert [pod for _, pod, _ in order] == list(ORDER)
    node_of = {order[0]: 2, order[1]: 0, order[2]: 2, order[3]: 1}
    found = placement(node_of, 3)
    assert found.metadata == "npv0v001::ve=leb89::cc=4::nn=3::bn=2"
    assert found.vectors == {0: "#", 1: "%"}  # places 1 and 3 from the beginning


def test_the_hashes_are_those_of_numaplacements_own_tests() -> None:
    assert hash_of(("", "", "")) == 11145182160106660097
    assert hash_of(("ns", "pod", "cnt")) == 9468815510407277218


@pytest.mark.parametrize(
    ("nodes", "count", "metadata", "vectors"),
    [
        ("", 2, "cc=0::nn=2::bn=0", {}),
        ("00", 2, "cc=2::nn=2::bn=0", {}),  # none is empty
        ("02", 3, "cc=2::nn=3::bn=0", {2: "#"}),  # node 1 does not exist
        ("1100", 2, "cc=4::nn=2::bn=0", {1: "!#"}),  # of equally busy ones the first
        ("2111", 3, "cc=4::nn=3::bn=1", {2: "!"}),
    ],
)
def test_only_nodes_with_containers_have_vectors_and_the_busiest_has_none(
    nodes: str, count: int, metadata: str, vectors: dict[int, str]
) -> None:
    """`nodes`: of the containers, in the order of their hashes."""
    names = sorted((("ns", str(number), "app") for number in range(len(nodes))), key=hash_of)
    found = placement({name: int(node) for name, node in zip(names, nodes, strict=True)}, count)
    assert (found.metadata, found.vectors) == (f"npv0v001::ve=leb89::{metadata}", vectors)


@given(
    st.dictionaries(st.tuples(*[st.text(max_size=8)] * 3), st.integers(0, 3), max_size=200),
    st.integers(4, 6),
)
def test_any_placement_is_read_back_as_it_was(names: dict[tuple[str, str, str], int], nodes: int) -> None:
    found = placement(names, nodes)
    shuffled = dict(sorted(names.items(), key=lambda one: one[0][::-1]))
    assert placement(shuffled, nodes) == found
    in_order = sorted(names, key=lambda name: (hash_of(name), name))
    assert nodes_of(found.metadata, dict(found.vectors)) == [names[name] for name in in_order]


@given(st.integers(0, 2**40))
def test_a_number_is_read_back_as_it_was(number: int) -> None:
    assert decoded(leb89(number) + leb89(number // 3)) == [number, number // 3]


def _pods_of(*pods: dict[str, object], policy: str = "single-numa-node") -> PodPart | None:
    run = play(scenario(machine("16Gi", "16Gi"), [{"admit": one} for one in pods], {"topologyManagerPolicy": policy}))
    state = replace(run.state, capacity=Capacity({}, {}))
    found = topology_of("n", run.scenario.setup.kubelet, state)
    assert "nodeTopologyPodsFingerprint" in str(node_resource_topology(found)["attributes"])
    return read_part(annotations_of(found), "pods", PodPart)


def test_the_pods_of_a_node_are_in_its_object() -> None:
    one, two, three = pod("one", "9Gi"), pod("two", "9Gi"), pod("three", "1Gi")
    found = _pods_of(one, two, three)
    names = [("default", name) for name in ("one", "two", "three")]
    assert found is not None
    assert (found.fingerprint, found.method) == (fingerprint(names), "all")
    node_of = {("default", "one", "app"): 0, ("default", "two", "app"): 1, ("default", "three", "app"): 0}
    expected = placement(node_of, 2)
    assert (found.placement, found.vectors) == (expected.metadata, expected.vectors)


def test_where_a_container_may_be_on_several_nodes_there_is_no_placement() -> None:
    found = _pods_of(pod("wide", "20Gi"), policy="best-effort")
    assert found is not None
    assert found.placement is None


def test_pods_that_are_not_all_known_have_no_fingerprint() -> None:
    run = play(scenario(machine("16Gi"), [{"admit": pod("one")}]))
    found = topology_of("n", run.scenario.setup.kubelet, run.state)
    assert found.pods is None
    assert "Fingerprint" not in str(cast("object", node_resource_topology(found)))


def test_eight_nodes_with_a_thousand_containers_each_stay_below_the_limit() -> None:
    """With the longest names that Kubernetes allows, in one namespace each."""
    run = play(scenario(machine(*["64Gi"] * 8), [], {"topologyManagerPolicy": "single-numa-node"}))
    state, kubelet = run.state, run.scenario.setup.kubelet
    pods, entries, nodes = {}, {}, state.memory.state.machine
    for number in range(8000):
        name = f"{'n' * 240}-{number}"
        one = read_pod({**pod(name), "metadata": {"name": name, "namespace": "s" * 63, "uid": f"uid-{number}"}})
        block = Block((number % 8,), "memory", 1 << 20)
        pods[one.uid], entries[one.uid] = one, {"app": (block,)}
        nodes = charge(nodes, (number % 8,), block.type, block.size)
    policy = replace(state.memory, state=replace(state.memory.state, machine=nodes, entries=entries))
    state = replace(state, memory=policy, pods=pods, capacity=Capacity({}, {}))
    began = time.perf_counter()
    found = topology_of("n", kubelet, state)
    annotations = annotations_of(found)
    print(f"{size_of(annotations)} bytes in {time.perf_counter() - began:.2f} s")
    assert left_out(annotations) == ()
    assert size_of(annotations) <= MOST_BYTES
    assert found.pods is not None
    assert found.pods.placement == "npv0v001::ve=leb89::cc=8000::nn=8::bn=0"
    assert len(nodes_of(found.pods.placement, dict(found.pods.vectors))) == 8000


def _asks(name: str, **limits: str) -> Plain:
    return {"name": name, "resources": {"limits": limits}}


def _pod(name: str, *containers: Plain, init: tuple[Plain, ...] = ()) -> Plain:
    return {"metadata": {"name": name}, "spec": {"containers": [*containers], "initContainers": [*init]}}


NIC, NEAR_TWO, GPU = "v.example/nic", "v.example/dpu", "v.example/gpu"
NO_MEMORY = {"memoryManagerPolicy": "None", "reservedMemory": None}
STATIC_CPUS = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
WHOLE, PART = {"cpu": "1", "memory": "1Gi"}, {"cpu": "200m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("pods", "settings", "expected"),
    [
        pytest.param(
            [
                _pod(
                    "p",
                    _asks("app", **WHOLE),
                    init=(_asks("init", **WHOLE), _asks("car", **WHOLE) | {"restartPolicy": "Always"}),
                )
            ],
            STATIC_CPUS,
            {"car": 0, "app": 0},
            id="a sidecar counts, and an init container that ends does not",
        ),
        pytest.param([_pod("p", _asks("app", **PART))], {}, {"app": 0}, id="memory alone"),
        pytest.param(
            [_pod("p", _asks("app", **WHOLE))], NO_MEMORY | STATIC_CPUS, {"app": 0}, id="CPUs without a Memory Manager"
        ),
        pytest.param(
            [_pod("p", _asks("app", **WHOLE)), _pod("q", _asks("app", **PART))],
            NO_MEMORY | STATIC_CPUS,
            None,
            id="memory that no manager gave counts, and its node is unknown",
        ),
        pytest.param([_pod("p", _asks("app", **{NIC: "1"}))], {}, {"app": 1}, id="a device counts in any pod"),
        pytest.param([_pod("p", _asks("app", **{GPU: "1"}))], {}, {}, id="not one that is in no zone"),
        pytest.param(
            [_pod("p", _asks("app", **{NEAR_TWO: "2"}))], {}, {"app": 1}, id="one on two nodes is near the other"
        ),
        pytest.param([_pod("p", _asks("app"))], {}, {}, id="no container that counts"),
    ],
)
def test_the_containers_that_the_scheduler_counts_are_placed_or_none_is(
    pods: list[Plain], settings: Plain, expected: dict[str, int] | None
) -> None:
    made = {**machine("16Gi", "16Gi"), "devices": {NIC: {"a": 1}, NEAR_TWO: {"a": 1, "b": [0, 1]}, GPU: {"g": None}}}
    run = play(
        scenario(made, [{"admit": one} for one in pods], {"topologyManagerPolicy": SINGLE_NUMA_NODE, **settings})
    )
    assert len(run.state.pods) == len(pods)
    state = replace(run.state, capacity=Capacity({}, {}))
    found = read_placement(node_resource_topology(topology_of("n", run.scenario.setup.kubelet, state)), pods)
    assert (None if found is None else {container: node for (_, _, container), node in found.items()}) == expected


def test_the_placement_of_any_node_is_read_by_the_scheduler_as_the_kubelet_placed() -> None:
    read = 0
    for seed in range(200):
        nrt, pods, promised = _random_node(Random(seed))
        found = read_placement(nrt, pods) or {}
        assert {name for name, node in found.items() if not promised[name] <= NodeSet.of(node)} == set(), seed
        read += len(found)
    assert read > 200


def _random_node(random: Random) -> tuple[Plain, list[Plain], dict[Name, NodeSet]]:
    """The node's object, its pods, and the nodes of the memory that each container got."""
    kubelet = random_kubelet(random)
    kubelet = replace(kubelet, topology=replace(kubelet.topology, policy=SINGLE_NUMA_NODE))
    state, pods, promised = random_state(random, kubelet, pods=1), dict[str, Plain](), dict[Name, NodeSet]()
    for number in range(8):
        wanted = random_pod(random, f"p{number}")
        try:
            admission = admit(kubelet, state, read_pod(wanted))
        except (InputError, KubeletHangs):
            continue
        state = admission.state
        if admission.rejection is None:
            pods[admission.pod.uid] = wanted
            for one in admission.placements:
                promised["ns", admission.pod.name, one.container] = one.memory_nodes or NodeSet()
        if pods and random.random() < 0.3:
            gone = random.choice(list(pods))
            del pods[gone]
            state = remove(state, gone)
    found = topology_of("n", kubelet, replace(state, capacity=Capacity({}, {})))
    return node_resource_topology(found), list(pods.values()), promised
