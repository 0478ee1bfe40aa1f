"""Files of settings and of scenarios in YAML, as bytes that can be parsed safely.

A few bytes of YAML can ask for more than any machine has: references to references grow without bound, libyaml
descends one C stack frame for each bracket, and a value of one letter takes a hundred bytes of memory. Nobody needs
that here, so references, depth and numbers of values are bounded beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from numaudit.errors import InputError
from numaudit.kernel.host import read_bytes

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


Event = Any
"""Of PyYAML's parser; its types leave out that each has a mark."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What fits a kind of document."""

    size: int
    """Bytes."""
    values: int
    """Keys, values, lists and mappings."""
    levels: int


SETTINGS = Limits(256 << 10, 5_000, 20)


def read(path: Path, what: str) -> bytes:
    """The whole file of settings; `what` names it in messages ("the settings").

    Raises InputError when it cannot be read, is a pipe (which may never end), is larger than SETTINGS, or refers to its
    own parts. What is no YAML at all is left for the parser to complain about.
    """
    body = read_whole(path, what, SETTINGS.size)
    try:
        for _ in events(body, path, SETTINGS):
            pass
    except (yaml.YAMLError, ValueError):
        pass
    return body


def read_whole(path: Path, what: str, largest: int) -> bytes:
    """A file of at most `largest` bytes. Raises InputError when it cannot be read, is larger, or is a pipe."""
    try:
        if path.is_fifo():
            raise InputError(f"cannot read {what} {path}: it is a pipe; give a file")
        return read_bytes(path, largest)
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from error
    except ValueError:
        raise InputError(f"cannot read {what} {path}: a path cannot have a NUL in it") from None


def events(body: bytes, path: Path, limits: Limits) -> Iterator[Event]:
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
            raise InputError(f"{path}:{event.start_mark.line + 1}: {reason}")
        yield event


def not_yaml(path: Path, error: Exception) -> InputError:
    """What the parser complains of: with its line, and without the name of a tag, for a password may begin with `!`."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        is_tag = isinstance(error, yaml.constructor.ConstructorError)
        reason = "a value has a tag (!) that is not known here; quote what is text" if is_tag else error.problem
        return InputError(f"{path}{line}: not YAML: {reason}")
    return InputError(f"{path}: not YAML: {(str(error).splitlines() or ['?'])[0]}")
