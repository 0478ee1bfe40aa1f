"""Description of a node for its scheduler, from its kubelet's settings and state.

Zones are as feature discovery's topology updater computes them from PodResources: of exclusive resources only. Memory
of a container on several nodes is taken from them in ascending order, each until it is used up, whatever the kubelet's
memory map says. Source: node-feature-discovery, pkg/resourcemonitor/noderesourcesaggregator.go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from numaudit.containermanager.cpu.hints import count_by_node
from numaudit.containermanager.cpu.topology import CPUPolicy, CPUState
from numaudit.containermanager.cpu.topology import Group as CpuGroup
from numaudit.containermanager.device.hints import Device, DeviceState
from numaudit.containermanager.memory.headroom import admissible, holders_of
from numaudit.containermanager.memory.state import (
    MachineState,
    MemoryState,
    NUMANodeState,
    allocatable_memory,
    hugepages_name,
)
from numaudit.containermanager.pod.spec import CPU, MEMORY
from numaudit.containermanager.topologymanager.policy import PREFER_CLOSEST, SINGLE_NUMA_NODE
from numaudit.memorymanager.admission import NodeState, as_next_admission_finds
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.nrt.placement import fingerprint, placement_of
from numaudit.nrt.topology import (
    GATES,
    Amount,
    CostPart,
    CpuPart,
    DeviceGroup,
    DevicePart,
    Group,
    GroupPart,
    KubeletPart,
    MeasuredPart,
    MemoryNode,
    MemoryPart,
    NodeTopology,
    PodPart,
    ZoneResource,
)
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

STEPS = 32
"""Free memory is published in steps of at most this part of a node's memory."""
MOST_HOLDERS = 16
"""Pods that are named of one group."""
_LOCAL = 10
"""Cost of the nearest memory, as in the firmware's distances."""


def topology_of(
    name: str,
    kubelet: Kubelet,
    state: NodeState,
    *,
    free: Mapping[int, int] | None = None,
    latencies: Mapping[tuple[int, int], float] | None = None,
    unplaced: Collection[str] = (),
) -> NodeTopology:
    """The node as the next admission will find it: what pods that are gone hold is free.

    `free`: bytes that the kernel has free, by NUMA node. `latencies`: nanoseconds by the CPU's node and the memory's,
    where they were measured. `unplaced`: resources of which it is not known on which nodes some of their devices are.
    The pods are known where `state.capacity` is.
    """
    state = as_next_admission_finds(replace(state, pending=None), version=kubelet.features.version)
    zones = zones_of(kubelet, state, unplaced)
    return NodeTopology(
        name=name,
        kubelet=_kubelet(kubelet),
        zones=zones,
        memory=None if kubelet.memory_policy == "None" else _memory(kubelet, state.memory.state.machine),
        cpus=None if kubelet.cpu is None or state.cpu is None else _cpus(kubelet.cpu, state.cpu),
        devices=_devices(state.devices, unplaced),
        groups=None if kubelet.memory_policy == "None" else _groups(state),
        measured=None if free is None else _measured(kubelet.machine, free),
        costs=_costs(kubelet, latencies),
        pods=_pods(kubelet, state, zones),
    )


def _kubelet(kubelet: Kubelet) -> KubeletPart:
    topology, features = kubelet.topology, kubelet.features
    return KubeletPart(
        kubernetes=".".join(map(str, features.version if kubelet.cpu is None else kubelet.cpu.version)),
        memory_manager=kubelet.memory_policy,
        cpu_manager="none" if kubelet.cpu is None else "static",
        topology_manager=topology.policy,
        topology_scope=topology.scope,
        max_numa_nodes=topology.options.max_allowable_numa_nodes,
        numa_nodes=kubelet.machine.online,
        topology_options=(PREFER_CLOSEST,) if topology.options.prefer_closest_numa_nodes else (),
        cpu_options=() if kubelet.cpu is None else _on(kubelet.cpu),
        feature_gates=tuple(gate for name, gate in GATES.items() if getattr(features, name)),
    )


