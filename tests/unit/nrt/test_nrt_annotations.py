"""Annotations and the whole NodeResourceTopology of a node, for its scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar, cast

import pytest
from msgspec.structs import replace

from clusters.nrt_rebuilt import left_out
from kubelets.random_nodes import random_kubelet, random_state
from made_up.scenarios import machine, play, pod, scenario
from numaudit.errors import ParseError
from numaudit.memorymanager.admission import NodeState
from numaudit.nrt.describe import MOST_HOLDERS, topology_of
from numaudit.nrt.resource_topology import (
    LEFT_OUT,
    MOST_BYTES,
    PREFIX,
    annotations_of,
    node_resource_topology,
    read_part,
    size_of,
)
from numaudit.nrt.topology import CpuPart, GroupPart, MeasuredPart, MemoryPart, NodeTopology
from numaudit.scenario.simulation import ScenarioRun
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB = 1 << 30
V = TypeVar("V")
STATIC_CPUS = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def _run(*pods: dict[str, Any], **kubelet: object) -> ScenarioRun:
    return play(scenario(machine("16Gi", "16Gi", "16Gi"), [{"admit": one} for one in pods], kubelet))


def _topology(run: ScenarioRun, state: NodeState | None = None, **more: object) -> NodeTopology:
    return topology_of("worker-1", run.scenario.setup.kubelet, state or run.state, **cast("dict[str, Any]", more))


def test_the_groups_name_their_pods_and_a_node_alone_is_a_singleton() -> None:
    found = _topology(_run(pod("wide", "20Gi"), pod("narrow", "2Gi"), pod("another", "1Gi")))
    groups = read_part(annotations_of(found), "groups", GroupPart)
    assert groups is not None
    assert [(str(one.nodes), one.pods) for one in groups.groups] == [
        ("0-1", ("default/wide",)),
        ("2", ("default/another", "default/narrow")),
    ]
    assert [one.more for one in groups.groups] == [0, 0]
    assert groups.singletons == NodeSet.of(2)


def test_the_memory_map_and_the_largest_requests_are_in_bytes() -> None:
    alone = read_part(annotations_of(_topology(_run(pod("wide", "20Gi"), pod("narrow", "2Gi")))), "memory", MemoryPart)
    memory = read_part(annotations_of(_topology(_run(pod("wide", "20Gi")))), "memory", MemoryPart)
    assert memory is not None
    assert alone is not None
    assert [*alone.nodes.values()][2].group == NodeSet.of(2)
    first, _, third = memory.nodes.values()
    assert first.group == NodeSet.of(0, 1)
    assert third.group is None
    assert first.resources["memory"].allocatable == 15 * GIB
    assert first.resources["memory"].free == 0
    assert memory.admissible == {"memory": {1: 16 * GIB, 2: 11 * GIB, 3: 0}}


def test_what_a_pod_held_that_is_gone_is_free() -> None:
    gone = play(scenario(machine("16Gi", "16Gi"), [{"admit": pod("wide", "20Gi")}, {"remove": {"pod": "wide"}}]))
    assert gone.state.memory.state.entries  # the kubelet releases it at the next admission only
    found = _topology(gone)
    assert found.groups == GroupPart()
    assert [one.available for one in found.zones[0]] == [15 * GIB]


def test_memory_on_several_nodes_is_taken_off_in_ascending_order_as_the_topology_updater_does() -> None:
    """20 GiB on two nodes of 15 and 16 GiB leave 0 and 11 GiB; CPUs are taken where they are."""
    found = _topology(_run(pod("wide", "20Gi", cpu="3"), **STATIC_CPUS))
    shown = {
        node: {one.name: (one.capacity, one.allocatable, one.available) for one in resources}
        for node, resources in found.zones.items()
    }
    assert shown[0] == {"cpu": (4, 3, 0), "memory": (16 * GIB, 15 * GIB, 0)}
    assert shown[1] == {"cpu": (4, 4, 4), "memory": (16 * GIB, 16 * GIB, 11 * GIB)}
    assert shown[2] == {"cpu": (4, 4, 4), "memory": (16 * GIB, 16 * GIB, 16 * GIB)}


def test_the_order_of_pods_does_not_change_the_text() -> None:
    run = _run(pod("wide", "20Gi"), pod("narrow", "2Gi"), pod("another", "1Gi"), **STATIC_CPUS)
    before = annotations_of(_topology(run))
    for seed in range(20):
        state = run.state
        assert state.cpu is not None
        memory = state.memory.state
        shuffled = replace(
            state,
            pods=_shuffled(state.pods, seed),
            cpu=replace(state.cpu, entries=_shuffled(state.cpu.entries, seed)),
            memory=replace(state.memory, state=replace(memory, entries=_shuffled(memory.entries, seed))),
        )
        assert annotations_of(_topology(run, shuffled)) == before
        assert node_resource_topology(_topology(run, shuffled)) == node_resource_topology(_topology(run))


def _shuffled(values: Mapping[str, V], seed: int) -> dict[str, V]:
    items = list(values.items())
    Random(seed).shuffle(items)
    return dict(items)


def test_free_memory_is_not_written_again_until_it_changed_by_a_step() -> None:
    """A step of 16 GiB is 512 MiB."""
    run = _run()
    first = annotations_of(_topology(run, free={0: 9 * GIB + 1}))
    assert read_part(first, "measured", MeasuredPart) == MeasuredPart({0: 9 * GIB}, {0: GIB // 2})
    for near in (9 * GIB - GIB // 2 + 1, 9 * GIB + GIB // 2 - 1):
        assert annotations_of(_topology(run, free={0: near}), first) == first
    later = annotations_of(_topology(run, free={0: 9 * GIB - GIB // 2}), first)
    assert {key for key in first if first[key] != later[key]} == {f"{PREFIX}measured"}


def test_costs_are_distances_unless_every_pair_was_measured() -> None:
    made = machine("4Gi", "4Gi")
    for one, other in zip(made["nodes"], ([10, 21], [21, 10]), strict=True):
        one["distances"] = other
    run = play(scenario(made, []))
    pairs = {(0, 0): 80.0, (0, 1): 140.0, (1, 0): 144.0, (1, 1): 82.0}
    for latencies, source, costs in (
        (None, "distances", {0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}}),
        (pairs, "calibration", {0: {0: 10, 1: 18}, 1: {0: 18, 1: 10}}),
        ({(0, 0): 80.0}, "distances", {0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}}),
    ):
        found = _topology(run, latencies=latencies).costs
        assert found is not None
        assert (found.source, found.costs) == (source, costs)


def test_cpus_are_lists_by_node_socket_and_cache() -> None:
    found = read_part(annotations_of(_topology(_run(pod("wide", "20Gi", cpu="3"), **STATIC_CPUS))), "cpus", CpuPart)
    assert found is not None
    assert found.reserved == CpuSet.of(0)
    assert found.free == CpuSet.parse("4-11")
    assert found.nodes == {0: CpuSet.parse("0-3"), 1: CpuSet.parse("4-7"), 2: CpuSet.parse("8-11")}


def test_the_object_has_the_zones_attributes_and_annotations_that_consumers_read() -> None:
    found = node_resource_topology(_topology(_run(pod("wide", "20Gi"), topologyManagerPolicy="restricted")))
    assert found["apiVersion"] == "topology.node.k8s.io/v1alpha2"
    assert found["metadata"]["name"] == "worker-1"
    attributes = {one["name"]: one["value"] for one in found["attributes"]}
    assert attributes["topologyManagerPolicy"] == "restricted"
    assert attributes["topologyManagerScope"] == "container"
    assert attributes["topologyManagerMaxNUMANodes"] == "8"
    first = found["zones"][0]
    assert (first["name"], first["type"]) == ("node-0", "Node")
    assert first["resources"] == [
        {"name": "memory", "capacity": str(16 * GIB), "allocatable": str(15 * GIB), "available": "0"}
    ]
    json.dumps(found)


def test_devices_whose_nodes_are_not_all_known_are_in_no_zone() -> None:
    """Those in use name their nodes and are not free: with these alone a zone would seem to be full."""
    made = {**machine("16Gi", "16Gi"), "devices": {"v.example/gpu": {"a": 0, "b": None}, "v.example/nic": {"c": 1}}}
    run = play(scenario(made, [{"admit": pod("one", **{"v.example/gpu": "1"})}]))
    for unplaced, expected in (((), {"v.example/gpu", "v.example/nic"}), (("v.example/gpu",), {"v.example/nic"})):
        found = _topology(run, unplaced=unplaced)
        assert {one.name for zone in found.zones.values() for one in zone} - {"memory"} == expected
        assert found.devices.devices.keys() == {"v.example/gpu", "v.example/nic"}


def test_parts_without_space_are_left_out_the_least_useful_first_and_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = _topology(_run(pod("wide", "20Gi"), **STATIC_CPUS), free={0: GIB})
    whole = annotations_of(found)
    assert left_out(whole) == ()
    ranks = [name for name in ("memory", "cpus", "devices", "measured", "groups") if f"{PREFIX}{name}" in whole]
    seen = set()
    for limit in range(size_of(whole) - 1, 0, -20):
        monkeypatch.setattr("numaudit.nrt.resource_topology.MOST_BYTES", limit)
        cut = annotations_of(found)
        missing = left_out(cut)
        assert whole.keys() - cut.keys() == {f"{PREFIX}{name}" for name in missing}
        assert sorted(ranks[len(ranks) - len(missing) :]) == list(missing)
        assert size_of(cut) <= limit or set(cut) <= {f"{PREFIX}kubelet", LEFT_OUT}
        seen.add(len(missing))
    assert seen >= set(range(1, len(ranks) + 1))


def test_pods_of_a_crowded_group_are_counted_and_not_all_named() -> None:
    pods = [pod(f"{'n' * 240}-{number:04}", "1Mi", cpu="1m") for number in range(200)]
    for one in pods:
        one["metadata"]["namespace"] = "s" * 63
    found = annotations_of(_topology(_run(*pods)))
    groups = read_part(found, "groups", GroupPart)
    assert groups is not None
    assert sum(len(one.pods) + one.more for one in groups.groups) == 200
    assert max(len(one.pods) for one in groups.groups) == MOST_HOLDERS
    assert size_of(found) <= MOST_BYTES
    assert left_out(found) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"version":2,"nodes":{}}', "has version 2, and 1 is known"),
        ("{}", "has version None"),
        ("[]", "Expected `object`"),
        ('{"version":1', "truncated"),
        ('{"version":1,"nodes":{"0":{"group":7,"resources":{}}}}', "a list such as 0-1,3"),
        ('{"version":1,"nodes":{"0":{"group":"x","resources":{}}}}', "not a list of nodes"),
        ('{"version":1,"nodes":{"0":{"resources":{"memory":{"free":1}}}}}', "allocatable"),
        ("[" * 5000, "numaudit.io/memory"),
    ],
)
def test_a_value_that_is_not_understood_is_an_error_with_its_key(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=r"numaudit\.io/memory") as raised:
        read_part({f"{PREFIX}memory": text}, "memory", MemoryPart)
    assert why in str(raised.value)


def test_names_of_pods_are_any_text() -> None:
    hostile = 'a"\\\n\x1b[31m\u202e<&>\U0001f4a9'
    run = _run(pod("one", "1Gi"))
    uid = next(iter(run.state.pods))
    state = replace(run.state, pods={uid: replace(run.state.pods[uid], name=hostile)})
    found = annotations_of(_topology(run, state))
    groups = read_part(found, "groups", GroupPart)
    assert groups is not None
    assert groups.groups[0].pods == (f"default/{hostile}",)
    assert "\n" not in found[f"{PREFIX}groups"]
    assert "\x1b" not in found[f"{PREFIX}groups"]


@pytest.mark.parametrize("seed", range(25))
def test_every_part_of_a_random_node_is_read_back_as_it_was(seed: int) -> None:
    random = Random(seed)
    kubelet = random_kubelet(random)
    free = {node.id: random.randrange(1 << 34) for node in kubelet.machine.nodes}
    found = topology_of("n", kubelet, random_state(random, kubelet), free=free)
    annotations = annotations_of(found)
    for part in (found.kubelet, found.memory, found.cpus, found.devices, found.groups, found.costs):
        if part is not None:
            name = type(part).__name__.removesuffix("Part").lower()
            name = {"cpu": "cpus", "device": "devices", "group": "groups", "cost": "costs"}.get(name, name)
            assert read_part(annotations, name, type(part)) == part


def test_a_device_that_a_pod_has_is_not_available() -> None:
    made = {**machine("16Gi", "16Gi"), "devices": {"v.example/gpu": {"a": 0, "b": 0, "c": 1}}}
    taken = play(scenario(made, [{"admit": pod("one", **{"v.example/gpu": "1"})}]))
    zones = {node: {one.name: one for one in zone} for node, zone in _topology(taken).zones.items()}
    gpus = [zones[node]["v.example/gpu"] for node in sorted(zones)]
    assert [(one.allocatable, one.available) for one in gpus] == [(2, 1), (1, 1)]
