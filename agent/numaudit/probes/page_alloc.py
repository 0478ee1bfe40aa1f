"""page_alloc: from which node pages were given, and to tasks on which node (bpf/page_alloc.bpf.c).

Allocation is not access: this says where pages came from, not from where they are used. It counts every page
given, the kernel's and the page cache's too, and nothing that is given back. A migration's target pages count
for the task that migrates. Pages of the huge page pool were given when the pool was filled: hugetlb is not here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from numaudit.errors import Unavailable
from numaudit.kernel import bpf, memory_blocks, perf_event
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, Map, sum_per_cpu
from numaudit.kernel.host import Host
from numaudit.kernel.memory_blocks import MemoryBlocks
from numaudit.probes import counters, reasons
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.reasons import Reason, Refusal

NAME = "page_alloc"
_TRACEPOINT = "kmem:mm_page_alloc"
_PROGRAM = "page_alloc_on_mm_page_alloc"
_KEY = "=QHHI"  # struct page_alloc_key
_UNKNOWN_NODE = 0xFFFF
_AMBIGUOUS_NODE = 0xFFFE
_ORDERS_PER_PAIR = 4
"""A container commonly uses the orders 0, 1, 2 and, with transparent huge pages, 9."""

NodePair = tuple[int, int | None]
"""CPU's node and page's node. None = the page's memory block lies on two nodes, or on none that sysfs shows."""


