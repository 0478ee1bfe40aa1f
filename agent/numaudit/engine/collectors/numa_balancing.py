"""The kernel's own counters of NUMA balancing and migrations, without any BPF program: of the host, and by container
from memory.stat, some of the files in each tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.host import read_bytes
from numaudit.kernel.memory.numa_balancing import parse, read_mode, read_vmstat
from numaudit.snapshot import Balancing, ContainerId, Snapshot

AT_ONCE = 250
"""Files that a tick reads where ticks follow each other: the kernel takes 20 us to write one."""


@dataclass(slots=True)
class MemoryStats:
    """Reads those that were not read for longest, and has the last values of the others."""

    _read_in: dict[ContainerId, int] = field(default_factory=dict)
    """Container -> the tick that read it."""
    _values: dict[ContainerId, Mapping[str, int]] = field(default_factory=dict)
    _ticks: int = 0

    def read(
        self, census: Census, hierarchies: Hierarchies, most: int | None, skipped: SkippedItems
    ) -> dict[ContainerId, Mapping[str, int]]:
        """The counters of each whole container that was read by now. `most` None = read all now."""
        self._ticks += 1
        containers = [one.id for one in census.containers if one.whole]
        for id_ in sorted(containers, key=lambda one: self._read_in.get(one, 0))[:most]:
            self._read_in[id_] = self._ticks
            try:
                self._values[id_] = _read(hierarchies, census.folder(id_))
            except (OSError, ValueError) as error:
                self._values.pop(id_, None)
                skipped.count(error)
        here = set(containers)
        self._read_in = {id_: tick for id_, tick in self._read_in.items() if id_ in here}
        self._values = {id_: values for id_, values in self._values.items() if id_ in here}
        return dict(self._values)


def root_is_shown(hierarchies: Hierarchies) -> bool:
    """Has this kernel the counters in memory.stat at all? The root cgroup is the quickest to ask."""
    try:
        return hierarchies.is_v2 and bool(_read(hierarchies, ""))
    except FileNotFoundError:
        return False


def _read(hierarchies: Hierarchies, path: str) -> Mapping[str, int]:
    """Of one cgroup. Raises OSError, ParseError. No descriptor is kept: the files of each tick need those."""
    return parse(read_bytes(f"{hierarchies.memory}{path}/memory.stat").decode("ascii", "replace"))


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
