"""Copies of captured hosts for tests that change them: each process makes one, and puts it right after each test.

To copy some hundred files takes longer than most tests do with them; to look at them takes a tenth of that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from stat import S_IFMT

_free: dict[Path, list[Path]] = {}
_numbers = count()
_folder: list[tempfile.TemporaryDirectory[str]] = []


@contextmanager
def lent(source: Path) -> Iterator[Path]:
    """A copy of a tree, to do anything with. Its folder may be entered by every user."""
    free = _free.setdefault(source, [])
    copy = free.pop() if free else Path(shutil.copytree(source, _new_place(), symlinks=True))
    try:
        yield copy
    finally:
        put_right(source, copy)
        free.append(copy)


def put_right(source: Path, copy: Path) -> None:
    """Make the copy what it was. What was written since has another time than its source."""
    copy.chmod(source.stat().st_mode)
    wanted = {entry.name: entry for entry in os.scandir(source)}
    for entry in list(os.scandir(copy)):
        if entry.name not in wanted or _kind(entry) != _kind(wanted[entry.name]):
            _remove(entry)
    for name, entry in wanted.items():
        target = copy / name
        if entry.is_dir(follow_symlinks=False):
            if target.is_dir():
                put_right(Path(entry.path), target)
            else:
                shutil.copytree(entry.path, target, symlinks=True)
        elif not _is_same(entry, target):
            target.unlink(missing_ok=True)
            shutil.copy2(entry.path, target, follow_symlinks=False)


def _kind(entry: os.DirEntry[str]) -> int:
    return S_IFMT(entry.stat(follow_symlinks=False).st_mode)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        Path(entry.path).unlink()


def _is_same(entry: os.DirEntry[str], copy: Path) -> bool:
    try:
        one, other = entry.stat(follow_symlinks=False), copy.lstat()
    except FileNotFoundError:
        return False
    if entry.is_symlink():
        return Path(entry.path).readlink() == copy.readlink()
    return (one.st_mode, one.st_size, one.st_mtime_ns) == (other.st_mode, other.st_size, other.st_mtime_ns)


def _new_place() -> Path:
    """With a name that is short enough for sockets below it. The folders of pytest are its user's alone."""
    if not _folder:
        _folder.append(tempfile.TemporaryDirectory(prefix="na-"))
        Path(_folder[0].name).chmod(0o755)
    return Path(_folder[0].name, str(next(_numbers)))
