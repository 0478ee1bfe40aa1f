"""System calls that Python's standard library does not offer, by their number.

Source: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h (arm64, riscv),
arch/s390/kernel/syscalls/syscall.tbl.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Literal

from numaudit.errors import Unavailable

Name = Literal["bpf", "fstatfs", "openat2", "perf_event_open", "setns", "statx"]

_NUMBERS: dict[str, dict[Name, int]] = {
    "x86_64": {"bpf": 321, "fstatfs": 138, "openat2": 437, "perf_event_open": 298, "setns": 308, "statx": 332},
    "aarch64": {"bpf": 280, "fstatfs": 44, "openat2": 437, "perf_event_open": 241, "setns": 268, "statx": 291},
    "riscv64": {"bpf": 280, "fstatfs": 44, "openat2": 437, "perf_event_open": 241, "setns": 268, "statx": 291},
    "s390x": {"bpf": 351, "fstatfs": 100, "openat2": 437, "perf_event_open": 331, "setns": 339, "statx": 379},
}


def call(name: Name, *arguments: int) -> int:
    """The call's result, 0 or more; addresses are passed as integers.

    Raises OSError with the kernel's errno, and Unavailable on a machine whose call numbers we do not know.
    """
    number = _number(name)
    result: int = _libc().syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


@cache
def _number(name: Name) -> int:
    machine = os.uname().machine
    try:
        return _NUMBERS[machine][name]
    except KeyError:
        raise Unavailable(
            f"the number of the system call {name} on {machine} is not known; supported: {', '.join(_NUMBERS)}"
        ) from None


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
