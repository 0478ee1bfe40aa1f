"""Why are bytes where they should not be?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from numaudit.evaluation.placement import bytes_outside
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.snapshot import Allowed, Mappings, Migrated, NodeMemory
from numaudit.topology.nodeset import NodeSet

Cause = Literal["mempolicy", "cpuset", "full-node", "migration", "unknown"]


_TO_ANOTHER_NODE = ("syscall_or_cpuset", "mempolicy_mbind", "numa_misplaced", "demotion", "damon")
"""Of the kernel's reasons to migrate pages (enum migrate_reason) those that change the node."""
_NOTHING = "neither a memory policy, the cpuset, a full node nor a migration by its own tasks explains it"


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
) -> tuple[tuple[Cause, str], ...]:
    """Each cause that the evidence supports, with the evidence in words; `unknown` when there is none.

    `wanted` are the nodes where the bytes should be: the promised ones, or else those of the allowed CPUs.
    `migrated` is what the container's own tasks moved; what others moved of its memory is charged to them.
    """
    found: list[tuple[Cause, str]] = []
    if mappings is not None:
        for policy, outside in _policies_outside(mappings, wanted).items():
            found.append(("mempolicy", f"the process's memory policy {policy} put {outside} bytes there"))
    if allowed is not None and allowed.nodes is not None and _misleads(allowed.nodes, wanted, promised):
        what = "promised are" if promised else "its CPUs are on"
        found.append(("cpuset", f"cpuset.mems is {allowed.nodes or 'none'}, {what} {wanted}"))
    full = [node for node in nodes if node.node in wanted and _is_full(node, thresholds)]
    for node in full:
        found.append(("full-node", f"node {node.node} has {node.free} of {node.total} bytes free"))
    for reason, pages in ({} if migrated is None else migrated.pages).items():
        if reason in _TO_ANOTHER_NODE and pages.succeeded * page_size > thresholds.spilled_bytes:
            found.append(("migration", f"its tasks moved {pages.succeeded * page_size} bytes between nodes ({reason})"))
    return tuple(found) or (("unknown", _NOTHING),)


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
