"""A YAML or JSON file of somebody's own (a scenario, a pod) as plain values that know their lines.

Values are made one by one as the parser comes to them, so that a file takes little more memory than its values do.
Lines are looked up in the file again, when a message needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from numaudit.config import yaml_file
from numaudit.config.yaml_file import Event, Limits
from numaudit.errors import InputError, brief
from numaudit.memorymanager.scenario.document import Document

LIMITS = Limits(4 << 20, 250_000, 40)
"""A machine with 1,024 CPUs has 10,000 values, a checkpoint about 30 for each container."""
_COLLECTIONS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_TEXT = "tag:yaml.org,2002:str"


def read(path: Path, what: str) -> Document:
    """The whole file; `what` names it in messages ("the scenario").

    Raises InputError when it cannot be read, is over one of LIMITS, is no YAML, refers to itself or names a key twice.
    """
    body = yaml_file.read_whole(path, what, LIMITS.size)
    try:
        value = _Values(path).of(yaml_file.events(body, path, LIMITS))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise yaml_file.not_yaml(path, error) from error
    return Document(str(path), value, lambda place: _line_of(body, path, place))


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come."""

    value: list[object] | dict[object, object]
    key: object = None
    has_key: bool = False
    lines: dict[str, int] = field(default_factory=dict)
    """Each key as it is written -> its line."""


class _Values:
    """Plain values of the events of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[_Open] = []

    def of(self, events: Iterator[Event]) -> object:
        """The one document. Raises InputError, YAMLError, ValueError."""
        found: list[object] = []
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and found:
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
        if not found:
            raise InputError(f"{self._path}: it is empty")
        return found[0]

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
                raise InputError(f"{self._at(event)}: {brief(event.value)} is there twice, first in line {first}")
            around.lines[event.value] = _line(event) + 1
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
        except (ValueError, yaml.YAMLError) as error:
            raise InputError(f"{self._at(event)}: not YAML: {error}") from None

    def _unknown_tag(self, event: Event) -> InputError:
        return InputError(
            f"{self._at(event)}: not YAML: a value has a tag (!) or is a merge (<<) that is not known here; "
            "write fields out, and quote what is text"
        )

    def _at(self, event: Event) -> str:
        return f"{self._path}:{_line(event) + 1}"


@lru_cache(maxsize=4096)
def _tag_of(value: str) -> str:
    return str(_RULES.resolve(yaml.ScalarNode, value, (True, False)))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)
def _plain(tag: str, value: str) -> object:
    made: object = yaml.SafeLoader("").construct_object(yaml.ScalarNode(tag, value))
    return made


_RULES = yaml.SafeLoader("")


def _line_of(body: bytes, path: Path, place: str) -> int:
    """The line of a place such as `steps[2].admit`, or of the nearest thing around it. Keys may hold dots."""
    best, line = place, 1
    around: list[_Around] = []
    for event in yaml_file.events(body, path, LIMITS):
        if isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        left, at = around[-1].next(event) if around else (place, _line(event))
        if left is not None and (len(left) < len(best) or not around):
            best, line = left, at + 1
        if not best:
            break
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_Around(left, isinstance(event, yaml.SequenceStartEvent)))
    return line


@dataclass(slots=True)
class _Around:
    """A collection on the way to a place."""

    left: str | None
    """Of the path within it; None = the place is elsewhere."""
    is_list: bool
    index: int = -1
    of_key: tuple[str | None, int] | None = None
    """The rest of the path and the line of the key whose value comes next."""

    def next(self, event: Event) -> tuple[str | None, int]:
        """The rest of the path within what comes next, None = it is not on the path; and its line, or its key's."""
        if self.left is None:
            return None, 0
        if self.is_list:
            self.index += 1
            name = f"[{self.index}]"
            return _rest(self.left, name), _line(event)
        if self.of_key is None:
            rest = _rest(self.left, event.value) if isinstance(event, yaml.ScalarEvent) else None
            self.of_key = (rest, _line(event))
            return None, 0
        found, self.of_key = self.of_key, None
        return found


def _line(event: Event) -> int:
    return int(event.start_mark.line)


def _rest(path: str, name: str) -> str | None:
    rest = path.removeprefix(name)
    if not name or rest == path or (rest and rest[0] not in ".["):
        return None
    return rest.removeprefix(".")
