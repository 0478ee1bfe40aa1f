"""Why are bytes where they should not be?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from numaudit.evaluation.placement import bytes_outside
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.snapshot import Allowed, Container, Mappings, Migrated, NodeMemory, Snapshot
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.sizes import in_units

CauseName = Literal["mempolicy", "cpuset", "full-node", "migration", "unknown"]


class Cause(Struct, frozen=True):
    """Why bytes are where they should not be."""

    cause: CauseName
    evidence: str


_TO_ANOTHER_NODE = ("syscall_or_cpuset", "mempolicy_mbind", "numa_misplaced", "demotion", "damon")
"""Of the kernel's reasons to migrate pages (enum migrate_reason) those that change the node."""


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
    _common: dict[tuple[NodeSet, bool, int], tuple[Cause, ...]] = field(default_factory=dict)

    def of(self, container: Container, intended: NodeSet | None, drifted: bool) -> tuple[Cause, ...]:
        """Empty when its bytes are where they should be: on the promised nodes, or else near its CPUs."""
        snapshot, id_ = self.snapshot, container.id
        allowed, resident = snapshot.allowed.get(id_), snapshot.residency.get(id_)
        wanted = intended
        if not wanted:
            if allowed is None or allowed.cpus is None:
                return ()
            wanted = snapshot.machine.nodes_of_cpus(allowed.cpus)
        outside = 0 if resident is None else bytes_outside(resident.judged, wanted)
        if outside <= self.thresholds.spilled_bytes and not drifted:
            return ()
        mappings = snapshot.numa_maps.get(id_)
        migrated = None if snapshot.migrations is None else snapshot.migrations.get(id_)
        if mappings is not None or migrated is not None:
            return self._causes(wanted, bool(intended), allowed, mappings, migrated)
        kind = (wanted, bool(intended), id(allowed))
        if kind not in self._common:
            self._common[kind] = self._causes(wanted, bool(intended), allowed, None, None)
        return self._common[kind]

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
