"""JSON as Go's encoding/json reads and writes it, by msgspec's structs: for the kubelet's checkpoint files.

A field of a struct that has no default is one that Go always writes. Text that a kubelet writes is decoded by msgspec
alone. Other text is read more slowly, as Go reads it: keys in any case, null or a missing field as the zero value, keys
that no field has passed over; and an error then says where it is. Where Go would quietly take the last of two equal
keys, or repair broken text, reading stops with an error: no kubelet writes such a file, nor the number -0, which Go
refuses where a number has no sign.

Source: Go's encoding/json (decode.go, encode.go, fold.go).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Generic, NoReturn, TypeVar, cast

import msgspec
from msgspec import Meta, inspect

from numaudit.encoding.go_syntax import GoRefusal, Repeated, load
from numaudit.errors import ParseError

Value = TypeVar("Value")

UINT64 = 2**64 - 1
INT64 = 2**63 - 1
Uint64 = Annotated[int, Meta(ge=0)]
"""msgspec cannot bound it above, so what may be larger is read slowly."""

_HTML = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})
_LONGEST_SHOWN = 60
_MAY_EXCEED = re.compile(rb"[0-9]{20}")
"""In what has a number beyond UINT64."""
_LONGEST_KEY = 6
"""Of a number that is the key of a map."""
_MOST_UNKNOWN = 10_000
"""Unknown keys that are collected; of a file that has more, the others are passed over."""

_Path = tuple[str | int, ...]


class WrongType(GoRefusal):
    """A value that Go cannot put into the field that it is for. Reading it, Go would go on and fail at the end.

    Its words have the value's path in the file where Go's own have the name of a field.
    """

    def __init__(self, path: str, expected: str, value: object) -> None:
        kind = _go_kind(value, of_number=expected.startswith("a whole number"))
        words = f"json: cannot unmarshal {kind} into Go struct field {path}"
        super().__init__(f"{path}: expected {expected}, found {_shown(value)}", words)
        self.path = path


class NilList(tuple[Any, ...]):
    """The type of NIL_LIST."""

    __slots__ = ()


NIL_LIST = NilList()
"""Go's nil slice: as good as an empty one, but written as null and part of the checksum as `<nil>`."""
NIL_MAP: Mapping[Any, Any] = MappingProxyType({})
"""Go's nil map, likewise. Compare with `is`: it equals an empty one."""


class Reader(Generic[Value]):
    """Reads documents that are one msgspec struct. `where`: the path that theirs begin with."""

    def __init__(self, kind: type[Value], *where: str) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._kind, self._where = kind, where

    def read(self, data: bytes, unknown: dict[str, object]) -> Value:
        """`unknown` gets the path and value of each key that no field has.

        Raises ParseError with the path of what is wrong.
        """
        try:
            value = self._decoder.decode(data)
            # Written again it is the same: it has no key twice, no unknown key, and no number that is not exact.
            if msgspec.json.encode(value) == data and not _MAY_EXCEED.search(data):
                return value
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the slow way knows what to say
        return cast("Value", _Walk(unknown).read(load(data), inspect.type_info(self._kind), self._where))


def dump(value: object) -> bytes:
    """Write one document. The keys of every dict are taken in the order they have (see `go_map`)."""
    return msgspec.json.encode(value).decode().translate(_HTML).encode("utf-8")


def go_map(
    mapping: Mapping[Any, Any] | None, written: Callable[[Any], object] = lambda value: value
) -> dict[Any, Any] | None:
    """A Go map to be written: keys as texts in the order of their bytes, values by `written`; None = null."""
    if mapping is None or mapping is NIL_MAP:
        return None
    return {key: written(value) for key, value in sorted((str(key), value) for key, value in mapping.items())}


def _has_half_a_pair(text: str) -> bool:
    """Is there half of a surrogate pair, such as "\\ud800" alone, which UTF-8 cannot hold?"""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


