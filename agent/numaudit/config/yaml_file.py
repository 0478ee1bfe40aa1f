"""Files of settings and of scenarios in YAML, as bytes that can be parsed safely.

A few bytes of YAML can ask for more than any machine has: references to references grow without bound, and
libyaml descends one C stack frame for each bracket. Nobody needs either here, so both are refused beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from numaudit.errors import InputError
from numaudit.kernel.host import read_bytes

LARGEST_FILE = 1 << 20
DEEPEST = 20

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path, what: str, largest: int = LARGEST_FILE, deepest: int = DEEPEST) -> bytes:
    """The whole file; `what` names it in messages ("the settings").

    Raises InputError when it cannot be read, is a pipe (which may never end), is larger than `largest` bytes,
    nests deeper than `deepest` levels, or refers to its own parts. What is no YAML at all is left for the
    parser to complain about.
    """
    try:
        if path.is_fifo():
            raise InputError(f"cannot read {what} {path}: it is a pipe; give a file")
        body = read_bytes(path, largest)
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from error
    except ValueError:
        raise InputError(f"cannot read {what} {path}: a path cannot have a NUL in it") from None
    _check(body, path, deepest)
    return body


def not_yaml(path: Path, error: Exception) -> InputError:
    """What the parser complains of: with its line, and without the name of a tag, for a password may begin with `!`."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        is_tag = isinstance(error, yaml.constructor.ConstructorError)
        reason = "a value has a tag (!) that is not known here; quote what is text" if is_tag else error.problem
        return InputError(f"{path}{line}: not YAML: {reason}")
    return InputError(f"{path}: not YAML: {(str(error).splitlines() or ['?'])[0]}")


def _check(body: bytes, path: Path, deepest: int) -> None:
    depth = 0
    try:
        events: Iterable[Any] = yaml.parse(body, Loader)
        for event in events:
            where = f"{path}:{event.start_mark.line + 1}"
            if isinstance(event, yaml.AliasEvent):
                raise InputError(f"{where}: a reference (*) to another value: write that out, or quote what is text")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > deepest:
                raise InputError(f"{where}: nested deeper than {deepest} levels")
    except (yaml.YAMLError, ValueError):
        return
