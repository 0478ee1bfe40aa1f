"""/sys/devices/system/memory: which node each block of physical memory belongs to.

Source: drivers/base/memory.c, drivers/base/node.c (the `memoryN` links of a node),
Documentation/admin-guide/mm/memory-hotplug.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.node import online_nodes
from numaudit.topology.nodeset import NodeSet

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
