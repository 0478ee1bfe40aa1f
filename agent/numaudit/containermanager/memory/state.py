"""The state of the static Memory Manager: machine state and assignments.

Source: pkg/kubelet/cm/memorymanager/state/state.go. All sizes are bytes, unsigned 64 bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec import Struct, field

from numaudit.topology.nodeset import NodeSet


class MemoryTable(Struct, frozen=True):
    """One resource (memory, or huge pages of one size) on one node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


class NUMANodeState(Struct, frozen=True):
    """One node: its tables by resource name, and the group it is in.

    `cells` is `(own id,)` for a node that is in no group. It is None only in a checkpoint
    that left the key out or wrote null.
    """

    number_of_assignments: int
    """Counts (container, resource, node) triples, not containers."""
    memory_map: Mapping[str, MemoryTable]
    cells: tuple[int, ...] | None


class Block(Struct, frozen=True):
    """One container's promise of one resource: the whole size over all nodes of its affinity."""

    numa_affinity: tuple[int, ...] | None
    type: str
    """`memory`, `hugepages-2Mi`, ..."""
    size: int

    @classmethod
    def of(cls, type_: str, size: int, nodes: NodeSet) -> Self:
        return cls(tuple(nodes), type_, size)

    @property
    def nodes(self) -> NodeSet:
        return NodeSet.from_ids(self.numa_affinity or ())


MachineState = Mapping[int, NUMANodeState]
"""Node id -> state."""

Entries = Mapping[str, Mapping[str, tuple[Block, ...]]]
"""Pod UID -> container name -> blocks, in the order they were stored."""


class MemoryState(Struct, frozen=True):
    """All that `memory_manager_state` keeps. `pod_entries` is used with PodLevelResourceManagers only."""

    machine: MachineState
    entries: Entries = field(default_factory=dict)
    pod_entries: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)
