"""Files that are read at every tick: their descriptors stay open, and reading costs one system call, not four."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct, field

from numaudit.kernel import files
from numaudit.kernel.host import read_bytes

_SIZE = 16384
_ENOUGH = 65536
_FOR_OTHERS = 512
"""Descriptors that connections, maps and everything else may take, or a tenth of all if that is more."""


class OpenFileCache(Struct):
    """Reads files that the kernel gives as one record, such as memory.numa_stat: whole, from the start at each read.

    (Lists such as cgroup.procs come in pieces of a page, fs/seq_file.c; they are not for this.) An open
    file costs about 5 KB of kernel memory. One that a tick did not read is closed after it, and all when
    this object goes.
    """

    most: int = field(default_factory=lambda: _worth_keeping(open_files_allowed()))
    """Open files at the same time; what is beyond is opened and closed at each read."""
    _open: dict[str, int] = field(default_factory=dict)
    """Descriptor of each."""
    _read: set[str] = field(default_factory=set)
    """Those that this tick has read one by one."""
    _read_many: dict[int, tuple[Sequence[str], list[int]]] = field(default_factory=dict)
    """Lists of those that this tick has read together, with their descriptors, by the list's `id`."""
    _before: dict[int, tuple[Sequence[str], list[int]]] = field(default_factory=dict)
    """The same of the tick before."""

    def read(self, path: str) -> bytes:
        """The file as it is now. Raises OSError."""
        self._read.add(path)
        descriptor = self._open.get(path)
        if descriptor is None:
            return self._opened(path)
        try:
            content = os.pread(descriptor, _SIZE, 0)
        except OSError:
            # The group is gone (ENODEV); there may be a new one of this name.
            self._close(path)
            return self._opened(path)
        return content if len(content) < _SIZE else read_bytes(path)

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Many files as they are now; instead of one that cannot be read its error.

        Fastest for the very list of the tick before, of which nothing is looked up. Nobody may change that list.
        """
        known = self._before.get(id(paths))
        if known is not None:
            with suppress(OSError):
                contents = [os.pread(one, _SIZE, 0) for one in known[1]]
                if max(map(len, contents), default=0) < _SIZE:
                    self._read_many[id(paths)] = known
                    return [*contents]
        found = list(map(self._attempt, paths))
        if self._open.keys() >= {*paths} and all(isinstance(one, bytes) and len(one) < _SIZE for one in found):
            self._read_many[id(paths)] = paths, [self._open[path] for path in paths]
        return found

    def end_tick(self) -> None:
        """Close what was not read since the last call."""
        for path in self._open.keys() - self._read.union(*[paths for paths, _ in self._read_many.values()]):
            os.close(self._open.pop(path))
        self._read, self._before, self._read_many = set(), self._read_many, {}

    def close(self) -> None:
        self._read, self._read_many = set(), {}
        self.end_tick()

    def __del__(self) -> None:
        self.close()

    def _attempt(self, path: str) -> bytes | OSError:
        try:
            return self.read(path)
        except OSError as error:
            return error.with_traceback(None)

    def _opened(self, path: str) -> bytes:
        if len(self._open) >= self.most:
            return read_bytes(path)
        descriptor = files.open_file(path, os.O_RDONLY | os.O_NONBLOCK)
        self._open[path] = descriptor
        try:
            content = os.pread(descriptor, _SIZE, 0)
        except OSError:
            self._close(path)
            raise
        return content if len(content) < _SIZE else read_bytes(path)

    def _close(self, path: str) -> None:
        """No list of descriptors may have it from now on: its number may be another file's."""
        os.close(self._open.pop(path))
        self._read.update(*[paths for paths, _ in self._read_many.values()])
        self._read_many.clear()
        self._before.clear()


def _worth_keeping(allowed: int) -> int:
    return max(0, allowed - max(_FOR_OTHERS, allowed // 10))


def open_files_allowed() -> int:
    """Number of files that this process may have open, after raising the soft limit to the hard one (or 65536)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > _ENOUGH:
        hard = _ENOUGH
    if soft >= hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (OSError, ValueError):  # refused by a security module: then with as many as before
        return soft
    return hard