class _Walk:
    """Reads a loaded document as Go reads it into the types that msgspec describes.

    What has the wrong type raises WrongType with the path, such as `entries.UID.app[0].size`; what Go would read and no
    kubelet writes (a negative node, a key twice) raises a plain ParseError.
    """

    def __init__(self, unknown: dict[str, object]) -> None:
        self._unknown = unknown

    def read(self, value: object, of: inspect.Type, path: _Path) -> object:
        kinds: Sequence[inspect.Type] = of.types if isinstance(of, inspect.UnionType) else (of,)
        if value is None:
            return _zero(kinds, path)
        if isinstance(value, Repeated):
            _refuse(f"the key {_shown(value.key)} occurs twice; the kubelet writes each key once", path)
        for kind in kinds:
            match value, kind:
                case dict(), inspect.StructType():
                    return self._struct(value, kind, path)
                case dict(), inspect.DictType():
                    return self._map(value, kind, path)
                case list(), inspect.VarTupleType():
                    return self._list(value, kind, path)
                case str(), inspect.StrType() | inspect.BytesType():
                    if _has_half_a_pair(value):
                        _refuse("half of a surrogate pair in a text", path)
                    return value if isinstance(kind, inspect.StrType) else _bytes(value, path)
                case int(), inspect.IntType() if type(value) is int and _least(kind) <= value <= _largest(kind):
                    return value
        _refuse_type(value, kinds[0], path)

    def _struct(self, value: Mapping[str, object], kind: inspect.StructType, path: _Path) -> object:
        fields = _fields(kind.cls)
        found: dict[str, object] = {}
        for key, item in value.items():
            field = fields.get(key.casefold())
            # "ß" folds to "ss", but Go folds letter by letter.
            if field is None or len(key) != len(field.encode_name):
                if len(self._unknown) < _MOST_UNKNOWN:
                    self._unknown[_shown_path((*path, key))] = item
            elif field.name in found:
                _refuse(f"the key {_shown(field.encode_name)} occurs twice (Go reads keys without case)", path)
            else:
                found[field.name] = item
        return kind.cls(
            **{
                field.name: self.read(found.get(field.name), field.type, (*path, field.encode_name))
                for field in fields.values()
                if field.required or field.name in found
            }
        )

    def _map(self, value: Mapping[str, object], kind: inspect.DictType, path: _Path) -> dict[Any, object]:
        found: dict[Any, object] = {}
        for key, item in value.items():
            below = (*path, key)
            if _has_half_a_pair(key):
                _refuse("the key has half of a surrogate pair", below)
            name = _number(key, kind.key_type, below) if isinstance(kind.key_type, inspect.IntType) else key
            found[name] = self.read(item, kind.value_type, below)
        return found

    def _list(self, value: Sequence[object], kind: inspect.VarTupleType, path: _Path) -> tuple[object, ...]:
        if kind.max_length is not None and len(value) > kind.max_length:
            _refuse(f"a list of {len(value)} of the {kind.max_length} numbers from 0 to {kind.max_length - 1}", path)
        return tuple([self.read(item, kind.item_type, (*path, index)) for index, item in enumerate(value)])


@cache
def _fields(struct: type) -> dict[str, inspect.Field]:
    """By their names in the file, without case."""
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    return {field.encode_name.casefold(): field for field in described.fields}


def _zero(kinds: Sequence[inspect.Type], path: _Path) -> object:
    """The value of null in a Go field, and in an element of a list or map."""
    zeros: dict[type, object] = {
        inspect.NoneType: None,
        inspect.DictType: NIL_MAP,
        inspect.VarTupleType: NIL_LIST,
        inspect.StrType: "",
        inspect.IntType: 0,
    }
    for kind, zero in zeros.items():
        if any(isinstance(one, kind) for one in kinds):
            return zero
    _refuse("expected an object, found null", path)


def _number(key: str, kind: inspect.IntType, path: _Path) -> int:
    try:
        number = int(key[:_LONGEST_KEY])
    except ValueError:
        number = None
    if number is None or str(number) != key or not _least(kind) <= number <= _largest(kind):
        _refuse(f"expected a number from {_least(kind)} to {_largest(kind)} as the key", path)
    return number


def _bytes(value: str, path: _Path) -> bytes:
    try:
        return base64.b64decode(value.encode(), validate=True)
    except binascii.Error as error:
        _refuse(f"not base64: {error}", path)


def _least(kind: inspect.IntType) -> int:
    return kind.ge or 0


def _largest(kind: inspect.IntType) -> int:
    return UINT64 if kind.le is None else kind.le


def _refuse(message: str, path: _Path) -> NoReturn:
    raise ParseError(f"{_shown_path(path)}: {message}")


def _refuse_type(value: object, kind: inspect.Type, path: _Path) -> NoReturn:
    """A number that is bounded has a sign in Go, so Go reads negative ones there."""
    if isinstance(kind, inspect.IntType):
        expected = f"a whole number from {_least(kind)} to {_largest(kind)}"
        if type(value) is int and kind.le is not None and -INT64 - 1 <= value <= INT64:
            _refuse(f"expected {expected}, found {value}", path)
    elif isinstance(kind, inspect.StrType | inspect.BytesType):
        expected = "a text"
    else:
        expected = "a list" if isinstance(kind, inspect.VarTupleType) else "an object"
    raise WrongType(_shown_path(path), expected, value)


def _go_kind(value: object, *, of_number: bool) -> str:
    """In Go's words: string, number, number -1, bool, array or object."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {_shown(value)}" if of_number else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _shorten(json.dumps(value), _LONGEST_SHOWN)


def _shown_path(path: _Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return _shorten(text, 200).encode("utf-8", "backslashreplace").decode() or "the document"


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
