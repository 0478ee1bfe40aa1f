"""Whoever may create pods: a pod of two megabytes does not become hundreds in memory, and a tick waits for none."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from numaudit.errors import ParseError, Unavailable
from numaudit.kubelet.parsers.pods import (
    LARGEST_POD,
    MOST_CONTAINERS,
    MOST_VALUES_OF_ONE,
    PodReader,
    without_secrets,
)
from processes.input_cost import MIB, costs

SMALL = 32 * MIB
"""What a small answer may take that is as dense as can be."""
_HEAD = '{"metadata": {"uid": "u", "name": "n", "namespace": "x"}'


def _list(*items: str) -> bytes:
    return f'{{"kind": "PodList", "items": [{",".join(items)}]}}'.encode()


def _pod(number: int, containers: str = "", more: str = "") -> str:
    head = _HEAD.replace('"u"', f'"{number}"')
    return f'{head}, "spec": {{"containers": [{containers}]}}{more}}}'


def _containers(pods: int, each: int) -> bytes:
    return _list(*[_pod(pod, ",".join([f'{{"name":"{i}"}}' for i in range(each)])) for pod in range(pods)])


def _keys(count: int) -> str:
    return ",".join([f'"{number:07x}":1' for number in range(count)])


READ: dict[str, Callable[[], bytes]] = {
    "containers": lambda: _containers(2, MOST_CONTAINERS // 2),
    "other fields": lambda: _list(*[_pod(1, "", f', "x": {{{_keys(MOST_VALUES_OF_ONE - 100)}}}')] * 4),
}


def read(body: bytes) -> object:
    return PodReader().read(body)


def test_more_containers_than_a_node_has_are_refused_and_one_less_is_read() -> None:
    assert read(_containers(2, MOST_CONTAINERS // 2))
    with pytest.raises(ParseError, match="more than 20000 containers: this is not the list of one node"):
        read(_containers(2, MOST_CONTAINERS // 2 + 1))


def test_the_densest_list_that_is_read_costs_little() -> None:
    inputs = {what: make() for what, make in READ.items()}
    for found in (costs(read, inputs), costs(without_secrets, inputs)):
        assert {what: one.refusal for what, one in found.items() if one.refusal} == {}
        assert {what: one.memory for what, one in found.items() if one.memory > SMALL} == {}
        assert {what: one.seconds for what, one in found.items() if one.seconds > 2 * len(inputs[what]) / MIB + 1} == {}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (_keys(LARGEST_POD // 10), "larger than 4 MiB, which no pod can be"),
        (_keys(MOST_VALUES_OF_ONE), "more than 100000 values, which no pod has"),
    ],
    ids=["large", "dense"],
)
def test_a_pod_that_is_too_large_is_named_and_not_decoded(more: str, why: str) -> None:
    found = PodReader().read(_list(f'{_HEAD}, "x": {{{more}}}}}', f"{_HEAD}}}"))
    assert [*found.pods] == ["u"]
    assert found.problems[0] == f"items[0]: {why}"


def test_the_pods_of_a_large_node_are_read() -> None:
    spec = {"containers": [{"name": f"c{i}", "env": [{"name": "A", "value": "{"}] * 20} for i in range(4)]}
    pods = [json.dumps({"metadata": {"uid": str(i), "name": "n", "namespace": "x"}, "spec": spec}) for i in range(1000)]
    assert len(PodReader().read(_list(*pods)).pods) == 1000


def test_reading_that_has_no_time_left_goes_on_at_the_next_call() -> None:
    body, reader = _list(*[_pod(one) for one in range(10)]), PodReader()
    decoded = 0

    def go_on() -> None:
        nonlocal decoded
        if decoded == 4:
            decoded = 0
            raise Unavailable("no time left")
        decoded += 1

    for _ in range(2):
        with pytest.raises(Unavailable, match="no time left"):
            reader.read(body, go_on)
    assert len(reader.read(body, go_on).pods) == 10
    assert decoded == 2
    assert len(reader.read(body, go_on).pods) == 10
    assert decoded == 2


def test_an_item_that_is_no_object_is_named() -> None:
    found = PodReader().read(_list(f"{_HEAD}}}", '"text"'))
    assert [*found.pods] == ["u"]
    assert found.problems[-1].startswith("items[1]: ")
