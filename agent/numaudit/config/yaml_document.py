"""A YAML or JSON file of somebody's own (a scenario, a pod) as plain values that know their lines.

Lines are looked up in the file again, when a message needs one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from numaudit.config import yaml_file
from numaudit.containermanager.plain import Document
from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import Event, YamlLimits, line_of
from numaudit.errors import InputError
from numaudit.kernel.host import STANDARD_INPUT

LIMITS = YamlLimits(4 << 20, 250_000, 40, 20_000)
"""A machine with 1,024 CPUs has 10,000 values, a checkpoint about 30 for each container."""


def read(path: Path, what: str) -> Document:
    """The whole file; `what` names it in messages ("the scenario").

    Raises InputError when it cannot be read, is over one of LIMITS, is no YAML or names a key twice.
    """
    body = yaml_file.read_whole(path, what, LIMITS.size)
    value = yaml_values.read(body, str(path), LIMITS)
    if value is None:
        raise InputError(f"{path}: it is empty")
    return Document(str(path), value, partial(_line_of, body, str(path)))


def read_all(path: Path, what: str) -> list[Document]:
    """Every document of a file that is not empty; `-` is the standard input. Raises InputError as `read`."""
    name = "the standard input" if path == STANDARD_INPUT else str(path)
    return _documents(read_body(path, what), name)


def read_file(path: Path, what: str) -> list[Document]:
    """Every document of a file that is not empty, whatever its name is. Raises InputError as `read`."""
    return _documents(yaml_file.read_whole(path, what, LIMITS.size), str(path))


def _documents(body: bytes, name: str) -> list[Document]:
    found = [
        Document(name, value, partial(_line_of, body, name, number=number))
        for number, value in enumerate(yaml_values.read_all(body, name, LIMITS))
        if value is not None
    ]
    if not found:
        raise InputError(f"{name}: it is empty")
    return found


def read_body(path: Path, what: str) -> bytes:
    """The file's bytes, or those of the standard input for `-`. Raises InputError, also for one over LIMITS."""
    if path != STANDARD_INPUT:
        return yaml_file.read_whole(path, what, LIMITS.size)
    body = _standard_input(what)
    if len(body) > LIMITS.size:
        raise InputError(f"the standard input: {what} has more than {LIMITS.size} bytes; give a smaller one")
    return body


def _standard_input(what: str) -> bytes:
    if sys.stdin is None:
        raise InputError(f"cannot read {what} from the standard input: it is closed")
    try:
        return sys.stdin.buffer.read(LIMITS.size + 1)
    except OSError as error:
        raise InputError(f"cannot read {what} from the standard input: {error.strerror}") from None


def _line_of(body: bytes, name: str, place: str, number: int = 0) -> int:
    """The line of a place such as `steps[2].admit`, or of the nearest thing around it. Keys may hold dots.

    `number`: of the document in the file, from 0.
    """
    best, line = place, 1
    around: list[_Around] = []
    for event in _events_of(number, yaml_values.events(body, name, LIMITS)):
        if isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        left, at = around[-1].next(event) if around else (place, line_of(event))
        if left is not None and (len(left) < len(best) or not around):
            best, line = left, at + 1
        if not best:
            break
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_Around(left, isinstance(event, yaml.SequenceStartEvent)))
    return line


def _events_of(number: int, events: Iterator[Event]) -> Iterator[Event]:
    """Those from the document of this number on."""
    begun = -1
    for event in events:
        begun += isinstance(event, yaml.DocumentStartEvent)
        if begun >= number:
            yield event


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
            return _rest(self.left, name), line_of(event)
        if self.of_key is None:
            rest = _rest(self.left, event.value) if isinstance(event, yaml.ScalarEvent) else None
            self.of_key = (rest, line_of(event))
            return None, 0
        found, self.of_key = self.of_key, None
        return found


def _rest(path: str, name: str) -> str | None:
    rest = path.removeprefix(name)
    if not name or rest == path or (rest and rest[0] not in ".["):
        return None
    return rest.removeprefix(".")


class ScenarioFiles:
    """Opens the files that a scenario names, from its own folder, and reads each once. Raises InputError."""

    def __init__(self, scenario: Path) -> None:
        self._scenario = scenario
        self._read: dict[Path, list[Document]] = {}

    def open(self, name: str, what: str) -> list[Document]:
        path = self._scenario.parent / name
        if "\0" not in name and path.resolve() == self._scenario.resolve():
            raise InputError(f"{name} is the scenario itself, which cannot include itself; name another file")
        if path not in self._read:
            self._read[path] = read_file(path, what)
        return self._read[path]
