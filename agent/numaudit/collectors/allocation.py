"""From which node were pages given to each container, and where was the CPU that asked?"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.collectors.base import Skipped, require_v2
from numaudit.collectors.owners import Owners
from numaudit.kernel.cgroup import Hierarchies
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId


@dataclass(frozen=True, slots=True)
class Allocation:
    """Reads the probe's bytes and adds up each container's cgroups."""

    session: Session
    hierarchies: Hierarchies
    owners: Owners

    def collect(self, skipped: Skipped) -> dict[ContainerId, dict[tuple[int, int | None], int]]:
        """(CPU's node, page's node) -> bytes since the probe was loaded. Raises Unavailable when it does not run."""
        require_v2(self.hierarchies)
        read = self.session.read_page_alloc()
        lost = read.dropped + read.missed
        if lost:
            skipped.lose(lost, "allocations were not counted: the map was full, or another BPF program was running")
        return self.owners.add_up("page_alloc", read.by_node)
