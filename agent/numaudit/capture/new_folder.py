"""Folders of our own: one that is filled without ever following a name that somebody else put there, and temporary
ones.

Root may capture into a folder of another user, who can rename what is in it and put links in its place at any time. So
every name is opened from the descriptor of the folder it is in, never through a link, and never where something is.
A path may be a tenant's choice: one that leads out of the folder (`..`) is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from time import time
from typing import IO

from numaudit.errors import Unavailable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 (the folder made there is its owner's alone)
_PREFIX = "numaudit-tree_"
YOUNG = 60.0
"""Seconds: one that was made just now may not be locked yet."""


class NewFolder:
    """An open folder, of which every file and folder is made here. Raises OSError."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._files: set[PurePath] = set()

    def make(self, below: PurePath) -> None:
        """A folder and those above it, as far as they are missing."""
        os.close(self._enter(below))

    def write(self, below: PurePath, content: bytes) -> None:
        """A file; one that was written before gets this content."""
        parent = self._enter_above(below)
        try:
            if below in self._files:
                os.unlink(below.name, dir_fd=parent)
            self._files.add(below)
            with os.fdopen(os.open(below.name, _NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
                file.write(content)
        finally:
            os.close(parent)

    def link(self, below: PurePath, target: str) -> None:
        """A link that nothing here follows; one that was made before stays."""
        parent = self._enter_above(below)
        try:
            with suppress(FileExistsError):
                os.symlink(target, below.name, dir_fd=parent)
        finally:
            os.close(parent)

    def _enter_above(self, below: PurePath) -> int:
        if below.name in ("", ".."):
            raise OSError(errno.EXDEV, "the path leads out of the folder", str(below))
        return self._enter(below.parent)

    def _enter(self, below: PurePath) -> int:
        if below.is_absolute() or ".." in below.parts:
            raise OSError(errno.EXDEV, "the path leads out of the folder", str(below))
        descriptor = os.dup(self._descriptor)
        for name in below.parts:
            above = descriptor
            try:
                descriptor = _made(name, above)
            finally:
                os.close(above)
        return descriptor


def _made(name: str, above: int) -> int:
    """A folder in an open one, made if it is missing; it must be ours."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise OSError(errno.EPERM, "somebody else has put a folder there meanwhile", name)
    return descriptor


@contextmanager
def filled(target: Path) -> Iterator[NewFolder]:
    """A new folder, or one that is there and empty. It is as it was when the block fails. Raises OSError."""
    made = _missing_parents(target)
    if made:
        target.parent.mkdir(parents=True, exist_ok=True)
    above = os.open(target.parent, _FOLDER)
    try:
        is_new = True
        try:
            os.mkdir(target.name, 0o700, dir_fd=above)
        except FileExistsError:
            is_new = False
        descriptor = os.open(target.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        try:
            if os.listdir(descriptor):  # noqa: PTH208 (of a descriptor)
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(target))
            yield NewFolder(descriptor)
        except BaseException:
            for name in os.listdir(descriptor):  # noqa: PTH208
                _remove(name, descriptor)
            if is_new:
                with suppress(OSError):
                    os.rmdir(target.name, dir_fd=above)
            raise
        finally:
            os.close(descriptor)
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise
    finally:
        os.close(above)


def _missing_parents(target: Path) -> list[Path]:
    """The innermost first."""
    missing = []
    for folder in target.parents:
        if folder.exists():
            break
        missing.append(folder)
    return missing


def _remove(name: str, above: int) -> None:
    """A file, or a folder with what is in it; links are never followed."""
    try:
        os.unlink(name, dir_fd=above)
    except OSError:
        shutil.rmtree(name, ignore_errors=True, dir_fd=above)


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """A file that has its name once it is whole. Nothing is left when the block fails. Raises OSError."""
    above = os.open(target.parent, _FOLDER)
    try:
        partial = f".numaudit-{secrets.token_hex(8)}"
        descriptor = os.open(partial, _NEW_FILE, 0o600, dir_fd=above)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            os.rename(partial, target.name, src_dir_fd=above, dst_dir_fd=above)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial, dir_fd=above)
            raise
    finally:
        os.close(above)


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
        descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
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
    descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and time() - status.st_mtime > YOUNG:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
