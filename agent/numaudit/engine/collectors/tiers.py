"""Switches of moves between memory tiers."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.kernel.memory import tiers
from numaudit.snapshot import Snapshot


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