@dataclass(frozen=True, slots=True)
class AllocationsByNode:
    """What the tasks in each cgroup itself were given since load, by cgroup id. Descendants are not added."""

    by_node: Mapping[int, Mapping[NodePair, int]] = field(default_factory=dict)
    """Bytes."""
    by_order: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Bytes. One allocation of order n is 2^n pages."""
    failed: Mapping[int, int] = field(default_factory=dict)
    """Allocations that got no page; migrations that cannot succeed make most of them."""
    dropped: int = 0
    """Allocations not counted because the map was full."""
    missed: int = 0
    """Allocations not counted because another BPF program was running on that CPU."""

    @property
    def events(self) -> int:
        """How often the program ran for what is counted here."""
        page = os.sysconf("SC_PAGE_SIZE")
        given = sum(size // (page << order) for row in self.by_order.values() for order, size in row.items())
        return given + sum(self.failed.values()) + self.dropped

    def since(self, earlier: AllocationsByNode) -> AllocationsByNode:
        """What came between two reads. A cgroup without news is left out."""
        return AllocationsByNode(
            counters.added(self.by_node, earlier.by_node),
            counters.added(self.by_order, earlier.by_order),
            counters.added_to_row(self.failed, earlier.failed),
            self.dropped - earlier.dropped,
            self.missed - earlier.missed,
        )


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load for so many cgroups and nodes. Raises Refusal."""
    blocks = _read_blocks(host)
    page_size = os.sysconf("SC_PAGE_SIZE")
    return ProbeRequest(
        name=NAME,
        programs=(Program(_PROGRAM, ProgramType.TRACEPOINT, _TRACEPOINT),),
        maps=("page_alloc_bytes", "page_alloc_failed", "page_alloc_dropped", "page_alloc_node_of_block"),
        defines={
            "PAGE_ALLOC_ENTRIES": cgroups * nodes * _ORDERS_PER_PAIR,
            "PAGE_ALLOC_CGROUPS": cgroups,
            # Twice what there is now, so that memory that is plugged in later has its place.
            "PAGE_ALLOC_BLOCKS": 2 * blocks.count,
            "PAGE_ALLOC_BLOCK_SHIFT": (blocks.block_size // page_size).bit_length() - 1,
            "PAGE_ALLOC_PAGE_SIZE": page_size,
        },
    )


class PageAlloc:
    """The running probe. Reading raises OSError."""

    def __init__(self, host: Host, loaded: LoadedProbe) -> None:
        """Fill the table of memory blocks, then attach. Raises Refusal, and OSError when a map cannot be used."""
        self._host = host
        self._loaded = loaded
        self._bytes = Map.of(loaded.maps["page_alloc_bytes"], host)
        self._failed = Map.of(loaded.maps["page_alloc_failed"], host)
        self._dropped = Map.of(loaded.maps["page_alloc_dropped"], host)
        self._node_of_block = Map.of(loaded.maps["page_alloc_node_of_block"], host)
        self._table: list[int] = []
        self.refresh_blocks()
        self._event: int | None = _attach(host, loaded)

    def read(self) -> AllocationsByNode:
        """All counters since load."""
        dropped = [sum(sum_per_cpu(entries.values, self._dropped.cpus)) for entries in self._dropped.read()]
        return decode(
            self._bytes.read(),
            self._failed.read(),
            self._bytes.cpus,
            sum(dropped),
            bpf.read_program_info(self._loaded.programs[_PROGRAM]).misses,
        )

    def refresh_blocks(self) -> int:
        """Read again which node each memory block is on, for memory that was plugged in or out.

        The number of blocks beyond the table, whose pages count as of unknown node until the probe is loaded anew.
        """
        blocks = _read_blocks(self._host)
        table = node_table(blocks, self._node_of_block.info.max_entries)
        known = len(self._table)
        changes = {n: node for n, node in enumerate(table) if n >= known or node != self._table[n]}
        self._node_of_block.update_all({struct.pack("=I", n): struct.pack("=H", node) for n, node in changes.items()})
        self._table = table
        return max(0, blocks.count - len(table))

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every other cgroup, so that dead ones do not fill the maps; how many went."""
        return sum(
            one.delete(key)
            for one in (self._bytes, self._failed)
            for key in one.read_keys()
            if struct.unpack_from("=Q", key)[0] not in cgroups
        )

    def read_run_time(self) -> bpf.RunTime:
        """The kernel's account of the program; it counts only within `bpf.count_run_time`. Raises OSError."""
        return bpf.read_run_time(self._loaded.programs.values())

    @property
    def is_suspended(self) -> bool:
        return self._event is None

    def suspend(self) -> None:
        """Take the program off its hook; what was counted stays."""
        if self._event is not None:
            os.close(self._event)
            self._event = None

    def resume(self) -> None:
        """Put it back. Raises Refusal."""
        if self._event is None:
            self._event = _attach(self._host, self._loaded)

    def close(self) -> None:
        self.suspend()
        self._loaded.close()


def decode(
    entries: Iterable[Entries], failed: Iterable[Entries], cpus: int, dropped: int = 0, missed: int = 0
) -> AllocationsByNode:
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
    return AllocationsByNode(by_node, by_order, failures, dropped, missed)


def node_table(blocks: MemoryBlocks, size: int) -> list[int]:
    """Block number -> node as bpf/page_alloc.bpf.c reads it, for the first `size` blocks."""
    table = [_UNKNOWN_NODE] * size
    for block, nodes in blocks.nodes_of_block.items():
        if block < size:
            table[block] = next(iter(nodes)) if len(nodes) == 1 else _AMBIGUOUS_NODE
    return table


def _read_blocks(host: Host) -> MemoryBlocks:
    try:
        return memory_blocks.read(host)
    except Unavailable as error:
        raise Refusal(Reason.NO_MEMORY_BLOCKS, str(error)) from error


def _attach(host: Host, loaded: LoadedProbe) -> int:
    """The perf event that holds the program; one CPU's is enough, for a tracepoint's programs run on all CPUs."""
    try:
        number = loaded.tracepoint_ids[_TRACEPOINT]
        event = perf_event.open_event(perf_event.tracepoint(number), cpu=perf_event.any_cpu(host))
    except OSError as error:
        raise reasons.of_error(f"cannot open the tracepoint {_TRACEPOINT}", error) from error
    try:
        perf_event.set_program(event, loaded.programs[_PROGRAM])
        perf_event.enable(event)
    except OSError as error:
        os.close(event)
        raise reasons.of_error(f"cannot attach to the tracepoint {_TRACEPOINT}", error) from error
    return event
