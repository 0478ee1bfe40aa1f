"""YAML, and the JSON that is part of it, as plain values within limits. Pure: bytes in, values out.

A few bytes of YAML can ask for more than any machine has: references to references grow without bound, libyaml
descends one C stack frame for each bracket, and a value of one letter takes a hundred bytes of memory. Nobody needs
that here, so references, depth and numbers of values are bounded as the parser comes to them, and values are made one
by one: a file takes little more memory than its values do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml
from msgspec import Struct, field

from numaudit.errors import InputError, brief

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Event = Any
"""Of PyYAML's parser; its types leave out that each has a mark."""

_COLLECTIONS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_TEXT = "tag:yaml.org,2002:str"


class YamlLimits(Struct, frozen=True):
    """Limits of a kind of document."""

    size: int
    """Bytes."""
    values: int
    """Keys, values, lists and mappings."""
    levels: int


def read(body: bytes, name: str, limits: YamlLimits) -> object:
    """The values of one document; None = it is empty. `name` is the file's, for messages.

    Raises InputError as `read_all`, and where another document begins.
    """
    found = read_all(body, name, limits, most=1)
    return found[0] if found else None


def read_all(body: bytes, name: str, limits: YamlLimits, most: int | None = None) -> list[object]:
    """The values of every document of a file, None for an empty one; `most`: so many may begin.

    Raises InputError when it is no YAML, is over a limit, refers to itself, names a key twice or has a tag.
    """
    if len(body) > limits.size:
        raise InputError(f"{name}: the file has more than {limits.size} bytes; give a smaller one")
    try:
        return _Values(name).of(events(body, name, limits), most)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise not_yaml(name, error) from error


def events(body: bytes, name: str, limits: YamlLimits) -> Iterator[Event]:
    """The parser's events one by one. Raises InputError at a reference, or at what is over a limit; YAMLError."""
    depth = values = 0
    event: Event
    for event in yaml.parse(body, Loader):
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        reason = ""
        if isinstance(event, yaml.AliasEvent):
            reason = "a reference (*) to another value: write that out, or quote what is text"
        elif depth > limits.levels:
            reason = f"nested deeper than {limits.levels} levels"
        elif values > limits.values:
            reason = f"there are more than {limits.values} keys and values; no such file needs as many"
        if reason:
            raise InputError(f"{name}:{event.start_mark.line + 1}: {reason}")
        yield event


def not_yaml(name: str, error: Exception) -> InputError:
    """Error with the parser's line, and without the name of a tag, for a password may begin with `!`."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        is_tag = isinstance(error, yaml.constructor.ConstructorError)
        reason = "a value has a tag (!) that is not known here; quote what is text" if is_tag else error.problem
        return InputError(f"{name}{line}: not YAML: {reason}")
    return InputError(f"{name}: not YAML: {(str(error).splitlines() or ['?'])[0]}")


def line_of(event: Event) -> int:
    """The line in which it begins, from 0."""
    return int(event.start_mark.line)


class _Open(Struct):
    """A list or mapping whose end has not come."""

    value: list[object] | dict[object, object]
    key: object = None
    has_key: bool = False
    lines: dict[str, int] = field(default_factory=dict)
    """Each key as it is written -> its line."""


class _Values:
    """Plain values of the events of one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[_Open] = []

    def of(self, events: Iterator[Event], most: int | None) -> list[object]:
        """All documents. Raises InputError, YAMLError, ValueError."""
        found: list[object] = []
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and len(found) == most:
                raise InputError(f"{self._at(event)}: not YAML: another document begins; give one")
            if isinstance(event, yaml.CollectionEndEvent):
                done = self._open.pop().value
                if not self._open:
                    found.append(done)
            elif isinstance(event, yaml.NodeEvent):
                is_whole = not self._open
                value = self._take(event)
                if is_whole and isinstance(event, yaml.ScalarEvent):
                    found.append(value)
        return found

    def _take(self, event: Event) -> object:
        """A scalar, or the beginning of a collection, at its place in the one around it."""
        around = self._open[-1] if self._open else None
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        else:
            if event.tag not in _COLLECTIONS:
                raise self._unknown_tag(event)
            value = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        if around is not None:
            self._put(around, event, value)
        if not isinstance(event, yaml.ScalarEvent):
            self._open.append(_Open(value))
        return value

    def _put(self, around: _Open, event: Event, value: object) -> None:
        if isinstance(around.value, list):
            around.value.append(value)
        elif around.has_key:
            around.value[around.key] = value
            around.has_key = False
        elif not isinstance(event, yaml.ScalarEvent):
            raise InputError(f"{self._at(event)}: a key must be text")
        else:
            first = around.lines.get(event.value)
            if first is not None:
                raise InputError(f"{self._at(event)}: {brief(event.value)} is given twice, first in line {first}")
            around.lines[event.value] = line_of(event) + 1
            around.key, around.has_key = value, True

    def _scalar(self, event: Event) -> object:
        tag = event.tag
        if tag is None or tag == "!":
            tag = _tag_of(event.value) if event.implicit[0] and tag is None else _TEXT
        if tag == _TEXT:
            return event.value
        try:
            return _plain(tag, event.value)
        except yaml.constructor.ConstructorError:
            raise self._unknown_tag(event) from None
        except (ValueError, yaml.YAMLError):
            raise InputError(
                f"{self._at(event)}: not YAML: a number or date cannot be read; quote it if it is text"
            ) from None

    def _unknown_tag(self, event: Event) -> InputError:
        return InputError(
            f"{self._at(event)}: not YAML: a value has a tag (!) or is a merge (<<) that is not known here; "
            "write fields out, and quote what is text"
        )

    def _at(self, event: Event) -> str:
        return f"{self._name}:{line_of(event) + 1}"


@lru_cache(maxsize=4096)
def _tag_of(value: str) -> str:
    return str(_RULES.resolve(yaml.ScalarNode, value, (True, False)))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)
def _plain(tag: str, value: str) -> object:
    made: object = yaml.SafeLoader("").construct_object(yaml.ScalarNode(tag, value))
    return made


_RULES = yaml.SafeLoader("")
