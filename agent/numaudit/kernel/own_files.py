"""Files of our own: noticed when they change, and replaced as a whole. Source: rename(2), fsync(2)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def state_of(files: Iterable[Path]) -> tuple[object, ...]:
    """Differs from an earlier one when one of the files has changed, was replaced, went or came.

    Links are followed: a ConfigMap's volume changes by a link to another folder.
    """
    states: list[object] = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 (at every request: several times quicker)
            states.append((status.st_mtime_ns, status.st_ino, status.st_size))
        except OSError as error:
            states.append(error.errno)
    return tuple(states)


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a temporary file beside it, bring it to the disk, rename it, bring the rename to the disk.

    Raises OSError; the old file is then still there.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        try:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)  # noqa: PTH104 -- the system call is the point
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
