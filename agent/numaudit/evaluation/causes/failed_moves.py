"""Pages that NUMA balancing wanted to bring to the CPU that used them: how many it could not move."""

from __future__ import annotations

from numaudit.counted import Sampled
from numaudit.evaluation.rates import increase
from numaudit.snapshot import ContainerId, Snapshot

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
