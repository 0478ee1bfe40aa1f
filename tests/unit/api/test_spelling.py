"""One spelling of the API: what every schema keeps to, so that a new field keeps to it too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from documentation import schemas
from documentation.schemas import KINDS

_CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*")
_OTHER_UNITS = re.compile(
    r"([KMGT]i?b|[a-z][KMGT]i[Bb]|Ns|Us|Ms|Millis|Micros|Milliseconds|Microseconds|Minutes|Hours|Days|Epoch|Time)$"
)
"""Sizes are in bytes, periods in seconds (of single accesses and events in nanoseconds, which the name says)."""
_POINT_OF_TIME = re.compile(r"at|since|[a-zA-Z]+At")


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of every schema."""
    for of in schemas.documents():
        yield from of.items()


FIELDS = [(f"{of}.{key}", key, field) for of, one in _objects() for key, field in one.get("properties", {}).items()]


def _types(field: dict[str, Any]) -> set[str]:
    """What a value may be, null left out; of a map, what its values may be."""
    if "anyOf" in field:
        return set().union(*map(_types, field["anyOf"]))
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return _types(field["additionalProperties"])
    found = {field["format"]} if "format" in field else {field["type"]} if "type" in field else {"other"}
    return found - {"null"}


def test_every_key_is_in_camel_case_and_says_its_unit_if_it_has_another_than_it_should() -> None:
    assert [name for name, key, _ in FIELDS if not _CAMEL.fullmatch(key)] == []
    assert [name for name, key, _ in FIELDS if _OTHER_UNITS.search(key)] == []


def test_sizes_are_whole_numbers_of_bytes() -> None:
    sizes = [(name, _types(field)) for name, key, field in FIELDS if key == "bytes" or key.endswith("Bytes")]
    assert len(sizes) > 50
    assert [one for one in sizes if one[1] != {"integer"}] == []


def test_sets_of_nodes_are_lists_of_integers() -> None:
    lists = [
        (name, [one for one in field.get("anyOf", [field]) if one != {"type": "null"}])
        for name, key, field in FIELDS
        if re.search(r"(^n|N)odes(Now|Then)?$|^group$|^cpusetMems$|^online$|^possible$", key)
    ]
    assert len(lists) > 20
    for name, (one,) in lists:
        items = one.get("items", {})
        assert one.get("type") == "array" and (items.get("type") == "integer" or "$ref" in items), name


def test_points_of_time_are_by_rfc_3339_and_called_so() -> None:
    called = {name for name, key, _ in FIELDS if _POINT_OF_TIME.fullmatch(key)}
    assert called == {name for name, _, field in FIELDS if _types(field) == {"date-time"}}


def test_every_field_has_a_description() -> None:
    assert [name for name, _, field in FIELDS if not field.get("description")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_says_whose_it_is_of_when_and_by_which_program(kind: str) -> None:
    schema = schemas.schema(kind)
    head = ["apiVersion", "kind", "host", "generator", "takenAt"]
    assert schema["required"][:5] == list(schema["properties"])[:5] == head
