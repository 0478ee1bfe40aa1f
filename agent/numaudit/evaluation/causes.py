"""Why are bytes where they should not be?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from numaudit.evaluation.placement import bytes_outside, wanted_nodes
from numaudit.evaluation.shared_memory import charged_to_others, name_of, pieces_outside
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.snapshot import (
    Allowed,
    Container,
    ContainerId,
    Mappings,
    Migrated,
    NodeMemory,
    Resident,
    SharedMemory,
    Snapshot,
)
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.sizes import in_units

CauseName = Literal["mempolicy", "cpuset", "full-node", "migration", "shared-memory", "unknown"]


class Cause(Struct, frozen=True):
    """Why bytes are where they should not be: its own, or shared memory of others that it maps."""

    cause: CauseName
    evidence: str


_TO_ANOTHER_NODE = ("syscall_or_cpuset", "mempolicy_mbind", "numa_misplaced", "demotion", "damon")
"""Of the kernel's reasons to migrate pages (enum migrate_reason) those that change the node."""
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
    migrated: Migrated | None = None,
    page_size: int = 4096,
) -> tuple[Cause, ...]:
    """Each cause that the evidence supports; `unknown` when there is none.

    `wanted` are the nodes where the bytes should be: the promised ones, or else those of the allowed CPUs.
    `migrated` is what the container's own tasks moved; what others moved of its memory is charged to them.
    """
    found: list[Cause] = []
    if mappings is not None:
        for policy, outside in _policies_outside(mappings, wanted).items():
            found.append(Cause("mempolicy", f"the process's memory policy {policy} put {in_units(outside)} there"))
    if allowed is not None and allowed.nodes is not None and _misleads(allowed.nodes, wanted, promised):
        what = "promised are" if promised else "its CPUs are on"
        found.append(Cause("cpuset", f"{_said_of_nodes(allowed)}, {what} {wanted}"))
    full = [node for node in nodes if node.node in wanted and _is_full(node, thresholds)]
    for node in full:
        found.append(
            Cause("full-node", f"node {node.node} has {in_units(node.free or 0)} of {in_units(node.total or 0)} free")
        )
    for reason, pages in ({} if migrated is None else migrated.pages).items():
        if reason in _TO_ANOTHER_NODE and pages.succeeded * page_size > thresholds.spilled_bytes:
            moved = in_units(pages.succeeded * page_size)
            found.append(Cause("migration", f"its tasks moved {moved} between nodes ({reason})"))
    return tuple(found) or (Cause("unknown", _unexplained(wanted, allowed, mappings, nodes, migrated)),)


def _said_of_nodes(allowed: Allowed) -> str:
    """What the group's own cpuset.mems says, where it was read."""
    nodes = str(allowed.nodes) or "none"
    if allowed.own_nodes is None:
        return f"allowed nodes are {nodes}"
    if not allowed.own_nodes:
        return f"cpuset.mems is empty, so it inherits nodes {nodes}"
    if allowed.own_nodes == allowed.nodes:
        return f"cpuset.mems is {nodes}"
    return f"cpuset.mems is {allowed.own_nodes}, of which the groups above it leave {nodes}"


def _unexplained(
    wanted: NodeSet,
    allowed: Allowed | None,
    mappings: Mappings | None,
    nodes: Sequence[NodeMemory],
    migrated: Migrated | None,
) -> str:
    """Which causes it is not, and which were not measured."""
    sizes_known = {node.node for node in nodes if node.free is not None and node.total}
    measured = {
        "a memory policy": mappings is not None and mappings.processes_read == mappings.processes,
        "the cpuset": allowed is not None and allowed.nodes is not None,
        "a full node": sizes_known.issuperset(wanted),
        "a migration by its own tasks": migrated is not None,
    }
    denied = [cause for cause, is_measured in measured.items() if is_measured]
    others = [cause for cause, is_measured in measured.items() if not is_measured]
    found = [f"not explained by {' or '.join(filter(None, (', '.join(denied[:-1]), denied[-1])))}"] if denied else []
    if mappings is not None and others[:1] == ["a memory policy"]:
        others[0] = f"a memory policy ({mappings.processes_read} of {mappings.processes} processes read)"
    return "; ".join([*found, f"not measured: {', '.join(others)}"] if others else found)


@dataclass(slots=True)
class Explained:
    """Causes for the containers of one snapshot.

    Most have the causes of all others with their cpuset, whose value they share as long as the snapshot lives.
    """

    snapshot: Snapshot
    thresholds: Thresholds
    _names: dict[ContainerId, str] = field(default_factory=dict)
    _common: dict[tuple[NodeSet, bool, int], tuple[Cause, ...]] = field(default_factory=dict)

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
        migrated = None if snapshot.migrations is None else snapshot.migrations.get(id_)
        if mappings is not None or migrated is not None:
            return (*self._causes(wanted, bool(intended), allowed, mappings, migrated), *shared)
        kind = (wanted, bool(intended), id(allowed))
        if kind not in self._common:
            self._common[kind] = self._causes(wanted, bool(intended), allowed, None, None)
        return self._common[kind]

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
        text = f"it maps at least {in_units(outside)} of shared memory there that is charged to others"
        return (Cause("shared-memory", f"{text}: {'; '.join(said)}"),)

    def _owner(self, one: SharedMemory) -> str:
        if one.charged_to is None:
            return "whose it is is not known"
        if not self._names:
            self._names.update({each.id: name_of(each) for each in self.snapshot.containers})
        return f"charged to {self._names.get(one.charged_to, 'a cgroup that is gone')}"

    def _causes(
        self,
        wanted: NodeSet,
        promised: bool,
        allowed: Allowed | None,
        mappings: Mappings | None,
        migrated: Migrated | None,
    ) -> tuple[Cause, ...]:
        nodes, page_size = self.snapshot.nodes, self.snapshot.machine.page_size
        return causes(
            wanted, promised, allowed, mappings, nodes, self.thresholds, migrated=migrated, page_size=page_size
        )


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


def _is_full(node: NodeMemory, thresholds: Thresholds) -> bool:
    if node.free is None or not node.total:
        return False
    return node.free < thresholds.full_node_share * node.total
