"""The functions of this package that other code may rely on; docs/memorymanager.md tells how.

They live in their modules. This one only names them together, and is imported by whoever needs all:
the package itself imports nothing, because the agent needs a small part only.
"""

from __future__ import annotations

from numaudit.memorymanager import checkpoint
from numaudit.memorymanager.admission import Admission, NodeState
from numaudit.memorymanager.admission_error import AdmissionError, KubeletHangs
from numaudit.memorymanager.candidates import calculate_hints, find_best_hint, judge_candidates
from numaudit.memorymanager.cpu_allocation import take
from numaudit.memorymanager.cpu_hints import cpu_pod
from numaudit.memorymanager.cpu_hints import hints_for_container as cpu_hints_for_container
from numaudit.memorymanager.cpu_hints import hints_for_pod as cpu_hints_for_pod
from numaudit.memorymanager.device_hints import hints_for_container as device_hints_for_container
from numaudit.memorymanager.device_hints import hints_for_pod as device_hints_for_pod
from numaudit.memorymanager.hints import MergeResult, ProviderHints, TopologyHint, merge
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.machine_state import (
    allocatable_memory,
    charge,
    check_reservations_fit,
    default_machine_state,
    release,
)
from numaudit.memorymanager.manager import (
    Pins,
    StartRefused,
    admit,
    fresh_state,
    reconcile,
    remove,
    restart,
    start,
)
from numaudit.memorymanager.outcome import Decision, Outcome, Placement, Rejection
from numaudit.memorymanager.pod import Container, Pod, Resources, qos
from numaudit.memorymanager.pod_manifest import read_pod
from numaudit.memorymanager.replay import check_start
from numaudit.memorymanager.requests import container_requests, pod_requests
from numaudit.memorymanager.reserved import (
    MemoryReservation,
    parse_reserved_memory,
    read_reserved_memory,
    system_reserved,
    validate_reserved_memory,
)
from numaudit.memorymanager.state import Block, MachineState, MemoryTable, NUMANodeState, State
from numaudit.memorymanager.static_policy import (
    MemoryAllocation,
    MemoryPolicy,
    add_container,
    allocate,
    allocate_pod,
    cpuset_mems,
    memory_nodes,
    remove_container,
    remove_stale_state,
)
from numaudit.memorymanager.static_policy import container_hints as memory_hints_for_container
from numaudit.memorymanager.static_policy import pod_hints as memory_hints_for_pod
from numaudit.memorymanager.topology_policy import TopologyOptions, create_topology_manager
from numaudit.memorymanager.versions import KubeletFeatures

__all__ = [
    "Admission",
    "AdmissionError",
    "Block",
    "Container",
    "Decision",
    "Kubelet",
    "KubeletFeatures",
    "KubeletHangs",
    "MachineState",
    "MemoryAllocation",
    "MemoryPolicy",
    "MemoryReservation",
    "MemoryTable",
    "MergeResult",
    "NUMANodeState",
    "NodeState",
    "Outcome",
    "Pins",
    "Placement",
    "Pod",
    "ProviderHints",
    "Rejection",
    "Resources",
    "StartRefused",
    "State",
    "TopologyHint",
    "TopologyOptions",
    "add_container",
    "admit",
    "allocatable_memory",
    "allocate",
    "allocate_pod",
    "calculate_hints",
    "charge",
    "check_reservations_fit",
    "check_start",
    "checkpoint",
    "container_requests",
    "cpu_hints_for_container",
    "cpu_hints_for_pod",
    "cpu_pod",
    "cpuset_mems",
    "create_topology_manager",
    "default_machine_state",
    "device_hints_for_container",
    "device_hints_for_pod",
    "find_best_hint",
    "fresh_state",
    "judge_candidates",
    "memory_hints_for_container",
    "memory_hints_for_pod",
    "memory_nodes",
    "merge",
    "parse_reserved_memory",
    "pod_requests",
    "qos",
    "read_kubelet",
    "read_pod",
    "read_reserved_memory",
    "reconcile",
    "release",
    "remove",
    "remove_container",
    "remove_stale_state",
    "restart",
    "start",
    "system_reserved",
    "take",
    "validate_reserved_memory",
]
