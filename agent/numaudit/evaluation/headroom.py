"""Memory that no promise covers, and what it takes away from those that do.

The Memory Manager counts promises only: a Burstable container, or a service, may fill a node that is free by the
memory map. What is reserved for the system is there for it; beyond that it is in the way of new promises first, and
then of those that were made.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from numaudit.containermanager.memory.state import MemoryTable, table_of
from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.errors import InputError
from numaudit.intent.node import Intent
from numaudit.snapshot import ContainerId, Snapshot

UNCOVERED_BYTES, UNCOVERED_SHARE = 64 << 20, 0.01
"""Memory beyond a node's reservation is worth a word where it is more than both, the share being of the node."""
_NOT_RECLAIMED = ("anon", "shmem")
"""Page cache makes room when memory is asked for, and huge pages come from pools of their own."""


class Unpromised(Struct, frozen=True):
    """Memory on one node that no promise covers, in bytes."""

    held: int
    """anon + shmem of containers without a promise, services and the root cgroup: at least this."""
    in_free: int
    """Of these, beyond what the system's reservation takes: in memory that the map offers to new containers."""
    in_reserved: int
    """Of these, beyond even that: in memory that was promised, and that its container may not have used yet."""


def unpromised_by_node(snapshot: Snapshot) -> dict[int, Unpromised]:
    """By node of the memory map. Empty where there is no map, or no container's memory could be read."""
    intent = snapshot.intent
    if intent is None or not intent.machine or not snapshot.residency:
        return {}
    held = held_without_promise(snapshot)
    found: dict[int, Unpromised] = {}
    for node in intent.machine:
        try:
            found[node] = _against(table_of(intent.machine, node, MEMORY), held.get(node, 0))
        except InputError:  # a node without any memory; `state verify` reports it
            continue
    return found


def held_without_promise(snapshot: Snapshot, besides: Set[ContainerId] = frozenset()) -> dict[int, int]:
    """anon + shmem by node of containers without a promise, services and the root cgroup, but not of `besides`."""
    intent = snapshot.intent or Intent()
    others = [of for id_, of in snapshot.residency.items() if id_ not in besides and not _has_promise(id_, intent)]
    if snapshot.unattributed is not None:
        others.append(snapshot.unattributed)
    held: dict[int, int] = {}
    for one in others:
        for node, size in one.sum_of(_NOT_RECLAIMED).items():
            held[node] = held.get(node, 0) + size
    return held


def is_uncovered(one: Unpromised, node: int) -> bool:
    """Is much more in use than is reserved? `node`: bytes of the node's memory."""
    return one.in_free + one.in_reserved > max(UNCOVERED_BYTES, UNCOVERED_SHARE * node)


def unpromised_holders(snapshot: Snapshot, node: int, most: int = 3) -> list[tuple[str, int]]:
    """Containers and services that hold the most of it on one node, with their bytes."""
    intent = snapshot.intent or Intent()
    found = [
        (full_name(one.namespace, one.pod, one.pod_uid, one.name) if one.pod_uid else one.path, size)
        for one in snapshot.containers
        if one.id in snapshot.residency
        and not _has_promise(one.id, intent)
        and (size := snapshot.residency[one.id].sum_of(_NOT_RECLAIMED).get(node, 0))
    ]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:most]


def _against(table: MemoryTable, held: int) -> Unpromised:
    beyond = max(0, held - table.system_reserved)
    return Unpromised(held, min(beyond, table.free), max(0, min(beyond - table.free, table.reserved)))


def _has_promise(container: ContainerId, intent: Intent) -> bool:
    found = intent.by_cgroup.get(container)
    return found is not None and bool(found.promise.memory_nodes)
