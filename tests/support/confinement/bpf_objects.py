"""Which BPF programs, maps and links processes hold, and whether the kernel still has them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Iterable
from pathlib import Path

_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
_BY_ID = {"prog": 13, "map": 14, "link": 30}
"""BPF_*_GET_FD_BY_ID of include/uapi/linux/bpf.h."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def held_by(pids: Iterable[int]) -> frozenset[tuple[str, int]]:
    """`prog`, `map` or `link`, and the kernel's number, of all that these processes have open."""
    found = set()
    for pid in pids:
        for info in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found |= {
                    (kind, int(number))
                    for kind, number in re.findall(r"^(prog|map|link)_id:\s*(\d+)$", info.read_text(), re.MULTILINE)
                }
    return frozenset(found)


def still_there(kind: str, number: int) -> bool:
    asked = ctypes.create_string_buffer(struct.pack("I", number), 16)
    descriptor = _LIBC.syscall(_BPF, _BY_ID[kind], asked, 16)
    if descriptor >= 0:
        os.close(descriptor)
        return True
    if ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), f"bpf({kind} {number})")
    return False
