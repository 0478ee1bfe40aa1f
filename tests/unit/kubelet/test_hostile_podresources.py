"""Whoever answers at the PodResources socket: two bytes of an answer do not become hundreds in memory."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from numaudit.errors import ParseError
from numaudit.kubelet.podresources import LARGEST_ANSWER, LARGEST_POD, Answer, decode
from numaudit.kubelet.pods import MOST_PODS
from numaudit.kubelet.proto import podresources_pb2 as pb

MOST_MEMORY = 10 * LARGEST_ANSWER
_HALF = LARGEST_POD // 2


def _pods(*pods: pb.PodResources) -> bytes:
    return pb.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


def _pod(**fields: object) -> bytes:
    return _pods(pb.PodResources(name="p", namespace="n", containers=[pb.ContainerResources(name="c", **fields)]))  # type: ignore[arg-type]


def _blocks(count: int, nodes: int = 0) -> list[pb.ContainerMemory]:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode()] * nodes)
    return [pb.ContainerMemory(memory_type="m", topology=topology)] * count


SHAPES: dict[str, Callable[[], bytes]] = {
    "CPUs": lambda: _pod(cpu_ids=[1] * (_HALF - 100)),
    "nodes": lambda: _pod(memory=_blocks(1, _HALF // 2)),
    "blocks": lambda: _pod(memory=_blocks(_HALF // 8)),
    "devices": lambda: _pod(
        devices=[pb.ContainerDevices(resource_name="r", device_ids=[f"{i:06x}" for i in range(_HALF // 8)])]
    ),
    "containers": lambda: _pods(
        pb.PodResources(containers=[pb.ContainerResources(name=f"{i:06x}") for i in range(_HALF // 10)])
    ),
    "a large pod": lambda: _pod(cpu_ids=[1] * (LARGEST_POD + 1)),
    "pods": lambda: _pods(*[pb.PodResources()] * (MOST_PODS + 1)),
}


def _growth(data: bytes) -> int:
    """Bytes by which this process has grown to say that no node answers so."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ParseError, match="one node"):
        decode(Answer(data))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_with_more_than_a_node_has_is_refused_at_little_cost(shape: str) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        assert child.submit(_growth, SHAPES[shape]()).result() < MOST_MEMORY


def test_a_node_of_five_hundred_pods_is_read() -> None:
    devices = [pb.ContainerDevices(resource_name="r", device_ids=[f"d{i}"]) for i in range(8)]
    container = pb.ContainerResources(name="c", cpu_ids=range(16), memory=_blocks(2, 1), devices=devices)
    pods = [pb.PodResources(name=f"p{i}", namespace="n", containers=[container]) for i in range(500)]
    assert len(decode(Answer(_pods(*pods)))) == 500
