"""Devices that the Device Manager gives to a container and takes back.

Source: pkg/kubelet/cm/devicemanager/manager.go. Among devices that serve alike a kubelet takes any (a Go
set has no order); here it is the lowest id, and `DeviceState.undecided` has all that it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from numaudit.containermanager.device.hints import DeviceIds, DeviceState
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.encoding.go_syntax import quote
from numaudit.topology.nodeset import NodeSet


class ByAffinity(NamedTuple):
    """Devices by how they lie to the nodes of a hint."""

    aligned: DeviceIds
    unaligned: DeviceIds
    no_affinity: DeviceIds


def split_by_affinity(state: DeviceState, resource: str, available: DeviceIds, affinity: NodeSet | None) -> ByAffinity:
    """Aligned = on some node of the hint, no affinity = on no node at all, unaligned = the rest.

    Without a hint, or when no device of the resource has a node, everything has no affinity.
    """
    if affinity is None or not state.has_topology(resource):
        return ByAffinity(frozenset(), frozenset(), available)
    places = {one: device.nodes for one, device in state.known(resource).items()}
    placed = {one: nodes for one in available if (nodes := places.get(one))}
    aligned = frozenset(one for one, nodes in placed.items() if not nodes.isdisjoint(affinity))
    return ByAffinity(aligned, frozenset(placed) - aligned, available - frozenset(placed))


def allocate(
    state: DeviceState,
    uid: str,
    name: str,
    requests: Mapping[str, int],
    affinity: NodeSet | None,
    *,
    ordinary_init: bool = False,
    runs_since_before: bool = False,
) -> DeviceState:
    """Give a container its devices, near the nodes of the merged hint (None = anywhere).

    `requests` is resource name -> number; `ordinary_init` tells that a later container may take over
    what this one gets; `runs_since_before` that the container was running when the kubelet restarted
    and the kubelet does not know all pods yet. Raises AdmissionError.
    """
    reusable = {uid: dict(state.reusable.get(uid, {}))}
    state = replace(state, reusable=reusable)
    held = dict(state.entries.get(uid, {}).get(name, {}))
    undecided = dict(state.undecided.get(uid, {}).get(name, {}))
    for resource, count in requests.items():
        if _is_settled(state, uid, name, resource, count, runs_since_before=runs_since_before):
            continue
        held[resource], alike = _choose(state, uid, resource, count, affinity)
        undecided[resource] = _with_undecided(state, resource, held[resource], alike)
    if held:
        containers = {**state.entries.get(uid, {}), name: held}
        open_ = {**state.undecided.get(uid, {}), name: undecided}
        state = replace(state, entries={**state.entries, uid: containers}, undecided={**state.undecided, uid: open_})
    for resource, ids in held.items():
        before = reusable[uid].get(resource, frozenset())
        reusable[uid][resource] = before | ids if ordinary_init else before - ids
    return state


def remove_stale(state: DeviceState, active: Collection[str]) -> DeviceState:
    """Take back what pods hold that are not among the active pods' UIDs."""
    return replace(
        state,
        entries={uid: held for uid, held in state.entries.items() if uid in active},
        undecided={uid: alike for uid, alike in state.undecided.items() if uid in active},
    )


def _is_settled(state: DeviceState, uid: str, name: str, resource: str, count: int, *, runs_since_before: bool) -> bool:
    """Is there nothing to choose for this resource? Raises AdmissionError when there can be no choice."""
    held = state.entries.get(uid, {}).get(name, {}).get(resource)
    if held is not None and len(held) != count:
        raise AdmissionError(
            f"pod {quote(uid)} container {quote(name)} changed request for resource {quote(resource)} "
            f"from {len(held)} to {count}"
        )
    if runs_since_before:
        return True
    if resource not in state.plugins:
        raise AdmissionError(f"cannot allocate unregistered device {resource}")
    healthy = state.healthy(resource)
    if not healthy:
        raise AdmissionError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if held is not None and not held <= healthy:
        raise AdmissionError(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )
    return held is not None or count == 0


def _choose(
    state: DeviceState, uid: str, resource: str, count: int, affinity: NodeSet | None
) -> tuple[DeviceIds, DeviceIds]:
    """Reusable ones first, then aligned ones, then the others; and those among which a kubelet takes any.

    What plugins answer to GetPreferredAllocation is not known: one may prefer any of the devices that are not aligned.
    """
    reusable = state.reusable[uid].get(resource, frozenset())
    needed = count - len(reusable)
    if needed <= 0:
        return _first(count, [reusable])
    available = state.available(resource)
    if len(available) < needed:
        raise AdmissionError(
            f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(available)}"
        )
    aligned, unaligned, no_affinity = split_by_affinity(state, resource, available, affinity)
    if needed < len(aligned):
        return _first(count, [reusable, aligned])
    chosen, alike = _first(count, [reusable, aligned, unaligned, no_affinity])
    others = unaligned | no_affinity
    return chosen, others if chosen & others and not others <= chosen else alike


def _first(count: int, sets: Iterable[DeviceIds]) -> tuple[DeviceIds, DeviceIds]:
    """The first ones of these sets, in turn, inside a set by id; and the set of which only some are taken."""
    chosen: DeviceIds = frozenset()
    for ids in sets:
        left, fresh = count - len(chosen), ids - chosen
        if left < len(fresh):
            return chosen | frozenset(sorted(fresh)[:left]), fresh if left else frozenset()
        chosen |= fresh
    return chosen, frozenset()


def _with_undecided(state: DeviceState, resource: str, chosen: DeviceIds, alike: DeviceIds) -> DeviceIds:
    """A device that may be another container's is undecided here, too, together with what that one may have."""
    others = [held[resource] for one in state.undecided.values() for held in one.values() if held.get(resource)]
    before = None
    while alike != before:
        before = alike
        alike = alike.union(*(one for one in others if one & (alike | chosen)))
    return alike
