"""Memory that the kernel can move off full nodes, to swap or to a slower memory tier, so that it need not kill. Pure.

Page cache is not counted: the kernel drops it. Neither are huge pages, which stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaudit.snapshot import ContainerId, NodeMemory, Snapshot
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_MOVED = ("anon", "shmem")


class Movable(NamedTuple):
    """anon + shmem on some nodes, in bytes."""

    held: int
    """All of it; what is not known adds nothing."""
    locked: int
    """Memory there that may not be moved (Unevictable): locked by mlock(2), and such."""
    to_swap: int | None
    """Of it, what fits into free swap and whose cgroups may use that; None = not known."""
    why_no_swap: str
    to_slower: int
    """Of it, what fits into slower memory and may go there."""
    slower: NodeSet
    why_not_slower: str

    @property
    def at_most(self) -> int:
        """Bytes of it that the kernel can move away."""
        return min(max(0, self.held - self.locked), (self.to_swap or 0) + self.to_slower)

    @property
    def in_words(self) -> str:
        """Its figures, as the end of a sentence about room."""
        locked = f"; {in_units(self.locked)} there are locked" if self.locked else ""
        if not self.held:
            return ""
        if not self.at_most:
            why = [self.why_no_swap] if not self.to_swap else []
            why += [self.why_not_slower] if not self.to_slower else []
            said = f": {' and '.join(why)}" if why else ""
            return f"; {in_units(self.held)} of anon and shmem there cannot be moved away{said}{locked}"
        where = [f"{in_units(self.to_swap)} to swap"] if self.to_swap else []
        where += [f"{in_units(self.to_slower)} to the slower {self.slower.in_words}"] if self.to_slower else []
        most = f"at most {in_units(self.at_most)} can be moved away ({', '.join(where)})"
        return f"; of the {in_units(self.held)} of anon and shmem there {most}{locked}"


def movable_from(nodes: NodeSet, snapshot: Snapshot) -> Movable:
    """Memory that the kernel can move off these nodes now."""
    there = [one for one in snapshot.nodes if one.node in nodes]
    held = sum(sum(one.resident.sum_of(_MOVED).values()) for one in there)
    locked = sum(one.unevictable or 0 for one in there)
    to_swap, why_no_swap = _to_swap(nodes, snapshot)
    to_slower, slower, why_not_slower = _to_slower(nodes, snapshot)
    return Movable(held, locked, to_swap, why_no_swap, to_slower, slower, why_not_slower)


def _to_swap(nodes: NodeSet, snapshot: Snapshot) -> tuple[int | None, str]:
    swap = snapshot.swap
    if swap is None:
        return None, "it is not known whether there is swap"
    if not swap.total:
        return 0, "there is no swap"
    own = snapshot.unattributed  # no limit holds for the root cgroup
    allowed = 0 if own is None else sum(size for node, size in own.sum_of(_MOVED).items() if node in nodes)
    for id_, limit in swap.limits.items():
        held = _held_by(id_, nodes, snapshot)
        allowed += held if limit is None else min(held, limit)
    if not swap.free:
        return 0, "swap is full"
    return min(allowed, swap.free), "no cgroup there may use swap (memory.swap.max)"


def _to_slower(nodes: NodeSet, snapshot: Snapshot) -> tuple[int, NodeSet, str]:
    tiers, settings = snapshot.machine.tiers, snapshot.tiers
    slower = NodeSet() if tiers is None else tiers.below(nodes) - nodes
    if not slower:
        return 0, slower, "there is no slower memory"
    if settings is None or not settings.demotion:
        return 0, slower, "demotion is off"
    room = available(snapshot.nodes, slower) or 0
    held = sum(sum(one.resident.sum_of(_MOVED).values()) for one in snapshot.nodes if one.node in nodes)
    if settings.keeps_cpuset:
        may = (id_ for id_, one in snapshot.allowed.items() if one.nodes is None or not one.nodes.isdisjoint(slower))
        held = sum(_held_by(id_, nodes, snapshot) for id_ in may)
    if not room:
        return 0, slower, f"the slower {slower.in_words} {'is' if len(slower) == 1 else 'are'} full"
    return min(held, room), slower, f"cpuset.mems allows nothing there the slower {slower.in_words}"


def _held_by(container: ContainerId, nodes: NodeSet, snapshot: Snapshot) -> int:
    resident = snapshot.residency.get(container)
    if resident is None:
        return 0
    return sum(size for node, size in resident.sum_of(_MOVED).items() if node in nodes)


def available(memory: Sequence[NodeMemory], nodes: NodeSet) -> int | None:
    """Bytes that are free on the nodes or that the kernel can drop; None = not known of one of them."""
    by_node = {one.node: one for one in memory}
    total = 0
    for node in nodes:
        one = by_node.get(node)
        if one is None or one.free is None:
            return None
        total += one.free + (one.reclaimable or 0)
    return total
