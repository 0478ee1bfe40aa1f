"""Rules about memory that was promised and may be lacking when it is used, huge pages included.

Counted against it is what the kernel can move off full nodes, to swap or to a slower memory tier, so that it need not
kill. Page cache is not counted: the kernel drops it. Neither are huge pages, which stay where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numaudit.containermanager.memory.state import MachineState
from numaudit.errors import printable
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about
from numaudit.evaluation.huge_pages import HugePagesOfSize, huge_pages_of, largest_users, sets_in_force
from numaudit.intent.node import ContainerIntent
from numaudit.snapshot import ContainerId, NodeMemory, Resident, Snapshot
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


def _oom_risk(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Promised but not yet resident memory for which its nodes have too few pages that are free or reclaimable, or that
    the kernel can swap or demote.

    All promises within a set of nodes draw on the same pages, so they are added up for each set.
    """
    outstanding = _outstanding(evidence)
    yield from _oom_risk_of_huge_pages(evidence)
    by_mask: Counter[int] = Counter()  # a number is its own hash, and there are a thousand sets
    for _, nodes, size in outstanding:
        by_mask[nodes.mask] += size
    sums = {NodeSet(mask): size for mask, size in by_mask.items()}
    for nodes in sums:
        free = available(evidence.snapshot.nodes, nodes)
        wanted = sum(size for within, size in sums.items() if within <= nodes)
        if free is None or wanted <= free:
            continue
        movable = movable_from(nodes, evidence.snapshot)
        if wanted <= free + movable.at_most:
            continue
        for one, within, size in outstanding:
            if within == nodes and size:
                text = (
                    f"{in_units(size)} of its promised memory is not resident yet; all promises on node {nodes} may "
                    f"still claim {in_units(wanted)}, but only {in_units(free)} are free or reclaimable there"
                    f"{movable.in_words}"
                )
                yield about(one, text, nodes)


def _oom_risk_of_huge_pages(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Promised huge pages that are not used yet, and that the pools of their nodes do not have.

    Nothing else makes room for them: pages of a pool are neither reclaimed nor swapped nor demoted.
    """
    for of_size in huge_pages_of(evidence.snapshot):
        for nodes in of_size.room.unclaimed:
            within = [one for one in of_size.claims if one.nodes <= nodes]
            sizes, free = [one.unclaimed for one in within], of_size.room.free_on(nodes)
            wanted = sum(filter(None, sizes))
            if free is None or None in sizes or wanted <= free:
                continue
            for one in within:
                if one.nodes == nodes and one.unclaimed:
                    text = (
                        f"{in_units(one.unclaimed)} of its promised {of_size.type} are not used yet; all promises on "
                        f"{nodes.in_words} may still claim {in_units(wanted)}, but only {in_units(free)} are "
                        "free in the kernel's pool there: its mmap(2) or first touch would fail"
                    )
                    yield about(one.container, text, nodes)


def _outstanding(evidence: TickEvidence) -> list[tuple[ContainerIntent, NodeSet, int]]:
    """Each container with its nodes and the bytes of type memory that it may still ask of them."""
    found = []
    residency: Mapping[Any, Resident] = evidence.snapshot.residency
    for one in evidence.intent.alive:
        nodes = one.promise.memory_nodes
        if nodes is None or not nodes.mask:
            continue
        resident = [residency[cgroup] for cgroup in one.cgroups if cgroup in residency]
        if not resident or len(resident) < len(one.cgroups):
            continue
        left = sum([block.size for block in one.promise.memory or () if block.type == "memory"])
        for each in resident:
            # Page cache counts towards a container's limit too, but the kernel can drop it when asked for more.
            left -= sum(each.anon.values()) if each.anon else 0
            left -= sum(each.shmem.values()) if each.shmem else 0
        found.append((one, nodes, max(0, left)))
    return found


_MOST_USERS = 3


def _hugepages_short(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The kubelet admits by its map alone, so the next pod would get a promise that the kernel breaks."""
    machine = evidence.intent.machine
    if not machine:
        return
    for of_size in huge_pages_of(evidence.snapshot):
        for nodes in sets_in_force(machine):
            text = _shortage(of_size, machine, nodes, evidence.snapshot)
            if text is not None:
                yield RuleResult(text, numa_nodes=nodes)


def _shortage(of_size: HugePagesOfSize, machine: MachineState, nodes: NodeSet, snapshot: Snapshot) -> str | None:
    """The shortage in words; None = there is none, or that is not known."""
    room, name = of_size.room, of_size.type
    tables = [machine[node].memory_map.get(name) for node in nodes if node in machine]
    by_map = sum(table.free for table in tables if table is not None) // room.page_size * room.page_size
    left, free, unclaimed = room.left(nodes), room.free_on(nodes), room.unclaimed_on(nodes)
    if left is None or free is None or unclaimed is None or left >= by_map:
        return None
    text = (
        f"the memory map would admit {in_units(by_map)} more of {name} on {nodes.in_words}, but the kernel can give "
        f"{in_units(left)}: {in_units(free)} are free there"
    )
    if unclaimed:
        text += f", and containers were promised {in_units(unclaimed)} of them that they do not use yet"
    elif left < free:
        text += f", and processes have reserved {in_units(room.reserved)} on the machine"
    users = largest_users(of_size, nodes, snapshot)[:_MOST_USERS]
    if users:
        text += f"; used there without a promise by {', '.join(f'{who} ({in_units(size)})' for who, size in users)}"
    if of_size.overcommit:
        text += f"; it may make up to {in_units(of_size.overcommit)} of surplus pages, if it finds memory for them"
    return printable(text)


RULES = (
    Rule(
        "oom-risk",
        "critical",
        "Move pods that are not Guaranteed off the node, or raise --reserved-memory of these NUMA nodes: when the "
        "promised memory is used, the kernel must kill a process.",
        _oom_risk,
    ),
    Rule(
        "hugepages-short",
        "warning",
        "Stop or move the pods that use the pages without a promise (the finding names them), or make them Guaranteed, "
        "so that the Memory Manager counts their pages. Until then a pod that is admitted there fails when it asks the "
        "kernel for its pages (ENOMEM or SIGBUS).",
        _hugepages_short,
    ),
)
