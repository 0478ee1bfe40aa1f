"""The cgroup that a page of memory is charged to: /proc/PID/pagemap has its frame, /proc/kpagecgroup the frame's
cgroup.

Source: Documentation/admin-guide/mm/pagemap.rst. Page frames are for CAP_SYS_ADMIN only; to others they are 0.
"""

from __future__ import annotations

import os
from collections import Counter

from numaudit.kernel import files
from numaudit.kernel.host import Host

_PRESENT = 1 << 63
_FRAME = (1 << 55) - 1
_ENTRY = 8
"""Bytes, in both files."""


def sample(host: Host, pid: int, address: int, size: int, page_size: int, most: int = 64) -> Counter[int]:
    """cgroup id -> pages, of at most `most` pages spread evenly over a mapping. Raises OSError.

    Counts only pages that the process has mapped and whose cgroup is known. For a cgroup that was removed the kernel
    names the nearest group above it that is there. It keeps no memory cgroup of a huge page of the pool.
    """
    owners: Counter[int] = Counter()
    pages = size // page_size
    count = min(pages, most)
    with (
        os.fdopen(files.open_file(host.proc / str(pid) / "pagemap"), "rb", 0) as pagemap,
        os.fdopen(files.open_file(host.proc / "kpagecgroup"), "rb", 0) as groups,
    ):
        for number in range(count):
            page = address // page_size + (2 * number + 1) * pages // (2 * count)
            entry = _entry(pagemap.fileno(), page)
            if entry & _PRESENT and entry & _FRAME:
                owners[_entry(groups.fileno(), entry & _FRAME)] += 1
    del owners[0]
    return owners


def _entry(descriptor: int, index: int) -> int:
    return int.from_bytes(os.pread(descriptor, _ENTRY, index * _ENTRY), "little")
