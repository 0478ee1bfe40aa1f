"""Causes of bytes on the wrong nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from numaudit.evaluation.causes.arrivals import (
    NUMA_BALANCING,
    PASSING,
    Arrival,
    Demotion,
    ForeignAllocations,
    arrival,
    demotion,
)
from numaudit.evaluation.causes.placement import bytes_outside, charged_to_others, name_of, pieces_outside, wanted_nodes
from numaudit.evaluation.verdicts import DEFAULT, Cause, Thresholds
from numaudit.snapshot import (
    Allowed,
    Container,
    ContainerId,
    Mappings,
    NodeMemory,
    Resident,
    SharedMemory,
    Snapshot,
)
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_PIECES = 3
"""Of shared memory that a cause names; the largest."""


def causes(
    wanted: NodeSet,
    promised: bool,
    allowed: Allowed | None,
    mappings: Mappings | None,
    nodes: Sequence[NodeMemory],
    thresholds: Thresholds = DEFAULT,
    *,
    came: Arrival | None = None,
    moved: Demotion | None = None,
) -> tuple[Cause, ...]:
    """Each cause that the evidence supports; `unknown` when there is none.

    `wanted` are the nodes where the bytes should be: the promised ones, or else those of the allowed CPUs. `came` says
    how they came elsewhere; None = hardly any are. `moved` is what was demoted; None = there are no slower nodes.
    """
    found: list[Cause] = []
    if mappings is not None:
        for policy, outside in _policies_outside(mappings, wanted).items():
            found.append(Cause("mempolicy", f"the process's memory policy {policy} put {in_units(outside)} there"))
    if allowed is not None and allowed.nodes is not None and _misleads(allowed.nodes, wanted, promised):
        found.append(Cause("cpuset", _of_cpuset(allowed, wanted, promised)))
    if moved is not None and moved.explained > thresholds.spilled_bytes:
        text = (
            f"the kernel moved at most {in_units(moved.explained)} to the slower nodes {moved.nodes}: {moved.counters}"
        )
        found.append(Cause("demoted", text))
    missed: tuple[str, ...] = () if came is None else came.missed(thresholds.spilled_bytes)
    if came is not None:
        found += _full_nodes(came, missed, nodes, thresholds)
        found += _migrations(came, thresholds)
    return tuple(found) or (Cause("unknown", _unexplained(allowed, mappings, moved, missed)),)


def _full_nodes(
    came: Arrival, missed: Collection[str], nodes: Sequence[NodeMemory], thresholds: Thresholds
) -> Iterator[Cause]:
    """Those that were full while bytes came. Of bytes that nobody watched come, those that are full now."""
    limit = thresholds.spilled_bytes
    for node, size in came.full.items():
        if size > limit:
            text = f"allocations for node {node} went to others meanwhile: {in_units(size)}, of the whole host"
            yield Cause("full-node", text)
    if "a full node" not in missed:
        return
    for one in nodes:
        if one.node in came.wanted and came.full.get(one.node, 0) <= limit and _is_full(one, thresholds):
            free = f"{in_units(one.free or 0)} of {in_units(one.total or 0)}"
            yield Cause(
                "full-node", f"node {one.node} has {free} free now; numaudit did not watch it when the memory came"
            )


def _migrations(came: Arrival, thresholds: Thresholds) -> Iterator[Cause]:
    for reason, size in came.moved.items():
        if size > thresholds.spilled_bytes:
            which = "to other nodes" if reason == NUMA_BALANCING else "between nodes while the memory came"
            yield Cause("migration", f"its tasks moved {in_units(size)} {which} ({reason})")


def _of_cpuset(allowed: Allowed, wanted: NodeSet, promised: bool) -> str:
    """Of a promise the verdict names both sets of nodes; the cause adds only which cgroup allows the wrong ones."""
    if not promised:
        return f"{_said_of_nodes(allowed)}, and its CPUs are on {'node' if len(wanted) == 1 else 'nodes'} {wanted}"
    if allowed.own_nodes and allowed.own_nodes == allowed.nodes:
        return "its own cpuset.mems says so"
    return _said_of_nodes(allowed)


def _said_of_nodes(allowed: Allowed) -> str:
    """Text about the group's own cpuset.mems, where it was read."""
    nodes = allowed.nodes or NodeSet()
    if allowed.own_nodes is None:
        return f"it may use {nodes.in_words}"
    if not allowed.own_nodes:
        return f"cpuset.mems is empty, so it inherits {nodes.in_words}"
    if allowed.own_nodes == allowed.nodes:
        return f"cpuset.mems is {nodes}"
    return f"cpuset.mems is {allowed.own_nodes}, of which the cgroups above it leave {nodes or 'none'}"


def _unexplained(
    allowed: Allowed | None, mappings: Mappings | None, moved: Demotion | None, missed: tuple[str, ...]
) -> str:
    """Name the causes that are ruled out, and those that were not measured, or not while the bytes came."""
    measured = [
        ("a memory policy", mappings is not None and mappings.processes_read == mappings.processes),
        ("the cpuset", allowed is not None and allowed.nodes is not None),
    ]
    if moved is not None:
        measured.append(("demotion", moved.demoted is not None))
    return _ruled_out(
        tuple(measured), None if mappings is None else (mappings.processes_read, mappings.processes), missed
    )


