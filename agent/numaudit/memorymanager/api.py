"""The functions of this package that other code may rely on; docs/memorymanager.md lists them with their signatures.

They live in their modules. This one only names them together, and is imported by whoever needs all:
the package itself imports nothing, because the agent needs a small part only. `questions` asks the
same with plain values.
"""

from __future__ import annotations

from numaudit.memorymanager import questions
from numaudit.memorymanager.admission import Admission, NodeState
from numaudit.memorymanager.checkpoint import file as checkpoint
from numaudit.memorymanager.checkpoint.cpu import CpuCheckpoint, parse_cpus
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.memory import MemoryCheckpoint
from numaudit.memorymanager.cpu.allocation import allocate as allocate_cpus
from numaudit.memorymanager.cpu.allocation import allocate_pod as allocate_pod_cpus
from numaudit.memorymanager.cpu.allocation import cpus_of, take
from numaudit.memorymanager.cpu.allocation import remove as remove_cpus
from numaudit.memorymanager.cpu.allocation import remove_stale as remove_stale_cpus
from numaudit.memorymanager.cpu.hints import CPUContainer, CPUPod, CPUPolicy, cpu_pod
from numaudit.memorymanager.cpu.hints import generate_hints as generate_cpu_hints
from numaudit.memorymanager.cpu.hints import hints_for_container as cpu_hints_for_container
from numaudit.memorymanager.cpu.hints import hints_for_pod as cpu_hints_for_pod
from numaudit.memorymanager.cpu.options import CPUOptions, check_cpu_options, parse_cpu_options
from numaudit.memorymanager.cpu.start import create_cpu_manager
from numaudit.memorymanager.cpu.start import start as start_cpu_manager
from numaudit.memorymanager.cpu.state import CPUState
from numaudit.memorymanager.cpu.topology import CPUInfo, CPUTopology
from numaudit.memorymanager.device.allocation import allocate as allocate_devices
from numaudit.memorymanager.device.allocation import split_by_affinity
from numaudit.memorymanager.device.hints import Device, DeviceState
from numaudit.memorymanager.device.hints import container_requests as container_devices
from numaudit.memorymanager.device.hints import generate_hints as generate_device_hints
from numaudit.memorymanager.device.hints import hints_for_container as device_hints_for_container
from numaudit.memorymanager.device.hints import hints_for_pod as device_hints_for_pod
from numaudit.memorymanager.device.hints import pod_requests as pod_devices
from numaudit.memorymanager.go.spew import Verification
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
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
from numaudit.memorymanager.memory.candidates import (
    JudgedCandidate,
    calculate_hints,
    find_best_hint,
    judge_candidates,
)
from numaudit.memorymanager.memory.group_rules import breaks_a_group
from numaudit.memorymanager.memory.machine_state import (
    allocatable_memory,
    charge,
    check_reservations_fit,
    default_machine_state,
    release,
)
from numaudit.memorymanager.memory.replay import Difference, MissingTarget, Refusal, check_start, differences, replay
from numaudit.memorymanager.memory.reserved import (
    MemoryReservation,
    convert_reserved,
    parse_reserved_memory,
    read_reserved_memory,
    system_reserved,
    validate_against_node,
    validate_reserved_memory,
)
from numaudit.memorymanager.memory.state import Block, MachineState, MemoryState, MemoryTable, NUMANodeState
from numaudit.memorymanager.memory.static_policy import (
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
from numaudit.memorymanager.memory.static_policy import container_hints as memory_hints_for_container
from numaudit.memorymanager.memory.static_policy import pod_hints as memory_hints_for_pod
from numaudit.memorymanager.outcome import AdmissionOutcome, Decision, Placement, Rejection
from numaudit.memorymanager.pod.level import shared_pool_error
from numaudit.memorymanager.pod.manifest import read_pod
from numaudit.memorymanager.pod.requests import container_requests, pod_requests
from numaudit.memorymanager.pod.spec import Container, Pod, Resources, qos
from numaudit.memorymanager.restart.restore import cpu_start_error, memory_start_error
from numaudit.memorymanager.topologymanager.admission_error import AdmissionError, KubeletHangs
from numaudit.memorymanager.topologymanager.hints import (
    MergeResult,
    ProviderHints,
    TopologyHint,
    candidate_masks,
    merge,
)
from numaudit.memorymanager.topologymanager.policy import (
    OptionGates,
    TopologyManager,
    TopologyOptions,
    create_topology_manager,
)
from numaudit.memorymanager.topologymanager.policy import parse_options as parse_topology_options
from numaudit.memorymanager.versions import KubeletFeatures
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import Quantity, eviction_threshold, node_allocatable_reservation

State = MemoryState
"""The older name of MemoryState."""
Outcome = AdmissionOutcome
"""The older name of AdmissionOutcome."""

__all__ = [
    "Admission",
    "AdmissionError",
    "AdmissionOutcome",
    "Block",
    "CPUContainer",
    "CPUInfo",
    "CPUOptions",
    "CPUPod",
    "CPUPolicy",
    "CPUState",
    "CPUTopology",
    "Container",
    "Cpu",
    "CpuCheckpoint",
    "CpuSet",
    "Decision",
    "Device",
    "DeviceCheckpoint",
    "DeviceState",
    "Difference",
    "HugePages",
    "JudgedCandidate",
    "Kubelet",
    "KubeletFeatures",
    "KubeletHangs",
    "Machine",
    "MachineState",
    "MemoryAllocation",
    "MemoryCheckpoint",
    "MemoryPolicy",
    "MemoryReservation",
    "MemoryState",
    "MemoryTable",
    "MergeResult",
    "MissingTarget",
    "NUMANodeState",
    "Node",
    "NodeSet",
    "NodeState",
    "OptionGates",
    "Outcome",
    "Pins",
    "Placement",
    "Pod",
    "ProviderHints",
    "Quantity",
    "Refusal",
    "Rejection",
    "Resources",
    "StartRefused",
    "State",
    "TopologyHint",
    "TopologyManager",
    "TopologyOptions",
    "Verification",
    "add_container",
    "admit",
    "allocatable_memory",
    "allocate",
    "allocate_cpus",
    "allocate_devices",
    "allocate_pod",
    "allocate_pod_cpus",
    "breaks_a_group",
    "calculate_hints",
    "candidate_masks",
    "charge",
    "check_cpu_options",
    "check_reservations_fit",
    "check_start",
    "checkpoint",
    "container_devices",
    "container_requests",
    "convert_reserved",
    "cpu_hints_for_container",
    "cpu_hints_for_pod",
    "cpu_pod",
    "cpu_start_error",
    "cpus_of",
    "cpuset_mems",
    "create_cpu_manager",
    "create_topology_manager",
    "default_machine_state",
    "device_hints_for_container",
    "device_hints_for_pod",
    "differences",
    "eviction_threshold",
    "find_best_hint",
    "fresh_state",
    "generate_cpu_hints",
    "generate_device_hints",
    "judge_candidates",
    "memory_hints_for_container",
    "memory_hints_for_pod",
    "memory_nodes",
    "memory_start_error",
    "merge",
    "node_allocatable_reservation",
    "parse_cpu_options",
    "parse_cpus",
    "parse_reserved_memory",
    "parse_topology_options",
    "pod_devices",
    "pod_requests",
    "qos",
    "questions",
    "read_kubelet",
    "read_pod",
    "read_reserved_memory",
    "reconcile",
    "release",
    "remove",
    "remove_container",
    "remove_cpus",
    "remove_stale_cpus",
    "remove_stale_state",
    "replay",
    "restart",
    "shared_pool_error",
    "split_by_affinity",
    "start",
    "start_cpu_manager",
    "system_reserved",
    "take",
    "validate_against_node",
    "validate_reserved_memory",
]
