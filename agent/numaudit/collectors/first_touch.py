"""On which node did each container's pages come into being, and where was the CPU that first used them?"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.collectors.base import Skipped, require_v2
from numaudit.collectors.owners import Owners
from numaudit.kernel.cgroup import Hierarchies
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId


@dataclass(frozen=True, slots=True)
class FirstTouch:
    """Reads the probe's samples and adds up each container's cgroups."""

    session: Session
    hierarchies: Hierarchies
    owners: Owners

    def collect(self, skipped: Skipped) -> dict[ContainerId, dict[tuple[int, int | None], int]]:
        """(CPU's node, page's node) -> samples since the probe was opened. Raises Unavailable when it does not run."""
        require_v2(self.hierarchies)
        read = self.session.read_first_touch()
        if read.lost:
            skipped.lose(read.lost, "samples of first uses were lost: the ring was full before it was read")
        if read.without_address:
            skipped.lose(read.without_address, "samples of first uses named no page: it was gone by then")
        if read.throttled:
            skipped.lose(read.throttled, "times the kernel stopped sampling for a while, for it came too often")
        return self.owners.add_up("first_touch", read.samples)