@lru_cache(maxsize=64)
def _ruled_out(measured: tuple[tuple[str, bool], ...], read: tuple[int, int] | None, missed: tuple[str, ...]) -> str:
    """One text for all containers of which the same is known. `read`: processes read, of all."""
    denied = [cause for cause, is_so in measured if is_so] + [one for one in PASSING if one not in missed]
    others = [cause for cause, is_so in measured if not is_so]
    found = [f"ruled out: {', '.join(denied)}"] if denied else []
    if read is not None and others[:1] == ["a memory policy"]:
        others[0] = f"a memory policy ({read[0]} of {read[1]} processes read)"
    found += [f"not measured: {', '.join(others)}"] if others else []
    found += [f"not watched while the memory came: {', '.join(missed)}"] if missed else []
    return "; ".join(found)


@dataclass(slots=True)
class CauseFinder:
    """Causes for the containers of one snapshot."""

    snapshot: Snapshot
    before: Snapshot | None
    earlier: Mapping[ContainerId, Arrival]
    """Of the previous tick."""
    thresholds: Thresholds
    arrivals: dict[ContainerId, Arrival] = field(default_factory=dict)
    """Of those that were explained and have bytes elsewhere."""
    _turned_away: ForeignAllocations = field(init=False)
    _names: dict[ContainerId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._turned_away = ForeignAllocations.between(self.before, self.snapshot)

    def of(self, container: Container, intended: NodeSet | None, drifted: bool) -> tuple[Cause, ...]:
        """Empty when its bytes are where they should be: on the promised nodes, or else near its CPUs."""
        snapshot, id_ = self.snapshot, container.id
        allowed, resident = snapshot.allowed.get(id_), snapshot.residency.get(id_)
        wanted = wanted_nodes(intended, allowed, snapshot.machine)
        if wanted is None:
            return ()
        mappings = snapshot.numa_maps.get(id_)
        shared = () if mappings is None or resident is None else self._shared(id_, wanted, mappings, resident)
        outside = 0 if resident is None else bytes_outside(resident.judged, wanted)
        if outside <= self.thresholds.spilled_bytes and not drifted:
            return shared
        came = None
        if outside > self.thresholds.spilled_bytes:
            came = arrival(id_, wanted, outside, snapshot, self.before, self.earlier.get(id_), self._turned_away)
            self.arrivals[id_] = came
        moved = demotion(id_, wanted, snapshot)
        found = causes(
            wanted, bool(intended), allowed, mappings, snapshot.nodes, self.thresholds, came=came, moved=moved
        )
        return (*found, *shared)

    def _shared(
        self, container: ContainerId, wanted: NodeSet, mappings: Mappings, resident: Resident
    ) -> tuple[Cause, ...]:
        """Shared memory of others is not where this container should have its memory, and no other cause explains it:
        it is where its owner put it."""
        outside = bytes_outside(charged_to_others(container, mappings, resident), wanted)
        if outside <= self.thresholds.spilled_bytes:
            return ()
        pieces = sorted(pieces_outside(container, mappings, wanted), key=lambda piece: -piece[1])
        said = [f"{in_units(size)} of {one.kind} {one.file}, {self._owner(one)}" for one, size in pieces[:_PIECES]]
        if len(pieces) > _PIECES:
            said.append(f"{len(pieces) - _PIECES} more")
        text = f"it maps at least {in_units(outside)} of shared memory there that is charged to other cgroups"
        return (Cause("shared-memory", f"{text}: {'; '.join(said)}"),)

    def _owner(self, one: SharedMemory) -> str:
        if one.charged_to is None:
            return "its owner is not known"
        if not self._names:
            self._names.update({each.id: name_of(each) for each in self.snapshot.containers})
        return f"charged to {self._names.get(one.charged_to, 'a cgroup that is gone')}"


def _misleads(allowed: NodeSet, wanted: NodeSet, promised: bool) -> bool:
    """Does the cpuset itself send bytes elsewhere? Without a promise it may allow more than the nearest nodes."""
    return allowed != wanted if promised else allowed.isdisjoint(wanted)


def _policies_outside(mappings: Mappings, wanted: NodeSet) -> dict[str, int]:
    """Memory policies other than the default with bytes outside the wanted nodes."""
    found: dict[str, int] = {}
    for policy, by_node in mappings.by_policy.items():
        outside = bytes_outside(by_node, wanted)
        if policy != "default" and outside:
            found[policy] = outside
    return found


def full_nodes(nodes: Sequence[NodeMemory], thresholds: Thresholds) -> NodeSet:
    """Those that are full now."""
    return NodeSet.from_ids(one.node for one in nodes if _is_full(one, thresholds))


def _is_full(node: NodeMemory, thresholds: Thresholds) -> bool:
    if node.free is None or not node.total:
        return False
    return node.free < thresholds.full_node_share * node.total
