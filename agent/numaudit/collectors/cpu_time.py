"""On which node's CPUs did each container run?"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.collectors.base import Skipped, require_v2
from numaudit.collectors.owners import Owners
from numaudit.kernel.cgroup import Hierarchies
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Reads the probe's times and adds up each container's cgroups."""

    session: Session
    hierarchies: Hierarchies
    owners: Owners

    def collect(self, skipped: Skipped) -> dict[ContainerId, dict[int, float]]:
        """Seconds by node since the probe was loaded. Raises Unavailable when it does not run."""
        require_v2(self.hierarchies)
        read = self.session.read_cpu_time()
        if read.dropped:
            skipped.lose(read.dropped, "intervals were not counted, since the map of the probe was full")
        sums = self.owners.add_up("cpu_time", read.by_node)
        return {owner: {node: ns / _NANOSECONDS for node, ns in row.items()} for owner, row in sums.items()}
