"""Files of settings in YAML, as bytes that can be parsed safely.

A few bytes of YAML can ask for more than any machine has: references to references grow without bound, and
libyaml descends one C stack frame for each bracket. Settings need neither, so both are refused beforehand.
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


def read(path: Path, what: str) -> bytes:
    """The whole file; `what` names it in messages ("the settings").

    Raises InputError when it cannot be read, is a pipe (which may never end), is too large, or nests or refers
    in ways that settings do not. What is no YAML at all is left for the parser to complain about.
    """
    try:
        if path.is_fifo():
            raise InputError(f"cannot read {what} {path}: it is a pipe; give a file")
        body = read_bytes(path, LARGEST_FILE)
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from error
    _check(body, path)
    return body


def _check(body: bytes, path: Path) -> None:
    depth = 0
    try:
        events: Iterable[Any] = yaml.parse(body, Loader)
        for event in events:
            where = f"{path}:{event.start_mark.line + 1}"
            if isinstance(event, yaml.AliasEvent):
                raise InputError(f"{where}: *{event.anchor}: write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise InputError(f"{where}: nested deeper than {DEEPEST} levels")
    except (yaml.YAMLError, ValueError):
        return
