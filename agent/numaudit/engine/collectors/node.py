"""Figures of the nodes themselves, independent of any cgroup."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.kernel.node import NodeCounters, read_counters, read_huge_page_pools
from numaudit.snapshot import NodeMemory, Resident, Snapshot

_RECLAIMABLE = ("Active(file)", "Inactive(file)", "SReclaimable")
_KERNEL = ("KernelStack", "PageTables", "SecPageTables", "Slab")


class NodeCollector(Collector):
    name = "node"

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: SkippedItems) -> Snapshot:
        """meminfo, numastat and the huge page counters of every node."""
        counters = read_counters(tick.host, tick.machine.online)
        nodes = tuple(to_node_memory(one, tick.machine.page_size) for one in counters)
        return replace(snapshot, nodes=nodes, huge_page_pools=read_huge_page_pools(tick.host))


def to_node_memory(counters: NodeCounters, page_size: int) -> NodeMemory:
    """Sort one node's counters into the types that containers have, all in bytes."""
    meminfo = counters.meminfo or {}
    numastat = counters.numastat
    return NodeMemory(
        node=counters.node,
        total=meminfo.get("MemTotal"),
        free=meminfo.get("MemFree"),
        resident=_resident(counters, meminfo),
        huge_pages=counters.huge_pages,
        reclaimable=_sum(meminfo, _RECLAIMABLE),
        unevictable=meminfo.get("Unevictable"),
        numastat=None if numastat is None else {key: pages * page_size for key, pages in numastat.items()},
    )


def _resident(counters: NodeCounters, meminfo: Mapping[str, int]) -> Resident:
    node = counters.node
    shmem, file = meminfo.get("Shmem"), meminfo.get("FilePages")
    return Resident(
        anon=_at(node, meminfo.get("AnonPages")),
        shmem=_at(node, shmem),
        file=_at(node, None if file is None or shmem is None else file - shmem),
        hugetlb=_at(node, _huge_bytes_in_use(counters)),
        kernel=_at(node, _sum(meminfo, _KERNEL)),
    )


def _sum(meminfo: Mapping[str, int], keys: tuple[str, ...]) -> int | None:
    found = [meminfo[key] for key in keys if key in meminfo]
    return sum(found) if found else None


def _huge_bytes_in_use(counters: NodeCounters) -> int | None:
    if not counters.huge_pages or any(pages.free is None for pages in counters.huge_pages):
        return None
    return sum((pages.total - (pages.free or 0)) * pages.page_size for pages in counters.huge_pages)


def _at(node: int, size: int | None) -> dict[int, int] | None:
    return None if size is None else {node: size}
