"""Zones as feature discovery's topology updater computes them from PodResources.

Its amounts are of exclusive resources only. Memory of a container on several nodes is taken from them in ascending
order, each until it is used up, whatever the kubelet's memory map says.

Source: node-feature-discovery, pkg/resourcemonitor/noderesourcesaggregator.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from numaudit.containermanager.cpu.hints import CPUPolicy, count_by_node
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.memory.state import MemoryState, allocatable_memory, hugepages_name
from numaudit.containermanager.pod.spec import CPU, MEMORY
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.nrt.topology import ZoneResource
from numaudit.topology.machine import Node
from numaudit.topology.nodeset import CpuSet

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
