"""A file below a root, opened as if that root were `/`: neither `..` nor a link leads out, also while names change.

By openat2(2), which Linux has since 5.6. Older kernels and some seccomp profiles refuse it: then by the descriptor of
each folder on the way. Source: fs/namei.c (RESOLVE_IN_ROOT), fs/proc/base.c (magic links).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys

from numaudit.errors import Unavailable
from numaudit.kernel.tracing import syscall

_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_REFUSED = (errno.ENOSYS, errno.EPERM, errno.EAGAIN)
"""By an older kernel, by a seccomp profile, and where names change at this very moment."""
_MOST_LINKS = 40
"""MAXSYMLINKS of the kernel."""
_PROC_MAGIC, _PROC_ROOT_INODE = 0x9FA0, 1
_STATFS_SIZE = 256
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_in_root(root: str, below: str, flags: int) -> int:
    """The descriptor of a file that exists; `flags` as for open(2), without O_CREAT.

    A link of /proc/PID that is no text (`root`, `cwd`, `fd/N`) is not followed. Raises OSError, and ValueError for a
    NUL byte.
    """
    if "\0" in below:
        raise ValueError("embedded null byte")
    if not flags & (os.O_PATH | os.O_DIRECTORY):
        sys.audit("open", f"{root}/{below}", None, flags)  # as open(2) of Python's does (PEP 578)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            return _by_openat2(top, below, flags)
        except Unavailable:
            pass
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
        return _by_descriptors(top, below, flags)
    except OSError as error:
        code = error.errno or errno.EIO
        raise OSError(code, os.strerror(code), f"{root}/{below}") from None
    finally:
        os.close(top)


def _by_openat2(top: int, below: str, flags: int) -> int:
    """Raises OSError, and Unavailable on a machine whose call numbers we do not know."""
    path = ctypes.create_string_buffer(os.fsencode(below or "."))
    how = ctypes.create_string_buffer(struct.pack("=QQQ", flags, 0, _IN_ROOT | _NO_MAGIC_LINKS), 24)
    return syscall.call("openat2", top, ctypes.addressof(path), ctypes.addressof(how), len(how))


def _by_descriptors(top: int, below: str, flags: int) -> int:
    """The same, folder by folder. Raises OSError."""
    folders = [os.dup(top)]
    """From the root to where we are; `..` is the one before, whoever moves a folder meanwhile."""
    try:
        todo = below.split("/")[::-1]
        links = 0
        while todo:
            name = todo.pop()
            if name == ".." and len(folders) > 1:
                os.close(folders.pop())
            if name in ("", ".", ".."):
                continue
            entry = os.open(name, _LINK, dir_fd=folders[-1])
            folders.append(entry)
            mode = os.fstat(entry).st_mode
            if stat.S_ISLNK(mode) and (todo or not flags & os.O_NOFOLLOW):
                links += 1
                if links > _MOST_LINKS or _is_magic(folders[-2]):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink("", dir_fd=entry)
                os.close(folders.pop())
                while target.startswith("/") and len(folders) > 1:
                    os.close(folders.pop())
                todo += target.split("/")[::-1]
            elif not todo:
                os.close(folders.pop())
                return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folders[-1])
            elif not stat.S_ISDIR(mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return os.open(".", flags & ~os.O_NOFOLLOW, dir_fd=folders[-1])
    finally:
        for one in folders:
            os.close(one)


def is_procfs(folder: int) -> bool:
    """Is an open folder of the kernel's /proc? Raises OSError."""
    result = ctypes.create_string_buffer(_STATFS_SIZE)
    try:
        syscall.call("fstatfs", folder, ctypes.addressof(result))
    except Unavailable:
        return False
    return int.from_bytes(result.raw[:4], sys.byteorder) == _PROC_MAGIC


def _is_magic(folder: int) -> bool:
    """Are the links of this folder the kernel's jumps, and no texts? In procfs all are but those at its root."""
    return is_procfs(folder) and os.fstat(folder).st_ino != _PROC_ROOT_INODE
