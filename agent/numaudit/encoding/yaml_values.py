"""YAML, and the JSON that is part of it, as plain values within limits. Pure: bytes in, values out.

A few bytes of YAML can ask for more than any machine has: references to references grow without bound, libyaml
descends one C stack frame for each bracket, and a value of one letter takes a hundred bytes of memory. Nobody needs
that here, so references, depth and numbers of values are bounded as the parser comes to them, and values are made one
by one: a file takes little more memory than its values do. A reference is read as a copy of what it names, and a merge
(`<<`) as the fields that it adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"


class YamlLimits(Struct, frozen=True):
    """Limits of a kind of document."""

    size: int
    """Bytes."""
    values: int
    """Keys, values, lists and mappings."""
    levels: int
    copies: int = 0
    """Values (the end of a list or mapping counts as one) that references (*) may stand for in a file, with those that
    they name; 0 = it may have no references."""
    as_written: bool = False
    """Keys and values are texts, or None, and mappings are Lined: to YAML 1:30 is 90, and 010 is 8."""


class Lined(dict[Any, object]):
    """A mapping that knows the line of each of its keys."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}


def read(body: bytes, name: str, limits: YamlLimits) -> object:
    """The values of one document; None = it is empty. `name` is the file's, for messages.

    Raises InputError as `read_all`, and where another document begins.
    """
    found = read_all(body, name, limits, most=1)
    return found[0] if found else None


def read_all(body: bytes, name: str, limits: YamlLimits, most: int | None = None) -> list[object]:
    """The values of every document of a file, None for an empty one; `most`: so many may begin.

    Raises InputError when it is no YAML, is over a limit, names a key twice or has a tag.
    """
    if len(body) > limits.size:
        raise InputError(f"{name}: the file has more than {limits.size} bytes; give a smaller one")
    try:
        return _Values(name, limits.as_written).of(events(body, name, limits), most)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise not_yaml(name, error) from error


def events(body: bytes, name: str, limits: YamlLimits) -> Iterator[Event]:
    """The parser's events one by one, for a reference those of the value that it names.

    Raises InputError at a reference that may not be, or at what is over a limit; YAMLError.
    """
    depth = values = 0
    anchors = _Anchors(name, limits.copies)
    for given in yaml.parse(body, Loader):
        for event in anchors.expanded(given):
            values += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            reason = ""
            if depth > limits.levels:
                reason = f"nested deeper than {limits.levels} levels"
            elif values > limits.values:
                reason = f"there are more than {limits.values} keys and values; no such file needs as many"
            if reason:
                raise InputError(f"{name}:{line_of(given) + 1}: {reason}")
            yield event


class _Anchors:
    """The events of each value that has an anchor (&), as long as there are few."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most, self._left = name, most, most
        self._known: dict[str, list[Event]] = {}
        self._open: list[tuple[str, list[Event]]] = []
        self._depth: list[int] = []

    def expanded(self, given: Event) -> Sequence[Event]:
        """The event, or those of what it refers to. Raises InputError."""
        event: Any = given
        found: Sequence[Event] = (event,)
        if isinstance(event, yaml.DocumentStartEvent):
            self._known.clear()
        elif isinstance(event, yaml.AliasEvent):
            found = self._known.get(str(event.anchor), ())
            self._left -= len(found)
            if not found or self._left < 0:
                raise InputError(f"{self._name}:{line_of(event) + 1}: {self._refusal()}")
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None and self._left > 0:
            self._known.pop(event.anchor, None)
            self._open.append((event.anchor, []))
            self._depth.append(0)
        if self._open:
            self._record(found)
        return found

    def _refusal(self) -> str:
        if not self._most:
            return "a reference (*) to another value: write that out, or quote what is text"
        return (
            "a reference (*) to a value that no anchor (&) before it names, that it is part of, or that is one of more "
            f"than {self._most} in all: write that out, or quote what is text"
        )

    def _record(self, events: Sequence[Event]) -> None:
        """Each open value takes them; the innermost ends first."""
        self._left -= len(events) * len(self._open)
        if self._left < 0:
            self._open.clear()
            self._depth.clear()
            return
        change = sum(
            isinstance(one, yaml.CollectionStartEvent) - isinstance(one, yaml.CollectionEndEvent) for one in events
        )
        for index, (_, taken) in enumerate(self._open):
            taken.extend(events)
            self._depth[index] += change
        while self._open and not self._depth[-1]:
            anchor, taken = self._open.pop()
            self._depth.pop()
            self._known[anchor] = taken


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
    merge: object = None
    """The key that stands for a merge, where there is one."""


class _Merge:
    """The key `<<` of a mapping."""


class _Values:
    """Plain values of the events of one file."""

    def __init__(self, name: str, as_written: bool) -> None:
        self._name, self._as_written = name, as_written
        self._open: list[_Open] = []

    def of(self, events: Iterator[Event], most: int | None) -> list[object]:
        """All documents. Raises InputError, YAMLError, ValueError."""
        found: list[object] = []
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and len(found) == most:
                raise InputError(f"{self._at(event)}: not YAML: another document begins; give one")
            if isinstance(event, yaml.CollectionEndEvent):
                done = self._merged(self._open.pop())
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
            value = [] if isinstance(event, yaml.SequenceStartEvent) else Lined() if self._as_written else {}
        if around is not None:
            self._put(around, event, value)
        if not isinstance(event, yaml.ScalarEvent):
            self._open.append(_Open(value, lines=value.lines) if isinstance(value, Lined) else _Open(value))
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
            around.key, around.has_key = event.value if self._as_written else value, True
            if isinstance(value, _Merge):
                around.merge = value

    def _merged(self, done: _Open) -> object:
        """The value with the fields of what is merged into it that it does not have itself; of several the first's."""
        if done.merge is None or not isinstance(done.value, dict):
            return done.value
        given = done.value.pop(done.merge)
        for one in given if isinstance(given, list) else [given]:
            if not isinstance(one, Mapping):
                raise InputError(
                    f"{self._name}:{done.lines['<<']}: a merge (<<) takes a mapping, or a list of mappings"
                )
            for key, value in one.items():
                done.value.setdefault(key, value)
        return done.value

    def _scalar(self, event: Event) -> object:
        tag = event.tag
        if tag is None or tag == "!":
            tag = _tag_of(event.value) if event.implicit[0] and tag is None else _TEXT
        if tag == _TEXT:
            return event.value
        if tag == _MERGE and self._is_key():
            return event.value if self._as_written else _Merge()
        if self._as_written and tag in yaml.SafeLoader.yaml_constructors:
            return None if tag == _NULL else event.value
        try:
            return _plain(tag, event.value)
        except yaml.constructor.ConstructorError:
            raise self._unknown_tag(event) from None
        except (ValueError, yaml.YAMLError):
            raise InputError(
                f"{self._at(event)}: not YAML: a number or date cannot be read; quote it if it is text"
            ) from None

    def _is_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and not self._open[-1].has_key

    def _unknown_tag(self, event: Event) -> InputError:
        return InputError(
            f"{self._at(event)}: not YAML: a value has a tag (!) that is not known here, or is a merge (<<) without a "
            "mapping: quote what is text"
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
