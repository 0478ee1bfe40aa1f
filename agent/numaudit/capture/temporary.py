"""A temporary folder of our own, and the end of those whose process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time

from numaudit.errors import Unavailable

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (the folder made there is its owner's alone)
_PREFIX = "numaudit-tree_"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
YOUNG = 60.0
"""Seconds: one that was made just now may not be locked yet."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """For its owner only, and removed at the end. Raises Unavailable.

    A container with a read-only root often has no place but /dev/shm, which is memory. The folder is locked for as long
    as its process lives, so that the next one finds what was left.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=_PREFIX)
    except OSError as error:
        try:
            made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_SHARED_MEMORY)
        except OSError:
            why = f"cannot make a temporary folder: {error.strerror}; set TMPDIR to another folder"
            raise Unavailable(why) from error
    with made as name:
        folder = Path(name).resolve()
        descriptor = os.open(folder, _FOLDER)
        try:
            with suppress(OSError):  # a file system without locks: then nothing there can be swept
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            _sweep(folder.parent)
            yield folder
        finally:
            os.close(descriptor)


def _sweep(parent: Path) -> None:
    """Remove folders of this user that no living process has locked."""
    with suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Raises OSError, also when a process has locked it."""
    descriptor = os.open(folder, _FOLDER)
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and time() - status.st_mtime > YOUNG:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
