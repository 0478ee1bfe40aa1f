"""Whoever answers /pods: two bytes of JSON do not become hundreds in memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from numaudit.errors import ParseError
from numaudit.kubelet.pods import LARGEST_POD, MOST_PODS, MOST_VALUES, PodList, PodReader

SIZE = 8 << 20
_HEAD = '{"metadata": {"uid": "u", "name": "n", "namespace": "x"}'


def _list(*items: str) -> bytes:
    return f'{{"kind": "PodList", "items": [{",".join(items)}]}}'.encode()


WHOLE: dict[str, Callable[[], bytes]] = {
    "empty pods": lambda: _list(*["{}"] * (SIZE // 3)),
    "lists": lambda: _list(f'{_HEAD}, "x": [{",".join(["[]"] * (SIZE // 3))}]}}'),
    "pods": lambda: _list(*["{}"] * (MOST_PODS + 1)),
    "containers": lambda: _list(f'{_HEAD}, "spec": {{"containers": [{",".join(["{}"] * MOST_VALUES)}]}}}}'),
}


def _peak(body: bytes, read: Callable[[bytes], object]) -> int:
    tracemalloc.start()
    try:
        read(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("what", WHOLE)
def test_a_list_with_more_than_a_node_has_is_refused_at_little_cost(what: str) -> None:
    def refused(body: bytes) -> None:
        with pytest.raises(ParseError, match="not the list of one node"):
            PodReader().read(body)

    assert _peak(WHOLE[what](), refused) < SIZE


def test_a_pod_that_is_too_large_is_named_and_not_decoded() -> None:
    texts = ",".join(f'"{i:07x}": ""' for i in range(LARGEST_POD // 10))
    large = f'{{"metadata": {{"uid": "v", "name": "n", "namespace": "x", "annotations": {{{texts}}}}}}}'
    found: list[PodList] = []
    assert _peak(_list(large, f"{_HEAD}}}"), lambda body: found.append(PodReader().read(body))) < SIZE
    assert [*found[0].pods] == ["u"]
    assert found[0].problems[0] == "items[0]: larger than 4 MiB, as no pod can be"


def test_the_pods_of_a_large_node_are_read() -> None:
    spec = {"containers": [{"name": f"c{i}", "env": [{"name": "A", "value": "{"}] * 20} for i in range(4)]}
    pods = [json.dumps({"metadata": {"uid": str(i), "name": "n", "namespace": "x"}, "spec": spec}) for i in range(1000)]
    assert len(PodReader().read(_list(*pods)).pods) == 1000
