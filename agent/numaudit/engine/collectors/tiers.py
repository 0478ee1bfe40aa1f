"""Places to which the kernel may move memory: switches of moves between memory tiers; swap of the host, and what each
container may use of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import ParseError
from numaudit.kernel.memory import tiers
from numaudit.snapshot import ContainerId, Snapshot, Swap


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
