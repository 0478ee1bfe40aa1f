"""Whoever answers at the PodResources socket: two bytes of an answer do not become hundreds in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from numaudit.kubelet.parsers.pods import MOST_PODS
from numaudit.kubelet.proto import podresources_pb2 as pb
from numaudit.kubelet.sources.podresources import (
    LARGEST_ALLOCATABLE,
    LARGEST_ANSWER,
    LARGEST_POD,
    MOST_CPUS,
    MOST_FIELDS,
    ListAnswer,
    decode,
    decode_allocatable,
)
from processes.input_cost import MIB, MOST, costs

SMALL = 32 * MIB
_HALF = LARGEST_POD // 2 - 100


def _pods(*pods: pb.PodResources) -> bytes:
    return pb.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


def _pod(**fields: object) -> bytes:
    return _pods(pb.PodResources(name="p", namespace="n", containers=[pb.ContainerResources(name="c", **fields)]))  # type: ignore[arg-type]


def _blocks(count: int, nodes: int = 0) -> list[pb.ContainerMemory]:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode()] * nodes)
    return [pb.ContainerMemory(memory_type="m", topology=topology)] * count


PODS: dict[str, Callable[[], bytes]] = {
    "empty pods": lambda: _pods(pb.PodResources()),
    "CPUs": lambda: _pod(cpu_ids=[1] * 2 * _HALF),
    "nodes": lambda: _pod(memory=_blocks(1, _HALF)),
    "blocks": lambda: _pod(memory=[pb.ContainerMemory()] * _HALF),
    "devices": lambda: _pod(devices=[pb.ContainerDevices()] * _HALF),
    "device ids": lambda: _pod(devices=[pb.ContainerDevices(resource_name="r", device_ids=[""] * _HALF)]),
    "containers": lambda: _pods(pb.PodResources(containers=[pb.ContainerResources()] * _HALF)),
    "claims": lambda: _pod(dynamic_resources=[pb.DynamicResource()] * _HALF),
    "a large pod": lambda: _pod(cpu_ids=[1] * LARGEST_POD),
}
"""What an answer is made of."""
ANSWERS: dict[str, Callable[[], bytes]] = {
    "pods": lambda: _pods(*[pb.PodResources(name="p")] * (MOST_PODS + 1)),
    "named containers": lambda: _pods(
        *[pb.PodResources(containers=[pb.ContainerResources(name=f"{i:06x}") for i in range(10_000)])]
        * (MOST_FIELDS // 20_000 + 1)
    ),
    "many CPUs": lambda: _pod(cpu_ids=[1] * _HALF) * (MOST_CPUS // _HALF + 1),
}


def read(data: bytes) -> object:
    return decode(ListAnswer(data))


def test_the_largest_answers_take_ten_times_their_size_at_most() -> None:
    made = {what: make() for what, make in PODS.items()}
    found = costs(read, {what: one * (LARGEST_ANSWER // len(one)) for what, one in made.items()})
    assert [what for what, one in found.items() if "one node" not in one.refusal] == []
    assert {what: one.memory for what, one in found.items() if one.memory > MOST * LARGEST_ANSWER} == {}
    assert {what: one.seconds for what, one in found.items() if one.seconds > 2 * LARGEST_ANSWER // MIB} == {}


def test_a_small_answer_is_no_large_one_in_memory() -> None:
    found = costs(read, {what: make() * 2 for what, make in PODS.items()})
    assert {what: one.memory for what, one in found.items() if one.memory > SMALL} == {}


def test_a_small_answer_with_more_than_a_node_has_is_refused_at_little_cost() -> None:
    found = costs(read, {what: make() for what, make in ANSWERS.items()})
    assert [what for what, one in found.items() if "one node" not in one.refusal] == []
    assert {what: one.memory for what, one in found.items() if one.memory > SMALL} == {}


def test_a_node_of_five_hundred_pods_is_read() -> None:
    devices = [pb.ContainerDevices(resource_name="r", device_ids=[f"d{i}"]) for i in range(8)]
    container = pb.ContainerResources(name="c", cpu_ids=range(16), memory=_blocks(2, 1), devices=devices)
    pods = [pb.PodResources(name=f"p{i}", namespace="n", containers=[container]) for i in range(500)]
    assert len(read(_pods(*pods))) == 500  # type: ignore[arg-type]


def test_a_pod_of_four_thousand_devices_is_read() -> None:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=1)])
    devices = [
        pb.ContainerDevices(resource_name="example.com/device", device_ids=[f"0000-{i}"], topology=topology)
        for i in range(4000)
    ]
    (pod,) = decode(ListAnswer(_pod(devices=devices)))
    assert sum(len(one.ids) for one in pod.containers["c"].devices or ()) == 4000


@pytest.mark.parametrize(("size", "is_refused"), [(LARGEST_ANSWER, True), (LARGEST_ALLOCATABLE, False)])
def test_an_answer_with_allocatable_devices_takes_little_memory(size: int, is_refused: bool) -> None:
    half, device = size // 2 - 100, pb.ContainerDevices(resource_name="r", device_ids=["d"])
    answers = {
        "CPUs": pb.AllocatableResourcesResponse(cpu_ids=[1] * 2 * half),
        "nodes": pb.AllocatableResourcesResponse(
            devices=[pb.ContainerDevices(topology=pb.TopologyInfo(nodes=[pb.NUMANode()] * half))]
        ),
        "devices": pb.AllocatableResourcesResponse(devices=[device] * (size // 10)),
        "blocks": pb.AllocatableResourcesResponse(memory=[pb.ContainerMemory()] * half),
    }
    found = costs(decode_allocatable, {what: one.SerializeToString() for what, one in answers.items()})
    if is_refused:
        assert [what for what, one in found.items() if "one node" not in one.refusal] == []
    assert {what: one.memory for what, one in found.items() if one.memory > SMALL} == {}
