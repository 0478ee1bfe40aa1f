"""Every look at a file of the observed host: no other module opens, lists or examines one.

Below the root of a capture, or of a host that is mounted in a container, paths are resolved as on that host, by
`in_root`: absolute links begin at the root, and nothing leads out of it. On the host itself there is no outside. Paths
may be texts, which cost less than `Path` in a tick.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

_MOST_LINKS = 40
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)
_roots: set[str] = set()

AnyPath = str | os.PathLike[str]


def confine(root: Path) -> None:
    """From now on nothing below this folder leads out of it. `Host` calls this for each root but `/`."""
    if str(root) != "/":
        _roots.add(str(root))


def open_file(path: AnyPath, flags: int = os.O_RDONLY) -> int:
    """Descriptor of a file or folder that exists. Raises OSError, ValueError."""
    place = _place(path)
    if place is None:
        return os.open(path, flags | os.O_CLOEXEC)
    from numaudit.kernel.in_root import open_in_root  # noqa: PLC0415 (ctypes, for captures and mounted hosts alone)

    return open_in_root(*place, flags | os.O_CLOEXEC)


def open_namespace(path: AnyPath) -> int:
    """Descriptor of a file of /proc/PID/ns of a running host: a jump of the kernel's to no path. Raises OSError."""
    folder, _, name = os.fspath(path).rpartition("/")
    above = open_file(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=above)
    finally:
        os.close(above)


def status(path: AnyPath, *, follows: bool = True) -> os.stat_result:
    """Result of stat(2), or of lstat(2). Raises OSError, ValueError."""
    if _place(path) is None:
        return os.stat(path, follow_symlinks=follows)  # noqa: PTH116 (many times in a tick)
    descriptor = open_file(path, os.O_PATH | (0 if follows else os.O_NOFOLLOW))
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def statuses_below(folder: AnyPath, paths: Iterable[str]) -> Iterator[os.stat_result]:
    """Results of lstat(2) of files below a folder, of whose paths no part was a link when they were listed.

    Nothing below is opened, so that a link which has come since shows another file's status at most. Raises OSError.
    """
    top = open_file(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        for path in paths:
            yield os.stat(path, dir_fd=top, follow_symlinks=False)
    finally:
        os.close(top)


def may_use(path: AnyPath, mode: int) -> bool:
    """Result of access(2) for R_OK and W_OK."""
    if _place(path) is None:
        return os.access(path, mode)
    try:
        descriptor = open_file(path, os.O_PATH)
    except OSError:
        return False
    try:
        return os.access(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)


def file_system(path: AnyPath) -> os.statvfs_result:
    """Result of statvfs(2). Raises OSError."""
    descriptor = open_file(path, os.O_PATH)
    try:
        return os.fstatvfs(descriptor)
    finally:
        os.close(descriptor)


def exists(path: AnyPath) -> bool:
    """Raises OSError where it may not be seen, as the others of these."""
    return _mode(path) != 0


def is_folder(path: AnyPath) -> bool:
    return modes.S_ISDIR(_mode(path))


def is_file(path: AnyPath) -> bool:
    return modes.S_ISREG(_mode(path))


def is_link(path: AnyPath) -> bool:
    return modes.S_ISLNK(_mode(path, follows=False))


def names(folder: AnyPath, most: int | None = None) -> list[str]:
    """Names of all in a folder, unsorted. Raises OSError."""
    if most is None and _place(folder) is None:
        return os.listdir(folder)  # noqa: PTH208 (by one descriptor, where the next lines take two)
    descriptor = open_file(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in islice(entries, most)]
    finally:
        os.close(descriptor)


def folders(folder: AnyPath) -> list[tuple[str, os.stat_result]]:
    """Name and status of the folders in a folder, links not counted, sorted. Raises OSError."""
    found = []
    descriptor = open_file(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    with suppress(OSError):  # it has gone meanwhile
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
    finally:
        os.close(descriptor)
    return sorted(found)


def glob(folder: AnyPath, pattern: str) -> list[Path]:
    """Sorted paths below a folder, as pathlib's; nothing where a folder may not be listed."""
    found = [Path(folder)]
    for part in pattern.split("/"):
        if any(char in part for char in "*?["):
            found = [one / name for one in found for name in _names(one) if fnmatchcase(name, part)]
        else:
            found = [one / part for one in found if _can_be_seen(one / part)]
    return sorted(found)


def link_target(path: AnyPath) -> str:
    """The text of a link. Raises OSError."""
    if _place(path) is None:
        return os.readlink(path)  # noqa: PTH115
    descriptor = open_file(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        return os.readlink("", dir_fd=descriptor)
    finally:
        os.close(descriptor)


def real_path(path: AnyPath) -> str:
    """The path without links, whether or not something is there: a name to show or compare. It stays below its root."""
    place = _place(path)
    if place is None:
        return os.path.realpath(path)
    root, below = place
    todo, done, links = below.split("/")[::-1], [root], 0
    while todo:
        name = todo.pop()
        if name == "..":
            done[1:] = done[1:-1]
        elif name not in ("", "."):
            done.append(name)
            try:
                target = link_target("/".join(done))
            except OSError:
                continue
            links += 1
            if links > _MOST_LINKS:
                break
            done[1 if target.startswith("/") else -1 :] = []
            todo += target.split("/")[::-1]
    return "/".join(done)


def _place(path: AnyPath) -> tuple[str, str] | None:
    """The innermost confined root above a path, and the path from there; None = there is none."""
    if not _roots:
        return None
    text = os.fspath(path)
    end = len(text)
    while end > 0:
        if text[:end] in _roots:
            return text[:end], text[end:].strip("/")
        end = text.rfind("/", 0, end)
    return None


def _mode(path: AnyPath, *, follows: bool = True) -> int:
    try:
        return status(path, follows=follows).st_mode
    except OSError as error:
        if error.errno in _NOT_THERE:
            return 0
        raise
    except ValueError:
        return 0


def _names(folder: Path) -> list[str]:
    try:
        return names(folder)
    except OSError:
        return []


def _can_be_seen(path: Path) -> bool:
    try:
        return exists(path)
    except OSError:
        return False
