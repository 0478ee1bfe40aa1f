"""Limits of whoever started us (ulimit, a container's) that ended a verb, and what to do about them."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

_FILES = "raise the limit (ulimit -n)"
_PROCESSES = "raise the limit (ulimit -u, or pids.max)"


def limit_reached(error: BaseException) -> str | None:
    """Message for an error that such a limit caused; None = none did.

    A verb may have made its own error of the one that the limit caused.
    """
    for cause in _chain(error):
        found = _limit(cause)
        if found is not None:
            words, what_to_do = found
            said = words if cause is error else str(error)
            return said if what_to_do in said else f"{said}; {what_to_do}"
    return None


def host_is_full(error: BaseException) -> str | None:
    """Message where the host itself has no more; None = it is something else."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "not enough memory; give the container, or the host, more"
    if isinstance(error, OSError) and error.errno == errno.ENFILE:
        return f"{os.strerror(errno.ENFILE)}; raise fs.file-max"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that led to it."""
    seen = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _limit(error: BaseException) -> tuple[str, str] | None:
    """Words and what to do. A module that cannot be opened is an ImportError, and Python names a thread that does not
    start in words only."""
    text = str(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        is_set = _is_set(resource.RLIMIT_AS) or _is_set(resource.RLIMIT_DATA)
        return ("not enough memory", "raise the limit (ulimit -v or -d)") if is_set else None
    if isinstance(error, OSError):
        match error.errno:
            case errno.EMFILE:
                return os.strerror(errno.EMFILE), _FILES
            case errno.EAGAIN:
                return f"no process or thread can be started: {os.strerror(errno.EAGAIN)}", _PROCESSES
            case errno.EFBIG if _is_set(resource.RLIMIT_FSIZE):
                return f"cannot write the result: {os.strerror(errno.EFBIG)}", "raise the limit (ulimit -f)"
    if isinstance(error, ImportError | RuntimeError):
        if os.strerror(errno.EMFILE) in text:
            return os.strerror(errno.EMFILE), _FILES
        if "can't start new thread" in text:
            return f"no process or thread can be started: {text}", _PROCESSES
    return None


def _is_set(limit: int) -> bool:
    return resource.getrlimit(limit)[0] != resource.RLIM_INFINITY
