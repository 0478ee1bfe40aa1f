"""Whoever answers a query: what `numaudit fleet` reads takes ten times the answer's size at most."""

from __future__ import annotations

from collections.abc import Callable

from numaudit.fleet.answers import LARGEST_SAMPLE, read_vector
from processes.input_cost import MIB, MOST, costs

SIZE = 8 * MIB


def _vector(*elements: str) -> bytes:
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{",".join(elements)}]}}}}'.encode()


def _labels(size: int) -> str:
    return ",".join([f'"{number:06d}":""' for number in range(size // 12)])


def _filled(element: str) -> bytes:
    """Answers of SIZE; `%d` in the element is its number."""
    one = element % 123456 if "%" in element else element
    return _vector(*[element % (100_000 + at) if "%" in element else one for at in range(SIZE // (len(one) + 1))])


ANSWERS: dict[str, Callable[[], bytes]] = {
    "no labels": lambda: _filled('{"metric":{},"value":[0,"1"]}'),
    "one label": lambda: _filled('{"metric":{"a":"%d"},"value":[0,"1"]}'),
    "many labels": lambda: _filled(f'{{"metric":{{{_labels(LARGEST_SAMPLE - 100)}}},"value":[0,"1"]}}'),
    "a large series": lambda: _vector(f'{{"metric":{{{_labels(SIZE)}}},"value":[0,"1"]}}'),
    "no objects": lambda: _filled("1"),
    "empty objects": lambda: _filled("{}"),
}


def test_any_answer_takes_ten_times_its_size_at_most() -> None:
    inputs = {what: make() for what, make in ANSWERS.items()}
    found = costs(read_vector, inputs)
    refused = {what: one.refusal for what, one in found.items() if one.refusal}
    assert refused.pop("a large series") == "the labels of a series take more than 64 KiB"
    assert "more than 500000 series" in refused.pop("empty objects")
    assert refused.keys() == {"no objects"}
    assert {what: one.memory for what, one in found.items() if one.memory > MOST * len(inputs[what])} == {}
    assert {what: one.seconds for what, one in found.items() if one.seconds > 2 * SIZE // MIB} == {}


def test_labels_are_read_as_they_are() -> None:
    (sample,) = read_vector(_vector('{"metric":{"a":"1","b":""},"value":[5,"2"]}')).samples
    assert sample.labels == {"a": "1", "b": ""}
    assert (sample.label("a"), sample.label("b"), sample.label("1"), sample.value) == ("1", "", "", 2.0)
