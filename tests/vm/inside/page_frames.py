"""Where the pages of a mapping are and whose they are, page by page and not by numa_maps: the truth of tests."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from pathlib import Path

from workload import PAGE

MOVE_PAGES = {"x86_64": 279, "aarch64": 239}
"""The system call's number by architecture."""
libc = ctypes.CDLL(None, use_errno=True)


def nodes(pid: int, address: int, size: int) -> Counter[int]:
    """Node -> bytes of the pages that a process has mapped: move_pages(2) that moves nothing."""
    count = size // PAGE
    pages = (ctypes.c_void_p * count)(*range(address, address + size, PAGE))
    status = (ctypes.c_int * count)()
    call = MOVE_PAGES[os.uname().machine]
    if libc.syscall(call, ctypes.c_long(pid), ctypes.c_ulong(count), pages, None, status, 0):
        raise OSError(ctypes.get_errno(), f"move_pages of process {pid}")
    return Counter({node: PAGE * found for node, found in Counter(status).items() if node >= 0})


def charged(pid: int, address: int, size: int) -> Counter[int]:
    """cgroup id -> bytes of the pages that a process has mapped: pagemap and kpagecgroup of every page."""
    found: Counter[int] = Counter()
    with Path(f"/proc/{pid}/pagemap").open("rb") as pagemap, Path("/proc/kpagecgroup").open("rb") as groups:
        pagemap.seek(address // PAGE * 8)
        entries = memoryview(pagemap.read(size // PAGE * 8)).cast("Q")
        for entry in entries:
            if entry >> 63:
                groups.seek((entry & (1 << 55) - 1) * 8)
                found[int.from_bytes(groups.read(8), "little")] += PAGE
    return found
