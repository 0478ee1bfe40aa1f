"""From which node were pages given to each container, and where was the CPU that asked?"""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.snapshot import Snapshot


class PageAllocCollector(Collector):
    name = "page_alloc"
    probe = PAGE_ALLOC

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """(CPU's node, page's node) -> bytes since the probe was loaded. Raises Unavailable when it does not run."""
        reading = tick.read(PAGE_ALLOC)
        skipped.not_counted(reading.all_lost, "allocations")
        return replace(snapshot, page_alloc=tick.owners.add_up("page_alloc", reading.by_node))
