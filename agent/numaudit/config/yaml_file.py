"""Files of settings in YAML, as bytes that can be parsed safely."""

from __future__ import annotations

from pathlib import Path

import yaml

from numaudit import yaml_values
from numaudit.errors import InputError
from numaudit.kernel.host import read_bytes
from numaudit.yaml_values import YamlLimits

SETTINGS = YamlLimits(256 << 10, 3_500, 20)


def read(path: Path, what: str) -> bytes:
    """The whole file of settings; `what` names it in messages ("the settings").

    Raises InputError when it cannot be read, is a pipe (which may never end), is larger than SETTINGS, or refers to its
    own parts. What is no YAML at all is left for the parser to complain about.
    """
    body = read_whole(path, what, SETTINGS.size)
    try:
        for _ in yaml_values.events(body, str(path), SETTINGS):
            pass
    except (yaml.YAMLError, ValueError):
        pass
    return body


def values(path: Path, what: str) -> object:
    """The plain values of a file of settings; None = it is empty.

    Raises InputError as `read` does, and where the file is no YAML, names a key twice or has a tag.
    """
    return yaml_values.read(read_whole(path, what, SETTINGS.size), str(path), SETTINGS)


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
