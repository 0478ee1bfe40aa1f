"""/proc/PID/maps: the shared libraries of a process.

Source: fs/proc/task_mmu.c (show_map_vma), proc_pid_maps(5).
"""

from __future__ import annotations

from numaudit.kernel.host import Host, read_text

_FIELDS = 6


def read(host: Host, pid: int) -> frozenset[str]:
    """Names of their files. Raises OSError when the process has ended, or its mappings may not be read."""
    return parse(read_text(host.proc / str(pid) / "maps", limit=64 << 20))


def parse(text: str) -> frozenset[str]:
    """The names of mapped files that are called as shared libraries are: libgomp.so.1, ..."""
    found = set()
    for line in text.split("\n"):
        fields = line.split(None, _FIELDS - 1)
        name = fields[-1].rpartition("/")[2] if len(fields) == _FIELDS else ""
        if ".so" in name:
            found.add(name)
    return frozenset(found)
