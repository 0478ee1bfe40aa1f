"""Keeps the C library from holding on to memory that big, short-lived buffers leave behind."""

from __future__ import annotations

import ctypes

# <malloc.h> of glibc
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_THRESHOLD = 128 << 10


def keep_small() -> bool:
    """Fix glibc's thresholds, which otherwise grow with the largest buffer, and give all threads one arena.

    Measured with 40 containers a second and OTLP: at most 73 instead of 99 MiB. False with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _THRESHOLD), (_M_TRIM_THRESHOLD, _THRESHOLD))
    return all(mallopt(option, value) == 1 for option, value in options)
