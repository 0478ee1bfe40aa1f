"""Everything that the kubelet intends on this node: what its managers and DRA drivers promised, joined by container."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from numaudit.intent.kubelet import KubeletConfig
from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    from numaudit.containermanager.memory.headroom import Headroom, Holder
    from numaudit.containermanager.memory.state import Block, MachineState
    from numaudit.intent.kubelet import CheckpointHealth, KubeletSeries, SourceState
    from numaudit.intent.pods import ContainerKind, HintRecord, PodFacts, Rejection
    from numaudit.memorymanager.forecast import Forecast
    from numaudit.scenario.values import Node


class PromisedDevices(Struct, frozen=True):
    """Devices of one resource that are on the same nodes."""

    resource: str
    ids: tuple[str, ...]
    nodes: NodeSet | None
    """None = the plugin names no node."""


def devices_by_nodes(resource: str, nodes: Mapping[str, NodeSet | None]) -> tuple[PromisedDevices, ...]:
    """The devices of one resource (id -> its nodes), those on the same nodes together."""
    ids: dict[NodeSet | None, list[str]] = {}
    for id_ in sorted(nodes):
        ids.setdefault(nodes[id_], []).append(id_)
    return tuple([PromisedDevices(resource, tuple(found), on) for on, found in ids.items()])


class Promise(Struct, frozen=True, dict=True):
    """Memory, CPUs and devices that the kubelet's managers gave to one container, or to a pod as a whole."""

    memory: tuple[Block, ...] | None = None
    """A block has no split over its nodes."""
    cpus: CpuSet | None = None
    """Exclusive CPUs; the empty set = it runs on the shared pool."""
    devices: tuple[PromisedDevices, ...] | None = None

    @cached_property
    def memory_nodes(self) -> NodeSet | None:
        """The nodes of all blocks, as the kubelet writes them to cpuset.mems; empty = nothing was promised."""
        if self.memory is None:
            return None
        return NodeSet.from_ids(node for block in self.memory for node in block.numa_affinity or ())

    @cached_property
    def huge_pages(self) -> Mapping[str, tuple[int, NodeSet]]:
        """Resource (hugepages-2Mi) -> promised bytes, and their nodes. A promise of none is left out."""
        found: dict[str, tuple[int, NodeSet]] = {}
        for block in self.memory or ():
            if block.type != "memory" and block.size:
                size, nodes = found.get(block.type, (0, NodeSet()))
                found[block.type] = size + block.size, nodes | NodeSet.from_ids(block.numa_affinity or ())
        return found

    @cached_property
    def device_nodes(self) -> NodeSet | None:
        """The nodes of the devices that name one."""
        if self.devices is None:
            return None
        return NodeSet.from_ids(node for one in self.devices for node in one.nodes or ())


class ClaimPromise(Struct, frozen=True):
    """The promise of one DRA driver for one resource claim to one container."""

    namespace: str
    name: str
    uid: str | None
    driver: str | None
    """None = not known."""
    devices: tuple[str, ...] = ()
    """`pool/device` each."""
    cpus: CpuSet | None = None
    """Exclusive CPUs; None = it promises none, or that is not known."""
    memory: tuple[Block, ...] = ()
    """Memory and huge pages. A block of no bytes names nodes whose bytes the driver does not say."""
    places: bool = False
    """Is its driver known to promise CPUs or memory, or not known at all, because nothing says which it is?"""
    problem: str | None = None
    """Reason why its promise is not known; None = it is."""

    @property
    def memory_nodes(self) -> NodeSet:
        return NodeSet.from_ids(node for block in self.memory for node in block.numa_affinity or ())

    @property
    def in_words(self) -> str:
        return f"claim {self.namespace}/{self.name}" + (f" ({self.driver})" if self.driver else "")


class ContainerIntent(Struct, frozen=True):
    """Everything promised to one container, joined by pod UID and container name."""

    pod_uid: str
    name: str
    namespace: str | None = None
    pod: str | None = None
    kind: ContainerKind | None = None
    cgroups: tuple[int, ...] = ()
    """`ContainerId` of every instance that has a cgroup now: while a container restarts there may be two."""
    promise: Promise = Promise()
    """Of the kubelet's managers and of its resource claims together."""
    by_managers: Promise | None = None
    """Of the managers alone; None = it has no claims."""
    claims: tuple[ClaimPromise, ...] = ()
    """Of its resource claims (DRA), which are a part of `promise` as far as they are known."""
    hints: HintRecord | None = None
    """The newest record of this container; of its pod under pod scope."""
    is_stale: bool | None = None
    """True: in a checkpoint, but its pod is gone or has ended. None = that is not known."""
    has_ended: bool | None = None
    """True: its pod lives, but this container ended and will not come back (an init container)."""

    @property
    def managers(self) -> Promise:
        """The promise of the kubelet's managers alone."""
        return self.promise if self.by_managers is None else self.by_managers

    @property
    def claimed_cpus(self) -> CpuSet:
        """The CPUs of all its claims, as far as they are known."""
        found = CpuSet()
        for claim in self.claims:
            found |= claim.cpus or CpuSet()
        return found

    @property
    def claimed_memory(self) -> tuple[Block, ...]:
        """The memory of all its claims, as far as it is known."""
        return tuple([block for claim in self.claims for block in claim.memory])


class Intent(Struct, frozen=True, dict=True):
    """All that the kubelet intends on this node."""

    containers: tuple[ContainerIntent, ...] = ()
    """Those of the pods, and those that only a checkpoint knows."""
    promised_by: Literal["kubelet", "numaudit run"] = "kubelet"
    pods: Mapping[str, PodFacts] | None = None
    """By UID."""
    machine: MachineState | None = None
    """The Memory Manager's memory map of the nodes."""
    headroom: Headroom | None = None
    """Memory that the map leaves to new containers; None = there is no map."""
    room: Node | None = None
    """None = too little is known of the kubelet to admit a pod."""
    holders: tuple[Holder, ...] = ()
    """The pods, stale ones too, whose promises make the map's groups."""
    shared_cpus: CpuSet | None = None
    """The CPU Manager's default set. None also when its policy is none."""
    hints: tuple[HintRecord, ...] = ()
    """Newest last, bounded."""
    rejections: tuple[Rejection, ...] = ()
    """One for each pod UID, from the pods and the log."""
    config: KubeletConfig = KubeletConfig()
    checkpoints: tuple[CheckpointHealth, ...] = ()
    counters: Mapping[KubeletSeries, float] | None = None
    """The kubelet's own counters of admissions, for cross-checks."""
    denials: Mapping[str, int] | None = None
    """Reason -> pods refused since the start from which `counters` count, by the log; None = not known."""
    start_error: str | None = None
    """Reason why the kubelet's newest start failed, by its log; None also when it did not fail."""
    conflicts: tuple[str, ...] = ()
    """Contradictions between two sources about one container."""
    forecasts: tuple[Forecast, ...] = ()
    """Of a restart of the kubelet and of a reboot; none where they cannot be foreseen."""
    sources: tuple[SourceState, ...] = ()

    @cached_property
    def by_cgroup(self) -> Mapping[int, ContainerIntent]:
        """`ContainerId` -> intent."""
        return {cgroup: one for one in self.containers for cgroup in one.cgroups}

    @cached_property
    def alive(self) -> tuple[ContainerIntent, ...]:
        """Containers that are here and have not ended."""
        return tuple(one for one in self.containers if not one.is_stale and not one.has_ended)

    @cached_property
    def promises_devices(self) -> bool:
        """Do device plugins' devices belong to any of them?"""
        return any(one.promise.devices for one in self.containers)
