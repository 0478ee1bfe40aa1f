"""Files that are read at every tick: their descriptors stay open, and reading costs one system call, not four."""

from __future__ import annotations

import os
import resource

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
    """Descriptor of each that this tick has read."""
    _before: dict[str, int] = field(default_factory=dict)
    """The same of the tick before, of those that this tick has not read yet."""

    def read(self, path: str) -> bytes:
        """The file as it is now. Raises OSError."""
        descriptor = self._before.pop(path, None)
        if descriptor is None:
            descriptor = self._open.get(path)
            if descriptor is None:
                return self._opened(path)
        else:
            self._open[path] = descriptor
        try:
            content = os.pread(descriptor, _SIZE, 0)
        except OSError:
            # The group is gone (ENODEV); there may be a new one of this name.
            os.close(self._open.pop(path))
            return self._opened(path)
        return content if len(content) < _SIZE else read_bytes(path)

    def end_tick(self) -> None:
        """Close what was not read since the last call."""
        for descriptor in self._before.values():
            os.close(descriptor)
        self._before, self._open = self._open, {}

    def close(self) -> None:
        self.end_tick()
        self.end_tick()

    def __del__(self) -> None:
        self.close()

    def _opened(self, path: str) -> bytes:
        if len(self._open) + len(self._before) >= self.most:
            return read_bytes(path)
        descriptor = files.open_file(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            content = os.pread(descriptor, _SIZE, 0)
        except OSError:
            os.close(descriptor)
            raise
        self._open[path] = descriptor
        return content if len(content) < _SIZE else read_bytes(path)


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
