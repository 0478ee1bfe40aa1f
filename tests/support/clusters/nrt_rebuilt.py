"""A kubelet and its state from annotations: as far as they decide on a pod that is not on the node yet."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct

from numaudit.containermanager.cpu.start import STATIC
from numaudit.containermanager.cpu.topology import CPUInfo, CPUOptions, CPUPolicy, CPUState, CPUTopology
from numaudit.containermanager.device.hints import Device, DeviceState
from numaudit.containermanager.memory.state import MemoryState, MemoryTable, NUMANodeState
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.policy import (
    CONTAINER_SCOPE,
    NONE,
    POD_SCOPE,
    POLICIES,
    PREFER_CLOSEST,
    TopologyManager,
    TopologyOptions,
)
from numaudit.containermanager.versions import KubeletFeatures, at_least_described, nearest_described, parse_version
from numaudit.errors import InputError, ParseError
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.nrt.resource_topology import LEFT_OUT, read_part
from numaudit.nrt.topology import GATES, CostPart, CpuPart, DevicePart, KubeletPart, MemoryNode, MemoryPart
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import NodeSet

_HOLDER = Pod("", "", "", ())
"""Stands for all pods that hold devices."""

_MOST_DEVICES = 100_000


class Rebuilt(Struct, frozen=True):
    """A node by its annotations."""

    kubelet: Kubelet
    """Without a manager whose part is missing."""
    state: NodeState
    missing: frozenset[str]
    """Parts that the kubelet's policies call for and that are not there: memory, cpus, devices, costs."""
    unplaced: frozenset[str]
    """Resources of which some devices are on nodes that are not known."""


def rebuilt(annotations: Mapping[str, str]) -> Rebuilt:
    """The node. Raises ParseError for what is not understood, and where the policies are not published."""
    part = read_part(annotations, "kubelet", KubeletPart)
    if part is None:
        raise ParseError("the kubelet's policies are not published (numaudit.io/kubelet)")
    _check_words(part)
    memory = None if part.memory_manager == "None" else read_part(annotations, "memory", MemoryPart)
    if memory is not None and not NodeSet.from_ids(memory.nodes) <= part.numa_nodes:
        raise ParseError("numaudit.io/memory: it has NUMA nodes that numaudit.io/kubelet does not have")
    cpus = None if part.cpu_manager == "none" else read_part(annotations, "cpus", CpuPart)
    devices = read_part(annotations, "devices", DevicePart)
    costs = read_part(annotations, "costs", CostPart)
    closest = PREFER_CLOSEST in part.topology_options
    has_distances = costs is not None and costs.source == "distances"
    wanted = {
        "memory": part.memory_manager != "None" and memory is None,
        "cpus": part.cpu_manager != "none" and cpus is None,
        "devices": devices is None,
        "costs": closest and not has_distances,
    }
    distances = costs.costs if costs is not None and has_distances else {}
    try:
        policy = None if cpus is None else _cpu_policy(part, cpus)
        kubelet = Kubelet(
            Machine(tuple(Node(id_, distances=distances.get(id_, {})) for id_ in part.numa_nodes)),
            _features(part),
            "None" if memory is None else "Static",
            topology=TopologyManager(
                part.topology_manager, part.topology_scope, TopologyOptions(closest, part.max_numa_nodes)
            ),
            cpu=policy,
        )
    except (InputError, TypeError) as error:
        raise ParseError(f"numaudit.io/kubelet: {error}") from None
    state = NodeState(
        MemoryPolicy(
            MemoryState({} if memory is None else {id_: _node(id_, one) for id_, one in memory.nodes.items()})
        ),
        None if policy is None or cpus is None else _cpu_state(policy, cpus),
        _devices(devices or DevicePart({})),
        pods={_HOLDER.uid: _HOLDER},
    )
    missing = frozenset(name for name, is_missing in wanted.items() if is_missing)
    return Rebuilt(kubelet, state, missing, frozenset(() if devices is None else devices.unplaced))


