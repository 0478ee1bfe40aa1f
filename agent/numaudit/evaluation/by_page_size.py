"""Huge pages of one container by size: a promise of 1 GiB pages is kept by 1 GiB pages only. Pure."""

from __future__ import annotations

from msgspec import field

from numaudit.containermanager.memory.state import hugepages_name
from numaudit.encoding.value import Value
from numaudit.intent.node import Promise
from numaudit.snapshot import BytesByNode, Resident
from numaudit.topology.nodeset import NodeSet


class HugePagesOfContainer(Value, frozen=True):
    """A container's huge pages of one size: promised, and used."""

    type: str
    """hugepages-2Mi, ..."""
    promised_bytes: int | None
    """Bytes of this size that were promised to it; null = not known."""
    promised_nodes: NodeSet | None
    """Nodes where they should be: of its promise of this size, or else of its memory; null = of no promise."""
    bytes_by_node: BytesByNode = field(name="bytes")
    """Bytes that it uses, by node."""
    misplaced_bytes: int | None
    """Of these, on other nodes than the promised ones; null = of no promise."""

    @property
    def held(self) -> int:
        """Bytes that it uses on all nodes."""
        return sum(self.bytes_by_node.values())


def by_page_size(resident: Resident | None, promise: Promise | None) -> tuple[HugePagesOfContainer, ...] | None:
    """Each size that it uses or was promised, the smallest first; None = its use by size is not known."""
    promised = {} if promise is None else promise.huge_pages
    if resident is None or resident.hugetlb is None:
        return None
    if not resident.huge_pages:
        if resident.huge_pages is None and any(resident.hugetlb.values()):
            return None
        if not promised:
            return ()
    used = {hugepages_name(size): by_node for size, by_node in sorted((resident.huge_pages or {}).items())}
    types = [name for name, by_node in used.items() if name in promised or any(by_node.values())]
    types += [name for name in promised if name not in used]
    return tuple([_of_size(name, used.get(name, {}), promise) for name in types])


def _of_size(name: str, used: BytesByNode, promise: Promise | None) -> HugePagesOfContainer:
    if promise is None or promise.memory is None:
        return HugePagesOfContainer(name, None, None, used, None)
    promised, own_nodes = promise.huge_pages.get(name, (0, None))
    nodes = own_nodes or promise.memory_nodes or None
    outside = None if nodes is None else sum(size for node, size in used.items() if node not in nodes)
    return HugePagesOfContainer(name, promised, nodes, used, outside)
