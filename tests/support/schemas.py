"""The JSON Schemas of the documents, from their types: tests validate by them, and docs/schemas/ has them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from numaudit.api.document import API_VERSION, KINDS
from numaudit.topology.nodeset import IdSet

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Schema = dict[str, Any]

_PARTS = "definitions.schema.json"
_HERE = "#/$defs/"


def schema(kind: str) -> Schema:
    """The schema of one kind of document, whole in itself."""
    of = KINDS[kind]
    _, parts = msgspec.json.schema_components([of], schema_hook=_schema_of_set, ref_template=_HERE + "{name}")
    body = parts.pop(of.__name__)
    marks = {"apiVersion": {"const": API_VERSION}, "kind": {"const": kind}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "title": kind,
        "properties": {**marks, **body["properties"]},
        "required": [*marks, *body["required"]],
        "$defs": dict(sorted(parts.items())),
    }


def files() -> dict[str, Schema]:
    """Name -> schema: one file for each kind, which refers to the parts of all kinds in one file beside it."""
    found: dict[str, Schema] = {}
    parts: Schema = {}
    for kind in KINDS:
        whole = schema(kind)
        for name, part in whole.pop("$defs").items():
            assert parts.setdefault(name, part) == part, f"two types of documents have the name {name}"
        found[f"{kind}.schema.json"] = json.loads(json.dumps(whole).replace(f'"{_HERE}', f'"{_PARTS}{_HERE}'))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Definitions"}
    return found | {_PARTS: {**head, "description": "What documents consist of.", "$defs": dict(sorted(parts.items()))}}


@cache
def validator(kind: str) -> Draft202012Validator:
    """What validates documents of one kind by its schema, which is valid itself."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (a second, and few processes of the tests need it)

    Draft202012Validator.check_schema(schema(kind))
    return Draft202012Validator(schema(kind))


def validate(document: object, kind: str) -> None:
    """Raises jsonschema.ValidationError."""
    validator(kind).validate(document)


def _schema_of_set(of: type) -> dict[str, str]:
    if issubclass(of, IdSet):
        return {"type": "string"}
    raise NotImplementedError(f"no document shows a {of.__name__}")
