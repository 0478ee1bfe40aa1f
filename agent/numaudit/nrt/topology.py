"""Values of one node for a scheduler. Each part is one annotation, whose JSON has the names of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from numaudit.topology.nodeset import CpuSet, NodeSet

GATES: Mapping[str, str] = {
    "pod_level_resources": "PodLevelResources",
    "pod_level_resource_managers": "PodLevelResourceManagers",
    "in_place_pod_vertical_scaling": "InPlacePodVerticalScaling",
}
"""Field of KubeletFeatures -> its feature gate."""


class Part(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The value of one annotation."""


class KubeletPart(Part, frozen=True):
    """Policies of all managers, and what else decides an admission."""

    kubernetes: str
    """Version whose behaviour is the kubelet's, such as 1.36."""
    memory_manager: str
    """None or Static."""
    cpu_manager: str
    """none or static."""
    topology_manager: str
    """none, best-effort, restricted or single-numa-node."""
    topology_scope: str
    """container or pod; none where the policy is none."""
    max_numa_nodes: int
    """Most NUMA nodes that the Topology Manager allows (max-allowable-numa-nodes)."""
    numa_nodes: NodeSet
    """NUMA nodes that are online, those without memory or CPUs, too."""
    topology_options: tuple[str, ...] = ()
    """Options that are on."""
    cpu_options: tuple[str, ...] = ()
    """Options that are on."""
    feature_gates: tuple[str, ...] = ()
    """Those that are on, of the gates that matter."""


class Amount(Part, frozen=True):
    """One resource on one node, in bytes."""

    allocatable: int
    """For pods."""
    free: int
    """Not promised."""


class MemoryNode(Part, frozen=True):
    """One node of the Memory Manager's memory map."""

    resources: Mapping[str, Amount]
    """By resource: memory, hugepages-2Mi, ..."""
    group: NodeSet | None = None
    """The nodes of its promises, itself alone for a singleton; none = it has no promise."""
    assignments: int = 0
    """Promises on it, each resource of a container counted."""


class MemoryPart(Part, frozen=True):
    """The Memory Manager's memory map, once the pods that are gone are released."""

    nodes: Mapping[int, MemoryNode]
    admissible: Mapping[str, Mapping[int, int]] = {}
    """Resource -> number of nodes -> the largest request in bytes that would be admitted on so many nodes."""


class CpuPart(Part, frozen=True):
    """The static CPU Manager's CPUs."""

    free: CpuSet
    """They may still be given to a container exclusively."""
    reserved: CpuSet
    """For the system."""
    nodes: Mapping[int, CpuSet]
    """NUMA node -> its CPUs."""
    sockets: Mapping[int, CpuSet]
    caches: Mapping[int, CpuSet]
    """Last-level caches."""
    cores: tuple[CpuSet, ...] = ()
    """Cores of several threads; every other CPU is a core."""


class DeviceGroup(Part, frozen=True):
    """Devices of one resource on the same nodes."""

    total: int
    healthy: int
    free: int
    nodes: NodeSet | None = None
    """None = the plugin names no node."""


class DevicePart(Part, frozen=True):
    """Devices that plugins have registered."""

    devices: Mapping[str, tuple[DeviceGroup, ...]]
    """By resource."""
    unplaced: tuple[str, ...] = ()
    """Resources of which it is not known on which nodes some of their devices are."""


class Group(Part, frozen=True):
    """Nodes that the rule of groups keeps together, or one node that serves containers alone."""

    nodes: NodeSet
    pods: tuple[str, ...]
    """namespace/name of those that hold memory there: until they are gone the group stays as it is."""
    more: int = 0
    """Pods beyond these."""


class GroupPart(Part, frozen=True):
    """All groups and singletons."""

    groups: tuple[Group, ...] = ()
    singletons: NodeSet = NodeSet()
    """Nodes that serve containers of one node alone, so that no container of several nodes gets them."""


class MeasuredPart(Part, frozen=True):
    """Measurements beside the kubelet's accounts."""

    free_bytes: Mapping[int, int]
    """NUMA node -> bytes that the kernel has free; in an annotation within one step of it."""
    step_bytes: Mapping[int, int] = {}
    """NUMA node -> the step, a power of two: a smaller difference is not worth a write."""


class CostPart(Part, frozen=True):
    """Relative costs of memory, 10 = the nearest."""

    source: Literal["distances", "calibration"]
    """The firmware's distances, or latencies that were measured."""
    costs: Mapping[int, Mapping[int, int]]
    """From node -> to node."""


class PodPart(Part, frozen=True):
    """The pods by which a scheduler sees whether it counts the same ones."""

    fingerprint: str
    """pfp0v001..."""
    method: str
    placement: str | None = None
    """Metadata of the placement of containers (numaplacement)."""
    vectors: Mapping[int, str] = {}
    """NUMA node -> its placement vector; the busiest node has none, and one without containers."""


class ZoneResource(Struct, frozen=True):
    """One resource of a zone: CPUs, bytes or devices."""

    name: str
    capacity: int
    allocatable: int
    available: int


class NodeTopology(Struct, frozen=True):
    """All that a scheduler should know of a node. None = not known, or there is no such manager."""

    name: str
    """Of the Node object, and so of its NodeResourceTopology."""
    kubelet: KubeletPart
    zones: Mapping[int, tuple[ZoneResource, ...]]
    """NUMA node -> its resources by name, as feature discovery's topology updater computes them."""
    memory: MemoryPart | None = None
    cpus: CpuPart | None = None
    devices: DevicePart = field(default_factory=lambda: DevicePart({}))
    groups: GroupPart | None = None
    measured: MeasuredPart | None = None
    costs: CostPart | None = None
    pods: PodPart | None = None
