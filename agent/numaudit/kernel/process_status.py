"""/proc/PID/status: how much memory a process maps, which any user may read.

Source: proc_pid_status(5), fs/proc/task_mmu.c (task_mem). The kernel may be some pages behind for each CPU.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_bytes

_LINE = re.compile(rb"^Rss(Anon|File|Shmem):\s+(\d{1,15}) kB$", re.MULTILINE)


class ProcessMemory(NamedTuple):
    """Bytes that are resident, without huge pages of the pool."""

    anon: int
    file: int
    """Of files on disks, libraries included."""
    shmem: int
    """Of files in a tmpfs, and of shared memory without a name."""


def read(host: Host, pid: int) -> ProcessMemory:
    """Raises OSError when the process has ended or may not be read, ParseError."""
    return parse(read_bytes(f"{host.proc}/{pid}/status"))


def parse(text: bytes) -> ProcessMemory:
    """Raises ParseError where sizes are missing, as of a kernel thread or a process that has ended."""
    sizes = {name: int(size) << 10 for name, size in _LINE.findall(text)}
    if len(sizes) < len(ProcessMemory._fields):
        raise ParseError("/proc/PID/status does not say how much memory the process has (RssAnon, RssFile, RssShmem)")
    return ProcessMemory(sizes[b"Anon"], sizes[b"File"], sizes[b"Shmem"])
