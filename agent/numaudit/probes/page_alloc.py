"""page_alloc: from which node pages were given, and to tasks on which node (bpf/page_alloc.bpf.c).

Allocation is not access: this says where pages came from, not from where they are used. It counts every page
given, the kernel's and the page cache's too, and nothing that is given back. A migration's target pages count
for the task that migrates. Pages of the huge page pool were given when the pool was filled: hugetlb is not here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory import physical
from numaudit.kernel.memory.physical import MemoryBlocks
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import MapEntries, sum_per_cpu
from numaudit.probes.bpf_probe import BpfProbe
from numaudit.probes.loading.loader import BpfProgram, ProbeRequest
from numaudit.probes.probe import Loss, NodePair, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal, Reason

_TRACEPOINT = "kmem:mm_page_alloc"
_FIELDS = {"PAGE_ALLOC_PFN": "pfn", "PAGE_ALLOC_ORDER": "order"}
_PROGRAM = "page_alloc_on_mm_page_alloc"
_KEY = "=QHHI"  # struct page_alloc_key
_UNKNOWN_NODE = 0xFFFF
_AMBIGUOUS_NODE = 0xFFFE
_ORDERS_PER_PAIR = 4
"""A container commonly uses the orders 0, 1, 2 and, with transparent huge pages, 9."""


@dataclass(frozen=True, slots=True)
class Allocations(Reading):
    """Memory allocated to the tasks in each cgroup since load."""

    by_node: Mapping[int, Mapping[NodePair, int]] = field(default_factory=dict)
    """Bytes."""
    by_order: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Bytes. One allocation of order n is 2^n pages."""
    failed: Mapping[int, int] = field(default_factory=dict)
    """Allocations that got no page; migrations that cannot succeed make most of them."""
    counted_by = ("by_order", "failed")

    @property
    def events(self) -> int:
        page = os.sysconf("SC_PAGE_SIZE")
        given = sum(size // (page << order) for row in self.by_order.values() for order, size in row.items())
        return given + sum(self.failed.values()) + self.lost.get("map-full", 0)


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """Request for the loader. Raises ProbeRefusal."""
    blocks = _read_blocks(host)
    page_size = os.sysconf("SC_PAGE_SIZE")
    return ProbeRequest(
        name="page_alloc",
        programs=(BpfProgram(_PROGRAM, ProgramType.TRACEPOINT, _TRACEPOINT, fields=_FIELDS),),
        maps=("page_alloc_bytes", "page_alloc_failed", "page_alloc_node_of_block"),
        entries={
            "page_alloc_bytes": cgroups * nodes * _ORDERS_PER_PAIR,
            "page_alloc_failed": cgroups,
            # Twice the present number, so that memory that is plugged in later has its place.
            "page_alloc_node_of_block": 2 * blocks.count,
        },
        numbers={
            "PAGE_ALLOC_BLOCK_SHIFT": (blocks.block_size // page_size).bit_length() - 1,
            "PAGE_ALLOC_PAGE_SIZE": page_size,
        },
    )


class PageAlloc(BpfProbe):
    """The running probe."""

    tables = ("bytes", "failed")
    _table: list[int]

    def read(self) -> Allocations:
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": self._missed([_PROGRAM])}
        return decode(self._maps["bytes"].read(), self._maps["failed"].read(), self._maps["bytes"].cpus, lost)

    def refresh_blocks(self) -> int:
        """Read again which node each memory block is on, for memory that was plugged in or out.

        The number of blocks beyond the table, whose pages count as of unknown node until the probe is loaded again.
        """
        blocks = _read_blocks(self._host)
        node_of_block = self._maps["node_of_block"]
        table = node_table(blocks, node_of_block.info.max_entries)
        known = len(self._table)
        changes = {n: node for n, node in enumerate(table) if n >= known or node != self._table[n]}
        node_of_block.update_all({struct.pack("=I", n): struct.pack("=H", node) for n, node in changes.items()})
        self._table = table
        return max(0, blocks.count - len(table))

    def _prepare(self) -> None:
        self._table = []
        self.refresh_blocks()

    def _attach(self) -> None:
        self._attach_tracepoint(_TRACEPOINT, _PROGRAM)


PAGE_ALLOC = ProbeKind("page_alloc", request, PageAlloc, ns_per_event=200.0, in_agent=False, pause_order=1)


def decode(
    entries: Iterable[MapEntries], failed: Iterable[MapEntries], cpus: int, lost: Mapping[Loss, int] | None = None
) -> Allocations:
    """Map entries as the kernel packs them, per-CPU values of `cpus` u64, into sums by cgroup."""
    by_node: dict[int, dict[NodePair, int]] = {}
    by_order: dict[int, dict[int, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        for (cgroup, cpu_node, page_node, order), size in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            pair = (cpu_node, page_node if page_node < _AMBIGUOUS_NODE else None)
            row = by_node.setdefault(cgroup, {})
            row[pair] = row.get(pair, 0) + size
            orders = by_order.setdefault(cgroup, {})
            orders[order] = orders.get(order, 0) + size
    failures: dict[int, int] = {}
    for chunk in failed:
        keys = struct.iter_unpack("=Q", chunk.keys)
        failures.update((key, count) for (key,), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True))
    return Allocations(by_node, by_order, failures, lost=lost or {})


def node_table(blocks: MemoryBlocks, size: int) -> list[int]:
    """Block number -> node as bpf/page_alloc.bpf.c reads it, for the first `size` blocks."""
    table = [_UNKNOWN_NODE] * size
    for block, nodes in blocks.nodes_of_block.items():
        if block < size:
            table[block] = next(iter(nodes)) if len(nodes) == 1 else _AMBIGUOUS_NODE
    return table


def _read_blocks(host: Host) -> MemoryBlocks:
    try:
        return physical.read(host)
    except Unavailable as error:
        raise ProbeRefusal(Reason.NO_MEMORY_BLOCKS, str(error)) from error
