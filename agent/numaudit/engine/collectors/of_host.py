"""The kernel's figures of the host: each node's memory, memory tiers, swap and what each container may use of it, its
settings, and NUMA balancing, of which memory.stat has those of containers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.host import read_bytes
from numaudit.kernel.host_settings import read_host_settings
from numaudit.kernel.memory import tiers
from numaudit.kernel.memory.numa_balancing import parse, read_mode, read_vmstat
from numaudit.kernel.node import NodeCounters, read_counters, read_huge_page_pools
from numaudit.snapshot import Balancing, ContainerId, NodeMemory, Resident, Snapshot, Swap
from numaudit.snapshot.host_settings import HostSettings

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


@dataclass(slots=True)
class TiersCollector(Collector):
    name = "tiers"
    _keeps_cpuset: bool | None = None
    _was_asked: bool = False

    def is_due(self, tick: TickInputs) -> bool:
        """Nothing is demoted from a single tier."""
        return tick.machine.is_tiered

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: SkippedItems) -> Snapshot:
        """The switches now; what the kernel is able to stays as it is."""
        if not self._was_asked:
            self._was_asked = True
            self._keeps_cpuset = tiers.keeps_cpuset(tick.host) if tick.reader.hierarchies.is_v2 else False
        settings = tiers.read_settings(tick.host)
        return replace(snapshot, tiers=replace(settings, keeps_cpuset=self._keeps_cpuset))


AGAIN_IN_A_TICK = 50
"""Limits that a tick reads again; a limit is set once, when its container is made."""


@dataclass(slots=True)
class SwapCollector(Collector):
    name = "swap"
    _limits: dict[ContainerId, int | None] = field(default_factory=dict)
    """The one that was read longest ago comes first."""

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Most Kubernetes nodes have no swap; then no cgroup is asked."""
        space = tiers.read_swap(tick.host)
        if space is None:
            return snapshot
        total, free = space
        if total and tick.reader.hierarchies.is_v2:
            self._read(tick, skipped)
        else:
            self._limits.clear()
        return replace(snapshot, swap=Swap(total, free, dict(self._limits)))

    def _read(self, tick: TickInputs, skipped: SkippedItems) -> None:
        here = {container.id: path for container, path in tick.census.with_folders() if container.whole}
        self._limits = {id_: limit for id_, limit in self._limits.items() if id_ in here}
        again = list(self._limits)[:AGAIN_IN_A_TICK]
        for id_ in (*(one for one in here if one not in self._limits), *again):
            self._limits.pop(id_, None)
            try:
                self._limits[id_] = tiers.limit_of(str(tick.reader.hierarchies.memory), here[id_], tick.reader.read)
            except (OSError, ParseError) as error:
                skipped.count(error)


SETTINGS_AGAIN = 3600.0
"""Seconds until settings of the kernel and facts of the firmware are read again."""


@dataclass(slots=True)
class SettingsCollector(Collector):
    name = "settings"
    _found: HostSettings | None = None
    _read_at: float = 0.0
    """By the monotonic clock."""

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: SkippedItems) -> Snapshot:
        """Those of up to an hour ago: they hardly ever change."""
        now = time.monotonic()
        if self._found is None or now - self._read_at >= SETTINGS_AGAIN:
            self._found, self._read_at = read_host_settings(tick.host), now
        return replace(snapshot, settings=self._found)


_RECLAIMABLE = ("Active(file)", "Inactive(file)", "SReclaimable")
_KERNEL_HELD = ("KernelStack", "PageTables", "SecPageTables", "SUnreclaim")
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
        kernel_held=_sum(meminfo, _KERNEL_HELD),
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
