"""The node of a tick as its scheduler should know it."""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.nrt.describe import topology_of
from numaudit.nrt.topology import NodeTopology
from numaudit.snapshot import Snapshot


def topology_here(
    snapshot: Snapshot, name: str, latencies: Mapping[tuple[int, int], float] | None = None
) -> NodeTopology | None:
    """`name`: of the Node object; `latencies`: as `topology_of` takes them, where they were measured.

    None = too little is known of the kubelet to foresee what it admits, or there is none.
    """
    intent = snapshot.intent
    room = None if intent is None else intent.room
    if intent is None or room is None:
        return None
    if room.kubelet.memory_policy != "None" and not intent.machine:
        return None  # its checkpoint is missing or damaged, so the state is that of a kubelet without promises
    free = {one.node: one.free for one in snapshot.nodes if one.free is not None}
    return topology_of(name, room.kubelet, room.state, free=free or None, latencies=latencies, unplaced=room.unplaced)
