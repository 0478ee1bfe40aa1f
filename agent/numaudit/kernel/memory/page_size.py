"""Page size of the host's kernel: 4 KiB, or, on arm64, 16 or 64 KiB.

Source: arch/arm64/Kconfig (ARM64_PAGE_SHIFT), fs/proc/meminfo.c, mm/vmstat.c.
"""

from __future__ import annotations

import os
import re

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_text

SIZES = (4096, 16384, 65536)
_ANON_BYTES = re.compile(r"^AnonPages: {1,32}(\d{1,16}) kB$", re.M | re.ASCII)
_ANON_PAGES = re.compile(r"^nr_anon_pages (\d{1,16})$", re.M | re.ASCII)


def read(host: Host) -> int:
    """Bytes of a page. A captured tree whose counters do not tell is taken to have pages of 4 KiB."""
    if host.is_live:
        return os.sysconf("SC_PAGE_SIZE")
    try:
        return parse(read_text(host.proc / "meminfo"), read_text(host.proc / "vmstat"))
    except (OSError, ParseError):
        return SIZES[0]


def parse(meminfo: str, vmstat: str) -> int:
    """/proc/meminfo and /proc/vmstat have the same memory in bytes and in pages, read one shortly after the other.

    Raises ParseError when there is no such memory.
    """
    size, pages = _ANON_BYTES.search(meminfo), _ANON_PAGES.search(vmstat)
    if size is None or pages is None or not int(size[1]) or not int(pages[1]):
        raise ParseError("AnonPages of meminfo and nr_anon_pages of vmstat do not give the size of a page")
    ratio = int(size[1]) * 1024 / int(pages[1])
    return min(SIZES, key=lambda one: max(one / ratio, ratio / one))
