"""The CPUs of a machine as the CPU Manager sees them: node, socket, core and uncore cache of each; its state: which
of them each container has; and its policy.

Source: pkg/kubelet/cm/cpumanager/topology/topology.go, pkg/kubelet/cm/cpumanager/state/state.go, google/cadvisor
utils/sysinfo (getCoresInfo).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property

from msgspec import Struct, field

from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.errors import InputError
from numaudit.topology.machine import Cpu, Machine
from numaudit.topology.nodeset import CpuSet, NodeSet


class Group(Enum):
    """Units of which a CPU is a part."""

    NODE = "node"
    SOCKET = "socket"
    CORE = "core"
    UNCORE = "uncore"


class CPUInfo(Struct, frozen=True):
    """Place of one CPU in the machine. `core` is the lowest CPU id among the core's threads, not the kernel's
    core_id."""

    node: int
    socket: int
    core: int
    uncore: int


class CPUTopology(Struct, frozen=True, dict=True):
    """The online CPUs. Nodes without CPUs do not appear and do not count here."""

    details: Mapping[int, CPUInfo]

    @classmethod
    def from_machine(cls, machine: Machine) -> CPUTopology:
        """Of a machine's online CPUs.

        CPUs of one node with the same core_id and socket are a core, as in the kubelet's machine info, whatever
        thread_siblings_list says; without core_id, siblings are. A core's uncore cache is the first last-level (L3)
        cache of its threads; where no thread has one it is the socket. A machine of one node (or socket) where no CPU
        names it has node (socket) 0.
        Raises InputError when there is no CPU, or when the node of a CPU, or the socket of only some, is not known.
        """
        if not machine.cpus:
            raise InputError("could not detect number of cpus")
        if len(machine.nodes) > 1 and machine.cpu_problem is not None:
            raise InputError(machine.cpu_problem)
        nodes = _known_or_one("NUMA node", {cpu.id: cpu.node for cpu in machine.cpus})
        sockets = _known_or_one("socket", {cpu.id: cpu.socket for cpu in machine.cpus})
        cores: dict[tuple[int, int, int | CpuSet], list[Cpu]] = defaultdict(list)
        for cpu in sorted(machine.cpus, key=lambda one: one.id):
            threads = cpu.siblings or CpuSet.of(cpu.id)
            cores[nodes[cpu.id], sockets[cpu.id], threads if cpu.core is None else cpu.core].append(cpu)
        found: dict[int, CPUInfo] = {}
        for (node, socket, _), members in cores.items():
            caches = (one.l3_cache for one in members if one.l3_cache is not None)
            info = CPUInfo(node, socket, members[0].id, next(caches, socket))
            found |= {one.id: info for one in members}
        return cls(dict(sorted(found.items())))

    @cached_property
    def cpus(self) -> CpuSet:
        return CpuSet.from_ids(self.details)

    @cached_property
    def masks(self) -> Mapping[Group, Mapping[int, int]]:
        """Group -> id -> bitmask of its CPUs; ids ascending."""
        masks: dict[Group, dict[int, int]] = {group: defaultdict(int) for group in Group}
        for cpu, info in self.details.items():
            for group in Group:
                masks[group][getattr(info, group.value)] |= 1 << cpu
        return {group: dict(sorted(one.items())) for group, one in masks.items()}

    @cached_property
    def inside(self) -> Mapping[tuple[Group, Group], Mapping[int, tuple[int, ...]]]:
        """(outer, inner) -> outer id -> ids of the inner groups that share a CPU with it."""
        return {
            (outer, inner): {
                one: tuple(other for other, cpus in self.masks[inner].items() if cpus & mask)
                for one, mask in self.masks[outer].items()
            }
            for outer in Group
            for inner in Group
        }

    @property
    def num_cpus(self) -> int:
        return len(self.details)

    @cached_property
    def num_cores(self) -> int:
        """A core with threads in two nodes counts twice, as in the kubelet's machine info."""
        return len({(info.node, info.core) for info in self.details.values()})

    @property
    def num_sockets(self) -> int:
        return len(self.masks[Group.SOCKET])

    @property
    def num_numa_nodes(self) -> int:
        return len(self.masks[Group.NODE])

    # Averages: on a machine whose cores differ in threads no core may have this many.

    @property
    def cpus_per_core(self) -> int:
        return _average(self.num_cpus, self.num_cores)

    @property
    def cpus_per_socket(self) -> int:
        return _average(self.num_cpus, self.num_sockets)

    @property
    def cpus_per_uncore(self) -> int:
        return _average(self.num_cpus, len(self.masks[Group.UNCORE]))

    @cached_property
    def nodes(self) -> NodeSet:
        """The nodes that have CPUs."""
        return NodeSet.from_ids(self.masks[Group.NODE])

    def cpus_in(self, group: Group, ids: Iterable[int]) -> CpuSet:
        """All CPUs of these nodes, sockets, cores or uncore caches; unknown ids have none."""
        mask = 0
        for one in ids:
            mask |= self.masks[group].get(one, 0)
        return CpuSet(mask)

    def groups_of(self, group: Group, cpus: CpuSet) -> frozenset[int]:
        """The ids of the nodes, sockets, cores or uncore caches that have one of these CPUs."""
        return frozenset(one for one, mask in self.masks[group].items() if mask & cpus.mask)


def _known_or_one(what: str, values: Mapping[int, int | None]) -> Mapping[int, int]:
    known = {cpu: value for cpu, value in values.items() if value is not None}
    if not known:
        return dict.fromkeys(values, 0)
    missing = CpuSet.from_ids(values.keys() - known.keys())
    if missing:
        raise InputError(f"the {what} of CPU {missing} is not known, and that of others is: give it, or leave them out")
    return known


def _average(cpus: int, groups: int) -> int:
    return cpus // groups if groups else 0


CPUEntries = Mapping[str, Mapping[str, CpuSet]]
"""Pod UID -> container name -> its exclusive CPUs."""


class CPUState(Struct, frozen=True):
    """All that `cpu_manager_state` keeps, and `reusable`, which is lost when the kubelet restarts."""

    default_cpus: CpuSet
    """The shared pool. Reserved CPUs are in it, except with strict-cpu-reservation."""
    entries: CPUEntries = field(default_factory=dict)
    pod_entries: Mapping[str, CpuSet] = field(default_factory=dict)
    """Pod UID -> CPUs of the whole pod; used with PodLevelResourceManagers only."""
    reusable: Mapping[str, CpuSet] = field(default_factory=dict)
    """Pod UID -> CPUs of its ordinary init containers that no later container took over."""

    @property
    def in_any_set(self) -> CpuSet:
        """All CPUs that it knows."""
        held = (cpus for containers in self.entries.values() for cpus in containers.values())
        return CpuSet.from_ids(cpu for cpus in (self.default_cpus, *self.pod_entries.values(), *held) for cpu in cpus)


class CPUOptions(Struct, frozen=True):
    """The `cpuManagerPolicyOptions` in force."""

    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False


class CPUPolicy(Struct, frozen=True):
    """A static CPU Manager that the kubelet started with."""

    topology: CPUTopology
    reserved: CpuSet
    """Never given to a container exclusively."""
    options: CPUOptions = CPUOptions()
    version: KubernetesVersion = LATEST

    def available(self, state: CPUState) -> CpuSet:
        """The CPUs that may still be given exclusively."""
        return state.default_cpus - self.reserved

    @property
    def allocatable(self) -> CpuSet:
        """Allocatable CPUs in the sense of the PodResources API: all but the reserved CPUs."""
        return self.topology.cpus - self.reserved