def _on(policy: CPUPolicy) -> tuple[str, ...]:
    return tuple(
        name.replace("_", "-") for name in policy.options.__struct_fields__ if getattr(policy.options, name) is True
    )


def _memory(kubelet: Kubelet, machine: MachineState) -> MemoryPart:
    resources = {name for node in machine.values() for name in node.memory_map}
    largest = {name: admissible(machine, kubelet.topology.policy, name) for name in sorted(resources)}
    return MemoryPart(
        {id_: _memory_node(node) for id_, node in machine.items()},
        {name: sizes for name, sizes in largest.items() if sizes is not None},
    )


def _memory_node(node: NUMANodeState) -> MemoryNode:
    amounts = {name: Amount(table.allocatable, table.free) for name, table in node.memory_map.items()}
    is_free = not node.number_of_assignments and len(node.cells or ()) < 2
    return MemoryNode(amounts, None if is_free else NodeSet.from_ids(node.cells or ()), node.number_of_assignments)


def _cpus(policy: CPUPolicy, state: CPUState) -> CpuPart:
    masks = policy.topology.masks
    nodes, sockets, caches = (
        {id_: CpuSet(mask) for id_, mask in masks[group].items()}
        for group in (CpuGroup.NODE, CpuGroup.SOCKET, CpuGroup.UNCORE)
    )
    cores = (CpuSet(mask) for mask in masks[CpuGroup.CORE].values())
    return CpuPart(
        free=policy.available(state) & policy.topology.cpus,
        reserved=policy.reserved,
        nodes=nodes,
        sockets=sockets,
        caches=caches,
        cores=tuple(one for one in cores if len(one) > 1),
    )


def _devices(state: DeviceState, unplaced: Collection[str]) -> DevicePart:
    return DevicePart(
        {name: _device_groups(state, name, devices) for name, devices in sorted(state.plugins.items())},
        tuple(sorted(unplaced)),
    )


def _device_groups(state: DeviceState, name: str, devices: Mapping[str, Device]) -> tuple[DeviceGroup, ...]:
    total, healthy, available = Counter[NodeSet | None](), Counter[NodeSet | None](), Counter[NodeSet | None]()
    free = state.available(name)
    for one in devices.values():
        total[one.nodes] += 1
        healthy[one.nodes] += one.healthy
        available[one.nodes] += one.id in free
    places = sorted(total, key=lambda one: (-1, 0) if one is None else (len(one), one.mask))
    return tuple(DeviceGroup(total[one], healthy[one], available[one], one) for one in places)


def _groups(state: NodeState) -> GroupPart:
    """A group whose pods are not known has none here."""
    names: dict[NodeSet, set[str]] = defaultdict(set)
    for node in state.memory.state.machine.values():
        if node.number_of_assignments:
            names[NodeSet.from_ids(node.cells or ())] = set()
    for one in holders_of(state.memory.state):
        pod = state.pods.get(one.pod_uid)
        names[one.group].add(one.pod_uid if pod is None else pod.full_name)
    groups = [
        Group(nodes, tuple(sorted(pods)[:MOST_HOLDERS]), max(0, len(pods) - MOST_HOLDERS))
        for nodes, pods in sorted(names.items(), key=lambda one: one[0].mask)
    ]
    return GroupPart(tuple(groups), NodeSet.from_ids(id_ for one in groups if len(one.nodes) == 1 for id_ in one.nodes))


