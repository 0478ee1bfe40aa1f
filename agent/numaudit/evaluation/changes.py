"""Containers that have not changed since the previous tick, whose conclusions are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from numaudit.snapshot import ContainerId, Snapshot

_Rows = Mapping[ContainerId, Any] | None
OF_THE_HOST = ("machine", "cgroup_mode", "is_whole_host", "intent", "penalty", "process_accesses")
"""Fields that the conclusions on any container depend on."""
OF_NO_CONTAINER = (
    "taken_at",
    "nodes",
    "huge_page_pools",
    "swap",
    "tiers",
    "interleave_weights",
    "unattributed",
    "rank_round",
    "overhead",
    "probes",
)
"""Fields whose change leaves a container's conclusions as they are, but for causes: those read which nodes are full."""
_SPECIAL = ("containers", "outcomes", "numa_balancing")
OF_CONTAINERS = tuple(
    name for name in Snapshot.__struct_fields__ if name not in {*OF_THE_HOST, *OF_NO_CONTAINER, *_SPECIAL}
)
"""All other fields have a row for each container, and only its own conclusions depend on it."""


def _kernels_own(snapshot: Snapshot) -> _Rows:
    return None if snapshot.numa_balancing is None else snapshot.numa_balancing.by_container


_ROWS: tuple[Callable[[Snapshot], _Rows], ...] = (*map(attrgetter, OF_CONTAINERS), _kernels_own)
_host = attrgetter(*OF_THE_HOST)


def unchanged(now: Snapshot, before: Snapshot | None) -> frozenset[ContainerId]:
    """Containers of which both snapshots say the same, on a host that is the same where it matters to them all.

    None of those whose mappings were read: they name other containers, which may have changed.
    """
    if before is None or _host(now) != _host(before) or why_no_intent(now) != why_no_intent(before):
        return frozenset()
    if now.containers is before.containers:
        same = {one.id for one in now.containers}
    else:
        known = {one.id: one for one in before.containers}
        same = {one.id for one in now.containers if one is known.get(one.id) or one == known.get(one.id)}
    for rows in _ROWS:
        latest, earlier = rows(now), rows(before)
        if latest is earlier:
            continue
        if latest is None or earlier is None:
            return frozenset()
        same -= earlier.keys() - latest.keys()
        same.difference_update(
            [id_ for id_, row in latest.items() if row is not (old := earlier.get(id_)) and row != old]
        )
    return frozenset(same - now.numa_maps.keys())


def why_no_intent(snapshot: Snapshot) -> str | None:
    """Reason why the kubelet's promises were not read; None = they were, or nobody asked."""
    return next((one.reason for one in snapshot.outcomes if one.source == "intent" and one.reason), None)
