"""Physical memory: the size of a page, the node of each block, and the cgroup that a page is charged to.

Pages have 4 KiB, or, on arm64, 16 or 64 KiB. /sys/devices/system/memory has the blocks. /proc/PID/pagemap has the
frame of a page, /proc/kpagecgroup the frame's cgroup; frames are for CAP_SYS_ADMIN only, to others they are 0.

Source: arch/arm64/Kconfig (ARM64_PAGE_SHIFT), fs/proc/meminfo.c, mm/vmstat.c; drivers/base/memory.c,
drivers/base/node.c (the `memoryN` links of a node), Documentation/admin-guide/mm/memory-hotplug.rst,
Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.memory.node_cpus import online_nodes
from numaudit.topology.nodeset import NodeSet

SIZES = (4096, 16384, 65536)
_ANON_BYTES = re.compile(r"^AnonPages: {1,32}(\d{1,16}) kB$", re.M | re.ASCII)
_ANON_PAGES = re.compile(r"^nr_anon_pages (\d{1,16})$", re.M | re.ASCII)


def read_page_size(host: Host) -> int:
    """Bytes of a page. A captured tree whose counters do not tell is taken to have pages of 4 KiB."""
    if host.is_live:
        return os.sysconf("SC_PAGE_SIZE")
    try:
        return parse_page_size(read_text(host.proc / "meminfo"), read_text(host.proc / "vmstat"))
    except (OSError, ParseError):
        return SIZES[0]


def parse_page_size(meminfo: str, vmstat: str) -> int:
    """/proc/meminfo and /proc/vmstat have the same memory in bytes and in pages, read one shortly after the other.

    Raises ParseError when there is no such memory.
    """
    size, pages = _ANON_BYTES.search(meminfo), _ANON_PAGES.search(vmstat)
    if size is None or pages is None or not int(size[1]) or not int(pages[1]):
        raise ParseError("AnonPages of meminfo and nr_anon_pages of vmstat do not give the size of a page")
    ratio = int(size[1]) * 1024 / int(pages[1])
    return min(SIZES, key=lambda one: max(one / ratio, ratio / one))


_BLOCK = re.compile(r"memory(\d{1,9})", re.ASCII)


class MemoryBlocks(Struct, frozen=True):
    """Blocks of physical memory. Block n holds the addresses from n x block_size on."""

    block_size: int
    """Bytes; a power of two."""
    nodes_of_block: Mapping[int, NodeSet]
    """A block that spans two nodes has both. A block that no node has is missing."""

    @property
    def count(self) -> int:
        """One more than the highest block number."""
        return max(self.nodes_of_block, default=-1) + 1


def read(host: Host) -> MemoryBlocks:
    """The blocks of all online nodes.

    Raises Unavailable when the kernel shows none: it was built without CONFIG_MEMORY_HOTPLUG.
    """
    path = host.sys / "devices/system/memory/block_size_bytes"
    try:
        block_size = parse_block_size(read_text(path))
    except OSError as error:
        raise Unavailable(
            f"cannot read {path}: {error.strerror}; only a kernel with CONFIG_MEMORY_HOTPLUG tells "
            "which node a page frame is on"
        ) from error
    masks: dict[int, int] = {}
    for node in online_nodes(host):
        for name in files.names(host.nodes / f"node{node}"):
            match = _BLOCK.fullmatch(name)
            if match is not None:
                block = int(match[1])
                masks[block] = masks.get(block, 0) | 1 << node
    if not masks:
        raise Unavailable(f"{host.nodes} links no memory block to any node, so a page's node is not known")
    return MemoryBlocks(block_size, {block: NodeSet(mask) for block, mask in sorted(masks.items())})


def parse_block_size(text: str) -> int:
    """Bytes, from hexadecimal digits without a prefix. Raises ParseError."""
    digits = text.strip()
    if not re.fullmatch(r"[0-9a-f]{1,16}", digits, re.ASCII) or int(digits, 16).bit_count() != 1:
        raise ParseError(f"block_size_bytes is not a power of two in hexadecimal: {text[:40]!r}")
    return int(digits, 16)


_PRESENT = 1 << 63
_FRAME = (1 << 55) - 1
_ENTRY = 8
"""Bytes, in both files."""


def sample_owners(host: Host, pid: int, address: int, size: int, page_size: int, most: int = 64) -> Counter[int]:
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
