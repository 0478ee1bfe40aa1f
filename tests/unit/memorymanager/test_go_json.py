"""JSON as Go reads and writes it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.gojson.json import Walk, dump, field_names, load

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**65) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


@given(documents)
def test_any_document_is_the_same_whether_it_is_plain_or_not(document: object) -> None:
    """Text that a kubelet may have written is read by a quicker parser than other text."""
    compact = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    assert load(compact) == load(compact + b"\n") == load(json.dumps(document).encode()) == document
    assert load(dump(document)) == document


@given(st.binary(max_size=60) | st.text('[]{}:,"0123456789.eE+-truefalsn \\u', max_size=40).map(str.encode))
def test_any_bytes_are_read_alike_or_refused(data: bytes) -> None:
    try:
        document = load(data)
    except ParseError:
        with pytest.raises(ParseError):
            load(data + b" ")
        return
    assert repr(load(data + b" ")) == repr(document)


@pytest.mark.parametrize("quick", [b"", b" "])
@pytest.mark.parametrize("number", ["0", "18446744073709551615", "18446744073709551616", "9007199254740993", "-1"])
def test_whole_numbers_are_exact(number: str, quick: bytes) -> None:
    assert load(number.encode() + quick) == int(number)


def test_keys_that_occur_twice_are_noticed_where_they_are_read() -> None:
    value = load(b'{"a":{"x":1,"y":2,"x":1}}')
    walk = Walk()
    fields = walk.struct(value, field_names("a"))
    walk.below("a")
    with pytest.raises(ParseError, match=r'^a: the key "x" occurs twice; the kubelet writes each key once$'):
        walk.struct(fields["a"], field_names("x", "y"))


def test_a_path_is_shown_as_it_would_be_written() -> None:
    walk = Walk()
    assert walk.path() == "the document"
    walk.below("entries")
    for _ in walk.items({"uid": [1]}):
        for _ in walk.elements([1]):
            assert walk.path("size") == "entries.uid[0].size"
    assert walk.path() == "entries"


def test_html_marks_and_line_separators_are_escaped_as_in_go() -> None:
    assert dump({"<&>": "\u2028\u2029\u00e9"}) == rb'{"\u003c\u0026\u003e":"\u2028\u2029' + "\u00e9".encode() + b'"}'
