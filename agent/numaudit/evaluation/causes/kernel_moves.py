"""Memory that the kernel moves of its own accord: demoted to slower memory tiers, whatever was promised; and pages that
NUMA balancing wanted to bring to the CPU that used them, and could not.

The kernel counts by cgroup and node what it demotes (pgdemote_*, pgpromote_success), since the cgroup was made, so
nobody need have watched. It counts page cache too, and what was freed since; so it explains at most the judged bytes
that are on slower nodes now, and none that page cache there explains.
"""

from __future__ import annotations

from typing import NamedTuple

from numaudit.evaluation.causes.placement import bytes_outside
from numaudit.evaluation.rates import increase
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Sampled
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units


class Demotion(NamedTuple):
    """Of one container, seen from the nodes where its memory should be. In bytes."""

    nodes: NodeSet
    """Slower nodes that its memory may have been demoted to from those, and that it should not be on."""
    there: int
    """Judged bytes on them now."""
    demoted: int | None
    """Bytes that left the wanted nodes since the cgroup was made; None = this kernel does not count by cgroup."""
    promoted: int | None
    """Bytes that came back to them."""
    cache: int = 0
    """Page cache on the slower nodes, which may be what was demoted."""

    @property
    def explained(self) -> int:
        """Bytes of those there that demotion explains, at most: what its page cache there does not."""
        return min(self.there, max(0, (self.demoted or 0) - (self.promoted or 0) - self.cache))

    @property
    def counters(self) -> str:
        """In words."""
        if self.demoted is None:
            return "this kernel does not count by cgroup what it demotes"
        back = in_units(self.promoted or 0) if self.promoted else "nothing"
        return f"by its counters {in_units(self.demoted)} were demoted from there and {back} came back"


def slower_nodes(wanted: NodeSet, snapshot: Snapshot) -> NodeSet:
    """Nodes of slower tiers than some of the wanted ones, without those; empty where there is a single tier."""
    tiers = snapshot.machine.tiers
    return NodeSet() if tiers is None else tiers.below(wanted) - wanted


def demotion(container: ContainerId, wanted: NodeSet, snapshot: Snapshot) -> Demotion | None:
    """None = nothing can be demoted from the wanted nodes, or its memory is not known."""
    if snapshot.machine.tiers is None:
        return None
    resident, nodes = snapshot.residency.get(container), slower_nodes(wanted, snapshot)
    if resident is None or not nodes:
        return None
    there = bytes_outside(resident.judged, snapshot.machine.online - nodes)
    moved = [
        None if by_node is None else sum(size for node, size in by_node.items() if node in wanted)
        for by_node in (resident.demoted, resident.promoted)
    ]
    cache = sum(size for node, size in (resident.file or {}).items() if node in nodes)
    return Demotion(nodes, there, moved[0], moved[1], cache)


_NO_SAMPLES = Sampled({})


def failed_moves(snapshot: Snapshot, container: ContainerId, before: Snapshot | None = None) -> tuple[int, int] | None:
    """Pages that NUMA balancing wanted to bring to the CPU's node: those it could not, and those it did.

    By hint faults, else by the migrations themselves; None when neither is measured.
    """
    if snapshot.hint_faults is None and snapshot.migrations is None:
        return None
    sampled = _sampled(snapshot, container)
    earlier = None if before is None else _sampled(before, container)
    if sampled is not None and sampled.is_watched and (before is None or earlier is not None):
        # Few kinds of faults are any of these.
        kinds = {fault: count for fault, count in sampled.faults.items() if fault.could_not_move or fault.has_moved}
        faults = increase(kinds, None if earlier is None else earlier.faults)
        failed = sum([count for fault, count in faults.items() if fault.could_not_move])
        return failed, sum([count for fault, count in faults.items() if fault.has_moved])
    if snapshot.migrations is None or (before is not None and before.migrations is None):
        return None
    moved = increase(_misplaced(snapshot, container), _misplaced(before, container))
    return moved["failed"], moved["succeeded"]


def _sampled(snapshot: Snapshot, container: ContainerId) -> Sampled | None:
    """A container that the running probe saw nothing of had no samples; None = the probe does not run."""
    return None if snapshot.hint_faults is None else snapshot.hint_faults.get(container, _NO_SAMPLES)


def _misplaced(snapshot: Snapshot | None, container: ContainerId) -> dict[str, int]:
    migrated = None if snapshot is None or snapshot.migrations is None else snapshot.migrations.get(container)
    pages = None if migrated is None else migrated.pages.get("numa_misplaced")
    return {"failed": 0, "succeeded": 0} if pages is None else {"failed": pages.failed, "succeeded": pages.succeeded}
