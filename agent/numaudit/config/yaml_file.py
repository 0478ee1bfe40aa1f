"""Files of settings in YAML."""

from __future__ import annotations

from pathlib import Path

from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError
from numaudit.kernel.host import read_bytes

SETTINGS = YamlLimits(256 << 10, 3_500, 20)
AGENT = YamlLimits(SETTINGS.size, SETTINGS.values, SETTINGS.levels, as_written=True)


def values(path: Path, what: str, limits: YamlLimits = SETTINGS) -> object:
    """The plain values of a file of settings; None = it is empty. `what` names it in messages ("the settings").

    Raises InputError when it cannot be read, is a pipe (which may never end), is over a limit, refers to its own parts,
    is no YAML, names a key twice or has a tag.
    """
    return yaml_values.read(read_whole(path, what, limits.size), str(path), limits)


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
