"""The rule of groups: nodes that serve a container alone are kept apart from nodes that serve one together.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints, isAffinityViolatingNUMAAllocations).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from numaudit.containermanager.memory.state import MachineState
from numaudit.topology.nodeset import NodeSet


class BrokenRule(StrEnum):
    """The verdict on a candidate: the first rule that it breaks."""

    KEPT = "kept"
    TOO_SMALL = "too-small"
    """The nodes could not hold the request even when empty."""
    IN_A_GROUP = "in-a-group"
    """The single node belongs to a group, so it takes no single-node assignment."""
    BREAKS_A_GROUP = "breaks-a-group"
    """A node has assignments of its own, or belongs to a group of other nodes."""
    NOT_FREE = "not-free"
    """The nodes have too little free memory now."""


def groups_of(machine: MachineState) -> list[tuple[int, int]]:
    """For the nodes with assignments: which nodes have the same cells, and these cells, both as bitmasks.

    A node outside any group has itself as cells.
    """
    groups: dict[int, int] = {}
    for id_, node in machine.items():
        if node.number_of_assignments > 0:
            group = NodeSet.from_ids(node.cells or ()).mask
            groups[group] = groups.get(group, 0) | 1 << id_
    return [(members, group) for group, members in groups.items()]


def grouped_nodes(machine: MachineState) -> int:
    """The nodes that belong to a group of several, as a bitmask."""
    return NodeSet.from_ids(id_ for id_, node in machine.items() if len(node.cells or ()) > 1).mask


def rule_against(mask: NodeSet, size: int, groups: Sequence[tuple[int, int]], grouped: int) -> BrokenRule | None:
    """The group rule that these nodes break, if any; `grouped` is the bitmask of the nodes in groups."""
    if size == 1 and mask.mask & grouped:
        return BrokenRule.IN_A_GROUP
    return BrokenRule.BREAKS_A_GROUP if _breaks(groups, mask.mask, size) else None


def conflicts_of(machine: MachineState, mask: NodeSet, verdict: BrokenRule) -> tuple[int, ...]:
    """The nodes that the rule of groups keeps out of this set; empty where the verdict is another."""
    if verdict is BrokenRule.IN_A_GROUP:
        return tuple(mask)
    if verdict is BrokenRule.BREAKS_A_GROUP:
        return tuple(
            NodeSet.from_ids(
                id_ for members, group in groups_of(machine) if mask.mask != group for id_ in mask & NodeSet(members)
            )
        )
    return ()


def breaks_a_group(machine: MachineState, mask: NodeSet) -> bool:
    """Would an assignment to these nodes overlap another group, or a node with assignments of its own?"""
    return _breaks(groups_of(machine), mask.mask, len(mask))


def _breaks(groups: Sequence[tuple[int, int]], mask: int, size: int) -> bool:
    if size > 1:
        for members, group in groups:
            if mask & members and mask != group:
                return True
    return False
