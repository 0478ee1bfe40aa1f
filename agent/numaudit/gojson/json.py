"""JSON as Go's encoding/json reads and writes it, for the kubelet's checkpoint files.

Go matches the keys of a struct without regard to case and passes over keys it does not know;
it writes no white space, sorts the keys of a map as text, and escapes `<`, `>`, `&`, U+2028 and
U+2029. Where Go would quietly take the last of two equal keys, or repair broken text, reading
stops with an error: no kubelet writes such a file, nor the number -0, which Go refuses where a
number has no sign.

Source: Go's encoding/json (decode.go, encode.go, fold.go).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import msgspec

from numaudit.errors import ParseError

Value = TypeVar("Value")

UINT64 = 2**64 - 1
INT64 = 2**63 - 1

_HTML = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})
_LONGEST_SHOWN = 60
_MOST_DIGITS = 400
"""Go's largest number has 20 digits; Python refuses to convert more than 4300."""
_MOST_UNKNOWN = 100
"""Unknown keys that are collected; a file that has more names no more of them."""


class WrongType(ParseError):
    """A value that Go cannot put into the field that it is for. Reading it, Go would go on and fail at the end."""

    def __init__(self, path: str, expected: str, value: object) -> None:
        super().__init__(f"{path}: expected {expected}, found {_shown(value)}")
        self.path = path
        self.value = _go_kind(value, of_number=expected.startswith("a whole number"))
        """In Go's words: string, number, number -1, bool, array or object."""

    @property
    def in_go(self) -> str:
        """Go's text, with the value's path in the file where Go has the name of a field."""
        return f"json: cannot unmarshal {self.value} into Go struct field {self.path}"


class NilList(tuple[Any, ...]):
    """The type of NIL_LIST."""

    __slots__ = ()


NIL_LIST = NilList()
"""Go's nil slice: as good as an empty one, but written as null and part of the checksum as `<nil>`."""
NIL_MAP: Mapping[Any, Any] = MappingProxyType({})
"""Go's nil map, likewise. Compare with `is`: it equals an empty one."""

FieldNames = Mapping[str, str]
"""The fields of one Go struct: name -> name without case."""


class _Repeated(dict[str, object]):
    """An object in which one key occurs more than once."""

    key: str


def load(data: bytes) -> object:
    """Read one document into dicts, lists, texts, numbers and None.

    Raises ParseError naming the place: no UTF-8, no JSON, nested too deep, a number of absurd length.
    """
    value = _load_plain(data)
    if value is not None:
        return value
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"byte {error.start} is not UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON: {error.msg} at character {error.pos} of {len(text)}") from None
    except RecursionError:
        raise ParseError("not a checkpoint: nested too deep") from None
    except ValueError as error:
        raise ParseError(f"not a checkpoint: {error}") from None


