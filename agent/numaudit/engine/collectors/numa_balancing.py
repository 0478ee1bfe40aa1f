"""The kernel's own counters of NUMA balancing and migrations, without any BPF program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.memory_stat import AT_ONCE, MemoryStats, root_is_shown
from numaudit.errors import Unavailable
from numaudit.kernel.memory.numa_balancing import read_mode, read_vmstat
from numaudit.snapshot import Balancing, ContainerId, Snapshot


@dataclass(slots=True)
class NumaBalancingCollector(Collector):
    name = "numa_balancing"
    _stats: MemoryStats = field(default_factory=MemoryStats)

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Of the host, and of each container where the kernel shows them.

        Raises Unavailable when the kernel has no NUMA balancing, OSError when /proc/vmstat cannot be read.
        """
        mode = read_mode(tick.host)
        if mode is None:
            raise Unavailable("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING)")
        by_container: Mapping[ContainerId, Mapping[str, int]] = {}
        if mode.flags and root_is_shown(tick.reader.hierarchies):
            most = None if tick.readings is None else AT_ONCE
            by_container = self._stats.read(tick.census, tick.reader.hierarchies, most, skipped)
        return replace(snapshot, numa_balancing=Balancing(read_vmstat(tick.host), by_container))
