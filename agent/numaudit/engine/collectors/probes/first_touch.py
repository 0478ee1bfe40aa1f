"""On which node did each container's pages come into being, and where was the CPU that first used them?"""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.probes.first_touch import FIRST_TOUCH
from numaudit.snapshot import Snapshot


class FirstTouchCollector(Collector):
    name = "first_touch"
    probe = FIRST_TOUCH

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """(CPU's node, page's node) -> samples since the probe was opened. Raises Unavailable when it does not run."""
        reading = tick.read(FIRST_TOUCH)
        for count, text in (
            (reading.lost.get("ring-full"), "samples of first uses were lost: the ring was full before it was read"),
            (reading.lost.get("no-address"), "samples of first uses named no page: it was gone by then"),
            (reading.throttled, "times the kernel stopped sampling for a while, for it came too often"),
        ):
            if count:
                skipped.lose(count, text)
        return replace(snapshot, first_touch=tick.owners.add_up("first_touch", reading.samples))