def dump(value: object) -> bytes:
    """Write one document. The keys of every dict are taken in the order they have."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_HTML).encode("utf-8")


def plain_map(mapping: Mapping[Any, Any] | None, plain: Callable[[Any], object] = lambda value: value) -> object:
    """A Go map to be written: keys as texts in the order of their bytes, values by `plain`; None = null."""
    if mapping is None or mapping is NIL_MAP:
        return None
    return {
        key: plain(value)
        for key, value in sorted(((str(key), value) for key, value in mapping.items()), key=itemgetter(0))
    }


class Walk:
    """Reads values out of a loaded document and knows where it is.

    What has the wrong type raises WrongType with the path, such as `entries.UID.app[0].size`; what
    Go would read and no kubelet writes (a negative node, a key twice) raises a plain ParseError.
    Keys that no field has are collected in `unknown`, with their paths; entries of a map whose key is
    broken text are left out and collected in `refused`. As in Go, null and a
    missing key leave a number 0 and a text empty; for lists and maps the caller tells them apart.
    """

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.refused: list[str] = []
        self._path: list[str | int] = []

    def path(self, *below: str | int) -> str:
        text = ""
        for step in (*self._path, *below):
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return _shorten(text, 200).encode("utf-8", "backslashreplace").decode() or "the document"

    def refuse(self, message: str, *below: str | int) -> NoReturn:
        raise ParseError(f"{self.path(*below)}: {message}")

    def struct(self, value: object, names: FieldNames) -> dict[str, object]:
        """The fields of a Go struct that the object has, by the struct's own spelling."""
        if type(value) is not dict:
            self._refuse_object(value)
        return value if value.keys() <= names.keys() else self._folded(value, names)

    def items(self, value: object) -> Iterator[tuple[str, object]]:
        """A Go map. While an item is in the caller's hands it is part of the path."""
        if type(value) is not dict:
            self._refuse_object(value)
        path = self._path
        for key, item in value.items():
            if not key.isascii() and has_half_a_pair(key):
                self.refused.append(self.path(key))
                continue
            path.append(key)
            yield key, item
            path.pop()

    def elements(self, value: object) -> Iterator[object]:
        """A Go slice. While an element is in the caller's hands it is part of the path."""
        if type(value) is not list:
            self._refuse_type("a list", value)
        path = self._path
        for index, item in enumerate(value):
            path.append(index)
            yield item
            path.pop()

    def field(
        self, fields: Mapping[str, object], name: str, read: Callable[[object], Value], missing: object = None
    ) -> Value | None:
        """Read a field with `read`; an absent one gives `missing`, and null None."""
        value = fields.get(name, missing)
        if value is None:
            return None
        self._path.append(name)
        found = read(value)
        self._path.pop()
        return found

    def below(self, name: str) -> None:
        """Go into a field; `up` comes back."""
        self._path.append(name)

    def up(self) -> None:
        self._path.pop()

    def number(self, fields: Mapping[str, object], name: str, largest: int = UINT64) -> int:
        value = fields.get(name, 0)
        if type(value) is int and 0 <= value <= largest:
            return value
        if value is None:
            return 0
        self._refuse_number(value, largest, name)

    def text(self, fields: Mapping[str, object], name: str) -> str:
        value = fields.get(name)
        return value if type(value) is str and value.isascii() else self.as_text(value, name)

    def as_text(self, value: object, *below: str) -> str:
        if value is None:
            return ""
        if type(value) is not str:
            self._refuse_type("a text", value, *below)
        if not value.isascii() and has_half_a_pair(value):
            self.refuse("half of a surrogate pair in a text", *below)
        return value

    def texts(self, value: object) -> tuple[str, ...]:
        """A list of texts."""
        return tuple([self.as_text(item) for item in self.elements(value)])

    def numbers(self, fields: Mapping[str, object], name: str, largest: int) -> tuple[int, ...] | None:
        """A list of whole numbers from 0 to `largest`; None = null or missing."""
        value = fields.get(name)
        if value is None:
            return None
        if type(value) is not list:
            self._refuse_type("a list", value, name)
        if len(value) > largest + 1:
            self.refuse(f"a list of {len(value)} of the {largest + 1} numbers from 0 to {largest}", name)
        for item in value:
            if type(item) is not int or not 0 <= item <= largest:
                where = next(index for index, one in enumerate(value) if one is item)
                self._refuse_number(item, largest, name, where)
        return tuple(value)

    def _refuse_object(self, value: object) -> NoReturn:
        if isinstance(value, _Repeated):
            self.refuse(f"the key {_shown(value.key)} occurs twice; the kubelet writes each key once")
        self._refuse_type("an object", value)

    def _refuse_type(self, expected: str, value: object, *below: str | int) -> NoReturn:
        if value is None:
            self.refuse(f"expected {expected}, found null", *below)
        raise WrongType(self.path(*below), expected, value)

    def _refuse_number(self, value: object, largest: int, *below: str | int) -> NoReturn:
        """Fields that hold less than UINT64 have a sign in Go, so it reads negative numbers there."""
        expected = f"a whole number from 0 to {largest}"
        if type(value) is int and largest < UINT64 and -INT64 - 1 <= value <= INT64:
            self.refuse(f"expected {expected}, found {value}", *below)
        self._refuse_type(expected, value, *below)

    def _folded(self, value: dict[str, object], names: FieldNames) -> dict[str, object]:
        """Some key is not spelled as in the struct: match it without case, or note it as unknown."""
        fields: dict[str, object] = {}
        spelled = {folded: name for name, folded in names.items()}
        for key, item in value.items():
            name = spelled.get(key.casefold())
            # "ß" folds to "ss", but Go folds letter by letter.
            if name is None or len(key) != len(name):
                if len(self.unknown) < _MOST_UNKNOWN:
                    self.unknown.append(self.path(key))
            elif name in fields:
                self.refuse(f"the key {_shown(name)} occurs twice (Go reads keys without case)")
            else:
                fields[name] = item
        return fields


def has_half_a_pair(text: str) -> bool:
    """Is there half of a surrogate pair, such as "\\ud800" alone, which UTF-8 cannot hold?"""
    return any("\ud800" <= char <= "\udfff" for char in text)


def field_names(*names: str) -> FieldNames:
    return {name: name.casefold() for name in names}


def _load_plain(data: bytes) -> object:
    """The quick way for text that leaves no choice, as the kubelet's: written again it is the same.

    So it has no key twice, no escapes and no number that is not exact. None = ask the slow way, which
    also knows what to say about errors.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if msgspec.json.encode(value) == data else None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if not pairs:
        return {}
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated = _Repeated(value)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _integer(text: str) -> float:
    if len(text) > _MOST_DIGITS:
        raise ParseError(f"a number of {len(text)} digits, {text[:10]}...: no field holds more than 20 digits")
    return -0.0 if text == "-0" else int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"not JSON: {name}")


def _go_kind(value: object, *, of_number: bool) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {_shown(value)}" if of_number else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return _shorten(json.dumps(value), _LONGEST_SHOWN)
    return _shorten(str(value), _LONGEST_SHOWN)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
