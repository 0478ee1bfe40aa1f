"""On which node's CPUs did each container run?"""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.snapshot import Snapshot

_NANOSECONDS = 1_000_000_000


class CpuTimeCollector(Collector):
    name = "cpu_time"
    probe = CPU_TIME

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Seconds by node since the probe was loaded. Raises Unavailable when it does not run."""
        reading = tick.read(CPU_TIME)
        if dropped := reading.lost.get("map-full"):
            skipped.lose(dropped, "intervals were not counted, since the map of the probe was full")
        sums = tick.owners.add_up("cpu_time", reading.by_node)
        seconds = {owner: {node: ns / _NANOSECONDS for node, ns in row.items()} for owner, row in sums.items()}
        return replace(snapshot, cpu_time=seconds)
