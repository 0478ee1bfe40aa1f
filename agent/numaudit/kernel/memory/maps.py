"""/proc/PID/maps: which mappings are shared, which part of which file each maps, and the shared libraries among them.

numa_maps has the pages of a mapping, but neither its flags nor the file's identity. Source: fs/proc/task_mmu.c
(show_map_vma), proc_pid_maps(5).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_text

_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) [r-][w-][x-]([sp]) ([0-9a-f]{1,16}) ([0-9a-f]{1,8}:[0-9a-f]{1,8}) (\d{1,20})"
    r"(?: .*)?",
    re.ASCII | re.DOTALL,
)
_IN_MEMORY = ("tmpfs", "devtmpfs")


class SharedMapping(NamedTuple):
    """Bytes `begin` to `end` of a file (or of memory without a name, which has a hidden one), mapped MAP_SHARED."""

    begin: int
    end: int
    device: str
    """Hexadecimal, major:minor."""
    inode: int


def read(host: Host, pid: int) -> dict[int, SharedMapping]:
    """The shared mappings of one process by their address. Raises OSError (gone, not permitted) or ParseError."""
    file = host.proc / str(pid) / "maps"
    try:
        return parse(read_text(file, limit=64 << 20))
    except ParseError as error:
        raise ParseError(f"{file}: {error}") from None


def parse(text: str) -> dict[int, SharedMapping]:
    """The shared mappings by their address."""
    found = {}
    for line in text.split("\n"):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ParseError(f"not a maps line: {line[:120]!r}")
        start, stop, flag, offset, device, inode = match.groups()
        if flag == "s":
            begin = int(offset, 16)
            found[int(start, 16)] = SharedMapping(begin, begin + int(stop, 16) - int(start, 16), device, int(inode))
    return found


def devices_in_memory(mountinfo: str) -> frozenset[str]:
    """The devices of the tmpfs mounts in /proc/PID/mountinfo, as maps has them. Source: proc_pid_mountinfo(5)."""
    found = set()
    for line in mountinfo.split("\n"):
        fields, _, kind = line.partition(" - ")
        words = fields.split(" ", 3)
        if kind.split(" ", 1)[0] in _IN_MEMORY and len(words) == 4:
            major, _, minor = words[2].partition(":")
            if major.isdecimal() and minor.isdecimal():
                found.add(f"{int(major):02x}:{int(minor):02x}")
    return frozenset(found)


_COLUMNS = 6


def read_libraries(host: Host, pid: int) -> frozenset[str]:
    """Names of their files. Raises OSError when the process has ended, or its mappings may not be read."""
    return parse_libraries(read_text(host.proc / str(pid) / "maps", limit=64 << 20))


def parse_libraries(text: str) -> frozenset[str]:
    """The names of mapped files that are called as shared libraries are: libgomp.so.1, ..."""
    found = set()
    for line in text.split("\n"):
        fields = line.split(None, _COLUMNS - 1)
        name = fields[-1].rpartition("/")[2] if len(fields) == _COLUMNS else ""
        if ".so" in name:
            found.add(name)
    return frozenset(found)
