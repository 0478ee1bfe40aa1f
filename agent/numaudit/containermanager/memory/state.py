"""The state of the static Memory Manager: machine state and assignments.

Source: pkg/kubelet/cm/memorymanager/state/state.go. All sizes are bytes, unsigned 64 bit.
The names are those of the kubelet's file, in which these values are written as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from msgspec import Meta, Struct, field

from numaudit.topology.nodeset import NodeSet

Bytes = Annotated[int, Meta(ge=0)]
NodeId = Annotated[int, Meta(ge=0, le=NodeSet.limit - 1)]
NodeIds = Annotated[tuple[NodeId, ...], Meta(max_length=NodeSet.limit)]


class MemoryTable(Struct, frozen=True, rename="camel"):
    """One resource (memory, or huge pages of one size) on one node."""

    total: Bytes
    system_reserved: Bytes
    allocatable: Bytes
    reserved: Bytes
    free: Bytes


class NUMANodeState(Struct, frozen=True, rename="camel"):
    """One node: its tables by resource name, and the group it is in.

    `cells` is `(own id,)` for a node that is in no group. It is None only in a checkpoint
    that left the key out or wrote null.
    """

    number_of_assignments: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Counts (container, resource, node) triples, not containers."""
    memory_map: Mapping[str, MemoryTable]
    cells: NodeIds | None


class Block(Struct, frozen=True, rename="camel"):
    """One container's promise of one resource: the whole size over all nodes of its affinity."""

    numa_affinity: NodeIds | None
    type: str
    """`memory`, `hugepages-2Mi`, ..."""
    size: Bytes

    @classmethod
    def of(cls, type_: str, size: int, nodes: NodeSet) -> Self:
        return cls(tuple(nodes), type_, size)

    @property
    def nodes(self) -> NodeSet:
        return NodeSet.from_ids(self.numa_affinity or ())


MachineState = Mapping[NodeId, NUMANodeState]
"""Node id -> state."""

Entries = Mapping[str, Mapping[str, tuple[Block, ...]]]
"""Pod UID -> container name -> blocks, in the order they were stored."""


class MemoryState(Struct, frozen=True):
    """All that `memory_manager_state` keeps. `pod_entries` is used with PodLevelResourceManagers only."""

    machine: MachineState
    entries: Entries = field(default_factory=dict)
    pod_entries: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)