def _measured(machine: Machine, free: Mapping[int, int]) -> MeasuredPart:
    sizes = {node.id: node.memory or 0 for node in machine.nodes}
    steps = {node: 1 << max(0, (sizes.get(node, 0) // STEPS).bit_length() - 1) for node in free}
    return MeasuredPart(dict(free), steps)


def _costs(kubelet: Kubelet, latencies: Mapping[tuple[int, int], float] | None) -> CostPart | None:
    """Latencies only where those of all pairs were measured."""
    ids = [node.id for node in kubelet.machine.nodes]
    pairs = [(one, other) for one in ids for other in ids]
    if latencies and all(latencies.get(pair, 0) > 0 for pair in pairs):
        nearest = min(latencies[pair] for pair in pairs)
        costs = {one: {other: round(_LOCAL * latencies[one, other] / nearest) for other in ids} for one in ids}
        return CostPart("calibration", costs)
    return None if kubelet.distances is None else CostPart("distances", kubelet.distances)


def _pods(kubelet: Kubelet, state: NodeState, zones: Zones) -> PodPart | None:
    """With the placement only where consumers read one, and where it is known of all that they count."""
    if state.capacity is None:
        return None
    names = fingerprint((one.namespace, one.name) for one in state.pods.values())
    placed = None
    if kubelet.topology.policy == SINGLE_NUMA_NODE:
        placed = placement_of(kubelet, state, {one.name for resources in zones.values() for one in resources})
    return PodPart(names, "all") if placed is None else PodPart(names, "all", placed.metadata, placed.vectors)


Zones = Mapping[int, tuple[ZoneResource, ...]]
_Amounts = dict[int, dict[str, int]]


def zones_of(kubelet: Kubelet, state: NodeState, unplaced: Collection[str] = ()) -> Zones:
    """NUMA node -> its resources by name; nodes without any are left out, as the updater does.

    `unplaced`: resources whose devices are on nodes that are not all known. They are in no zone: a scheduler would
    take those that are for all there are.
    """
    capacity: _Amounts = {node.id: _capacity(node) for node in kubelet.machine.nodes}
    allocatable: _Amounts = {node.id: {} for node in kubelet.machine.nodes}
    for block in allocatable_memory(state.memory.state.machine):
        for node in block.nodes:
            allocatable.setdefault(node, {})[block.type] = block.size
    available = {node: dict(amounts) for node, amounts in allocatable.items()}
    _take_memory(state.memory.state, available)
    if kubelet.cpu is not None and state.cpu is not None:
        _add_cpus(kubelet.cpu, state.cpu, allocatable, available)
    _add_devices(state.devices, unplaced, allocatable, available)
    return {
        node: tuple(
            ZoneResource(name, capacity.get(node, {}).get(name, amount), amount, available[node][name])
            for name, amount in sorted(amounts.items())
        )
        for node, amounts in sorted(allocatable.items())
        if amounts
    }


def _capacity(node: Node) -> dict[str, int]:
    pages = {hugepages_name(one.page_size): one.total * one.page_size for one in node.huge_pages}
    known = {CPU: None if node.cpus is None else len(node.cpus), MEMORY: node.memory}
    return pages | {name: amount for name, amount in known.items() if amount is not None}


def _take_memory(state: MemoryState, available: _Amounts) -> None:
    for blocks in (blocks for containers in state.entries.values() for blocks in containers.values()):
        for block in blocks:
            left = block.size
            for node in block.nodes:
                has = available.get(node, {}).get(block.type, 0)
                taken = min(has, left)
                left -= taken
                if taken:
                    available[node][block.type] = has - taken


def _add_cpus(policy: CPUPolicy, state: CPUState, allocatable: _Amounts, available: _Amounts) -> None:
    held = CpuSet.from_ids(id_ for containers in state.entries.values() for cpus in containers.values() for id_ in cpus)
    used = count_by_node(policy.topology, held & policy.allocatable)
    for node, count in count_by_node(policy.topology, policy.allocatable).items():
        allocatable.setdefault(node, {})[CPU] = count
        available.setdefault(node, {})[CPU] = count - used.get(node, 0)


def _add_devices(state: DeviceState, unplaced: Collection[str], allocatable: _Amounts, available: _Amounts) -> None:
    """A device on several nodes counts on each of them; one of no known node on none."""
    for resource, devices in state.plugins.items():
        if resource in unplaced:
            continue
        free = state.available(resource)
        for device in devices.values():
            for node in (device.nodes or ()) if device.healthy else ():
                allocatable.setdefault(node, {})
                available.setdefault(node, {})
                allocatable[node][resource] = allocatable[node].get(resource, 0) + 1
                available[node][resource] = available[node].get(resource, 0) + (device.id in free)
