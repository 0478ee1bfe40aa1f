"""JSON as Go reads and writes it, by msgspec's structs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from numaudit.encoding.go_json import NIL_LIST, NIL_MAP, Reader, Uint64, WrongType, dump
from numaudit.encoding.go_syntax import GoRefusal, NotJson
from numaudit.errors import ParseError


class Inner(Struct, frozen=True, rename="camel"):
    a_size: Uint64
    texts: tuple[str, ...]


class Sample(Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    small: Annotated[int, Meta(ge=-1, le=7)]
    by_node: Mapping[Annotated[int, Meta(ge=0, le=9)], Inner]
    either: str | Mapping[str, str]
    content: bytes | None
    may_miss: tuple[str, ...] | None = ()
    more: Mapping[str, str] | None = field(default_factory=dict)


READER = Reader(Sample)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
lists = st.lists(texts, max_size=3).map(tuple)
inners = st.builds(Inner, st.integers(0, 2**64 - 1), lists)
by_text = st.dictionaries(texts, texts, max_size=2)
samples = st.builds(
    Sample,
    texts,
    st.integers(-1, 7),
    st.dictionaries(st.integers(0, 9), inners, max_size=3),
    texts | by_text,
    st.none() | st.binary(max_size=5),
    st.none() | lists,
    st.none() | by_text,
)


def read(data: bytes | str) -> Sample:
    return READER.read(data.encode() if isinstance(data, str) else data, {})


@given(samples)
def test_any_value_comes_back_as_it_was_whoever_wrote_it(sample: Sample) -> None:
    """Text as a kubelet writes it is decoded by msgspec, other text step by step."""
    assert read(msgspec.json.encode(sample)) == sample
    assert read(dump(sample)) == sample
    notes: dict[str, object] = {}
    assert READER.read(json.dumps(msgspec.json.decode(msgspec.json.encode(sample)), indent=1).encode(), notes) == sample
    assert notes == {}


@given(st.binary(max_size=60) | st.text('[]{}:,"0123456789.eE+-truefalsn \\u', max_size=40).map(str.encode))
def test_any_bytes_are_read_alike_or_refused_with_and_without_a_blank(data: bytes) -> None:
    assert outcome(b'{"name":%s}' % data) == outcome(b'{"name":%s} ' % data)
    assert outcome(data) == outcome(data + b" ")


def outcome(data: bytes) -> Sample | None:
    try:
        return read(data)
    except ParseError:
        return None


@pytest.mark.parametrize("behind", ["", " "])
@pytest.mark.parametrize("number", [0, 9007199254740993, 18446744073709551615])
def test_whole_numbers_are_exact_up_to_64_bits(number: int, behind: str) -> None:
    assert Reader(Inner).read(b'{"aSize":%d,"texts":[]}%s' % (number, behind.encode()), {}).a_size == number


def test_null_and_what_is_missing_is_gos_zero() -> None:
    for text in ("{}", '{"name":null,"small":null,"byNode":null,"either":null,"content":null}'):
        sample = read(text)
        assert (sample.name, sample.small, sample.content) == ("", 0, None)
        assert sample.by_node is NIL_MAP
        assert sample.either is NIL_MAP
    assert read("{}").may_miss == ()
    assert read('{"mayMiss":null}').may_miss is None
    assert Reader(Inner).read(b"{}", {}).texts is NIL_LIST


@pytest.mark.parametrize(
    ("text", "error", "message", "in_go"),
    [
        (
            '{"name":1}',
            WrongType,
            "name: expected a text, found 1",
            "json: cannot unmarshal number into Go struct field name",
        ),
        ('{"small":8}', ParseError, "small: expected a whole number from -1 to 7, found 8", None),
        ('{"small":-2}', ParseError, "small: expected a whole number from -1 to 7, found -2", None),
        ('{"byNode":{"10":{}}}', ParseError, "byNode.10: expected a number from 0 to 9 as the key", None),
        ('{"byNode":{"9":null}}', ParseError, "byNode.9: expected an object, found null", None),
        (
            '{"byNode":{"1":{"aSize":18446744073709551616,"texts":[]}}}',
            WrongType,
            "byNode.1.aSize: expected a whole",
            "",
        ),
        ('{"byNode":{"1":{"aSize":-1}}}', WrongType, "found -1", "json: cannot unmarshal number -1 into Go struct"),
        ('{"either":[]}', WrongType, "either: expected", "json: cannot unmarshal array into Go struct field either"),
        ('{"name":"a","Name":"b"}', ParseError, 'the key "name" occurs twice (Go reads keys without case)', None),
        ("{", NotJson, "not JSON: Expecting property name", "unexpected end of JSON input"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_in_gos_words(
    text: str, error: type[ParseError], message: str, in_go: str | None
) -> None:
    with pytest.raises(error) as refused:
        read(text)
    assert message in str(refused.value)
    words = refused.value.in_go if isinstance(refused.value, GoRefusal) else None
    assert words is None if in_go is None else in_go in str(words)


def test_html_marks_and_line_separators_are_escaped_as_in_go() -> None:
    assert dump({"<&>": "\u2028\u2029\u00e9"}) == rb'{"\u003c\u0026\u003e":"\u2028\u2029' + "\u00e9".encode() + b'"}'
