"""The functions of this package that other code may rely on; docs/memorymanager.md lists them.

They live in their modules. This one only names them together, and is imported by whoever needs all:
the package itself imports nothing, because the agent needs a small part only. `x as x` tells a
reader and a type checker that a name is passed on.
"""

from numaudit.memorymanager.admission import (
    Admission as Admission,
    NodeState as NodeState,
    admit as admit,
    reconcile as reconcile,
    remove as remove,
)
from numaudit.checkpoints.formats import file as _checkpoint_file
from numaudit.checkpoints.formats.cpu import CpuCheckpoint as CpuCheckpoint, parse_cpus as parse_cpus
from numaudit.checkpoints.formats.device import DeviceCheckpoint as DeviceCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint as MemoryCheckpoint
from numaudit.containermanager.cpu import allocation as _cpu_allocation, hints as _cpu_hints, start as _cpu_start
from numaudit.containermanager.cpu.allocation import cpus_of as cpus_of, take as take
from numaudit.containermanager.cpu.hints import (
    CPUContainer as CPUContainer,
    CPUPod as CPUPod,
    CPUPolicy as CPUPolicy,
    cpu_pod as cpu_pod,
)
from numaudit.containermanager.cpu.options import (
    CPUOptions as CPUOptions,
    check_cpu_options as check_cpu_options,
    parse_cpu_options as parse_cpu_options,
)
from numaudit.containermanager.cpu.start import create_cpu_manager as create_cpu_manager
from numaudit.containermanager.cpu.topology import CPUState as CPUState
from numaudit.containermanager.cpu.topology import CPUInfo as CPUInfo, CPUTopology as CPUTopology
from numaudit.containermanager.device import allocation as _device_allocation, hints as _device_hints
from numaudit.containermanager.device.allocation import split_by_affinity as split_by_affinity
from numaudit.containermanager.device.hints import Device as Device, DeviceState as DeviceState
from numaudit.encoding.checksum import Verification as Verification
from numaudit.memorymanager.kubelet import Kubelet as Kubelet, read_kubelet as read_kubelet
from numaudit.memorymanager.manager import (
    Pins as Pins,
    StartRefused as StartRefused,
    fresh_state as fresh_state,
    restart as restart,
    start as start,
)
from numaudit.containermanager.memory import static_policy as _static_policy
from numaudit.containermanager.memory.candidates import (
    JudgedCandidate as JudgedCandidate,
    calculate_hints as calculate_hints,
    find_best_hint as find_best_hint,
    judge_candidates as judge_candidates,
)
from numaudit.containermanager.memory.group_rules import breaks_a_group as breaks_a_group
from numaudit.containermanager.memory.state import (
    allocatable_memory as allocatable_memory,
    charge as charge,
    check_reservations_fit as check_reservations_fit,
    default_machine_state as default_machine_state,
    release as release,
)
from numaudit.containermanager.memory.replay import (
    Difference as Difference,
    MissingTarget as MissingTarget,
    Refusal as Refusal,
    check_start as check_start,
    differences as differences,
    replay as replay,
)
from numaudit.containermanager.memory.reserved import (
    MemoryReservation as MemoryReservation,
    convert_reserved as convert_reserved,
    parse_reserved_memory as parse_reserved_memory,
    read_reserved_memory as read_reserved_memory,
    system_reserved as system_reserved,
    validate_against_node as validate_against_node,
    validate_reserved_memory as validate_reserved_memory,
)
from numaudit.containermanager.memory.state import (
    Block as Block,
    MachineState as MachineState,
    MemoryState as MemoryState,
    MemoryTable as MemoryTable,
    NUMANodeState as NUMANodeState,
)
from numaudit.containermanager.memory.static_policy import (
    MemoryAllocation as MemoryAllocation,
    MemoryPolicy as MemoryPolicy,
    add_container as add_container,
    allocate as allocate,
    allocate_pod as allocate_pod,
    cpuset_mems as cpuset_mems,
    memory_nodes as memory_nodes,
    remove_container as remove_container,
    remove_stale_state as remove_stale_state,
)
from numaudit.memorymanager.outcome import (
    AdmissionOutcome as AdmissionOutcome,
    Decision as Decision,
    Placement as Placement,
    Rejection as Rejection,
)
from numaudit.containermanager.pod.requests import shared_pool_error as shared_pool_error
from numaudit.containermanager.pod.manifest import read_pod as read_pod
from numaudit.containermanager.pod.requests import (
    container_requests as container_requests,
    pod_requests as pod_requests,
)
from numaudit.containermanager.pod.spec import Container as Container, Pod as Pod, Resources as Resources, qos as qos
from numaudit.checkpoints.start.restore import (
    cpu_start_error as cpu_start_error,
    memory_start_error as memory_start_error,
)
from numaudit.containermanager.topologymanager import policy as _topology_policy
from numaudit.containermanager.topologymanager.policy import (
    AdmissionError as AdmissionError,
    KubeletHangs as KubeletHangs,
)
from numaudit.containermanager.topologymanager.hints import (
    MergeResult as MergeResult,
    ProviderHints as ProviderHints,
    TopologyHint as TopologyHint,
    candidate_masks as candidate_masks,
    merge as merge,
)
from numaudit.containermanager.topologymanager.policy import (
    OptionGates as OptionGates,
    TopologyManager as TopologyManager,
    TopologyOptions as TopologyOptions,
    create_topology_manager as create_topology_manager,
)
from numaudit.containermanager.versions import KubeletFeatures as KubeletFeatures
from numaudit.topology.machine import Cpu as Cpu, HugePages as HugePages, Machine as Machine, Node as Node
from numaudit.topology.nodeset import CpuSet as CpuSet, NodeSet as NodeSet
from numaudit.topology.quantity import (
    Quantity as Quantity,
    eviction_threshold as eviction_threshold,
    node_allocatable_reservation as node_allocatable_reservation,
)

allocate_cpus = _cpu_allocation.allocate
allocate_devices = _device_allocation.allocate
allocate_pod_cpus = _cpu_allocation.allocate_pod
checkpoint = _checkpoint_file
container_devices = _device_hints.container_requests
cpu_hints_for_container = _cpu_hints.hints_for_container
cpu_hints_for_pod = _cpu_hints.hints_for_pod
device_hints_for_container = _device_hints.hints_for_container
device_hints_for_pod = _device_hints.hints_for_pod
generate_cpu_hints = _cpu_hints.generate_hints
generate_device_hints = _device_hints.generate_hints
memory_hints_for_container = _static_policy.container_hints
memory_hints_for_pod = _static_policy.pod_hints
parse_topology_options = _topology_policy.parse_options
pod_devices = _device_hints.pod_requests
remove_cpus = _cpu_allocation.remove
remove_stale_cpus = _cpu_allocation.remove_stale
start_cpu_manager = _cpu_start.start
