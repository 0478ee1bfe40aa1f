"""What the Memory Manager could still promise, by its memory map alone.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (calculateHints), pkg/kubelet/cm/topologymanager/policy_*.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numaudit.errors import InputError
from numaudit.memorymanager.memory.candidates import largest_by_size
from numaudit.memorymanager.memory.machine_state import table_of
from numaudit.memorymanager.memory.state import MachineState
from numaudit.memorymanager.pod.spec import MEMORY
from numaudit.memorymanager.topologymanager.policy import POLICIES, RESTRICTED, SINGLE_NUMA_NODE


@dataclass(frozen=True, slots=True)
class Headroom:
    """Bytes of memory that are left to new containers; huge pages are not counted."""

    admissible: Mapping[int, int] | None
    """Number of nodes -> the largest request that would be admitted with a hint of that size; 0 = none would.
    None = the Topology Manager's policy is not known, or there are too many nodes to try all sets of them."""
    stranded: Mapping[int, int]
    """Node id -> bytes that are free there, but not for a container of one node: the node is in a group."""


def headroom_of(machine: MachineState, policy: str | None) -> Headroom:
    """What is left under the Topology Manager's policy. A container's CPUs and devices may leave it less.

    Raises InputError for a map in which a node has no memory.
    """
    stranded = {
        id_: table_of(machine, id_, MEMORY).free if len(node.cells or ()) > 1 else 0 for id_, node in machine.items()
    }
    return Headroom(_admissible(machine, policy), stranded)


def _admissible(machine: MachineState, policy: str | None) -> dict[int, int] | None:
    if policy not in POLICIES:
        return None
    try:
        largest = largest_by_size(machine, MEMORY)
    except InputError:
        return None
    found: dict[int, int] = {}
    fits_fewer = -1
    for size, (free, capacity) in largest.items():
        # A hint is preferred when no fewer nodes could hold the request even if they were empty.
        refused = (policy == SINGLE_NUMA_NODE and size > 1) or (policy == RESTRICTED and free <= fits_fewer)
        found[size] = 0 if refused else free
        fits_fewer = max(fits_fewer, capacity)
    return found