def _check_words(part: KubeletPart) -> None:
    """Raises ParseError for what is not known, such as an option of a newer kubelet, and for too many nodes."""
    for field, words in (
        ("memory_manager", ("None", "Static")),
        ("cpu_manager", (NONE, STATIC)),
        ("topology_manager", POLICIES),
        ("topology_scope", (NONE, CONTAINER_SCOPE, POD_SCOPE)),
        ("topology_options", (PREFER_CLOSEST,)),
        ("cpu_options", tuple(name.replace("_", "-") for name in CPUOptions.__struct_fields__)),
        ("feature_gates", tuple(GATES.values())),
    ):
        found = getattr(part, field)
        for word in (found,) if isinstance(found, str) else found:
            if word not in words:
                raise ParseError(f"numaudit.io/kubelet: {word[:60]!r} is not known; use a newer release")
    if part.topology_manager != NONE and len(part.numa_nodes) > part.max_numa_nodes:
        raise ParseError(f"numaudit.io/kubelet: no kubelet starts with more than {part.max_numa_nodes} NUMA nodes")


def _features(part: KubeletPart) -> KubeletFeatures:
    described, _ = nearest_described(parse_version(part.kubernetes))
    return KubeletFeatures(described, **{name: gate in part.feature_gates for name, gate in GATES.items()})


def _cpu_policy(part: KubeletPart, cpus: CpuPart) -> CPUPolicy:
    options = {name: name.replace("_", "-") in part.cpu_options for name in CPUOptions.__struct_fields__}
    node, socket, cache = (
        {cpu: id_ for id_, members in by_id.items() for cpu in members}
        for by_id in (cpus.nodes, cpus.sockets, cpus.caches)
    )
    core = {cpu: min(threads) for threads in cpus.cores for cpu in threads}
    if not node.keys() == socket.keys() == cache.keys():
        raise InputError("numaudit.io/cpus: nodes, sockets and caches are not of the same CPUs")
    details = {cpu: CPUInfo(node[cpu], socket[cpu], core.get(cpu, cpu), cache[cpu]) for cpu in sorted(node)}
    version = at_least_described(parse_version(part.kubernetes))
    return CPUPolicy(CPUTopology(details), cpus.reserved, CPUOptions(**options), version)


def _cpu_state(policy: CPUPolicy, cpus: CpuPart) -> CPUState:
    return CPUState(cpus.free if policy.options.strict_cpu_reservation else cpus.free | cpus.reserved)


def _node(id_: int, node: MemoryNode) -> NUMANodeState:
    tables = {
        name: MemoryTable(one.allocatable, 0, one.allocatable, max(0, one.allocatable - one.free), one.free)
        for name, one in node.resources.items()
    }
    return NUMANodeState(node.assignments, tables, (id_,) if node.group is None else tuple(node.group))


def _devices(part: DevicePart) -> DeviceState:
    """With made-up ids, since devices on the same nodes serve alike."""
    plugins: dict[str, dict[str, Device]] = {}
    held: dict[str, frozenset[str]] = {}
    for resource, groups in part.devices.items():
        if sum(one.total for one in groups) > _MOST_DEVICES:
            raise ParseError(f"numaudit.io/devices: more than {_MOST_DEVICES} devices of one resource")
        plugins[resource], used = {}, set[str]()
        for number, one in enumerate(groups):
            for index in range(one.total):
                id_ = f"{number}-{index}"
                plugins[resource][id_] = Device(id_, one.nodes, healthy=index < one.healthy)
                if one.free <= index < one.healthy:
                    used.add(id_)
        if used:
            held[resource] = frozenset(used)
    return DeviceState(plugins, {_HOLDER.uid: {"": held}} if held else {})


def left_out(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The names of parts for which there was no space."""
    return tuple(json.loads(annotations.get(LEFT_OUT, '{"parts": []}'))["parts"])
