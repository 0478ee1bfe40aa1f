"""What comes from a server is read or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.fleet_nodes import vector
from numaudit.errors import Unavailable
from numaudit.fleet.answers import read_scalar, read_vector


def test_what_is_no_number_is_left_out() -> None:
    rows = [{"metric": {"a": text}, "value": [1, text]} for text in ("1.5", "NaN", "+Inf", "-Inf", "1e3")]
    assert [one.value for one in read_vector(vector(rows)).samples] == [1.5, 1000.0]


def test_warnings_of_both_kinds_are_kept() -> None:
    assert read_vector(vector([], warnings=["store a is not available"])).warnings == ("store a is not available",)
    (partial,) = read_vector(vector([], isPartial=True)).warnings
    assert "partial" in partial


def test_a_scalar_may_come_as_a_vector_of_one() -> None:
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [1, "7.5"]}}
    assert read_scalar(json.dumps(scalar).encode()) == 7.5
    assert read_scalar(vector([{"metric": {}, "value": [1, "7.5"]}])) == 7.5
    with pytest.raises(Unavailable):
        read_scalar(vector([]))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_PARTS = ("status", "data", "resultType", "result", "metric", "value", "warnings", "isPartial", "error", "errorType")


@given(
    st.binary(max_size=40)
    | _JSON.map(lambda value: json.dumps(value).encode())
    | st.lists(_JSON, max_size=3).map(vector)
    | st.dictionaries(st.sampled_from(_PARTS), _JSON, max_size=4).map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(_PARTS), _JSON, max_size=3).map(lambda value: vector([value]))
)
def test_any_bytes_are_an_answer_or_none(body: bytes) -> None:
    for read in (read_vector, read_scalar):
        try:
            read(body)
        except Unavailable as error:
            assert str(error)
