"""A YAML or JSON file of somebody's own (a scenario, a pod) as plain values that know their lines.

Lines are looked up in the file again, when a message needs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from numaudit import yaml_values
from numaudit.config import yaml_file
from numaudit.errors import InputError
from numaudit.scenario.document import Document
from numaudit.yaml_values import Event, YamlLimits, line_of

LIMITS = YamlLimits(4 << 20, 250_000, 40)
"""A machine with 1,024 CPUs has 10,000 values, a checkpoint about 30 for each container."""


def read(path: Path, what: str) -> Document:
    """The whole file; `what` names it in messages ("the scenario").

    Raises InputError when it cannot be read, is over one of LIMITS, is no YAML, refers to itself or names a key twice.
    """
    body = yaml_file.read_whole(path, what, LIMITS.size)
    value = yaml_values.read(body, str(path), LIMITS)
    if value is None:
        raise InputError(f"{path}: it is empty")
    return Document(str(path), value, lambda place: _line_of(body, path, place))


def _line_of(body: bytes, path: Path, place: str) -> int:
    """The line of a place such as `steps[2].admit`, or of the nearest thing around it. Keys may hold dots."""
    best, line = place, 1
    around: list[_Around] = []
    for event in yaml_values.events(body, str(path), LIMITS):
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
