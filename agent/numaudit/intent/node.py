"""Everything that the kubelet intends on this node, joined by container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.promise import Promise
from numaudit.topology.nodeset import CpuSet

if TYPE_CHECKING:
    from numaudit.containermanager.cpu.hints import CPURoom
    from numaudit.containermanager.memory.headroom import Headroom, Holder
    from numaudit.containermanager.memory.state import Block, MachineState
    from numaudit.intent.hints import HintRecord
    from numaudit.intent.kubelet import KubeletSeries
    from numaudit.intent.pods import ContainerKind, PodFacts, Rejection
    from numaudit.intent.promise import ClaimPromise
    from numaudit.intent.sources import CheckpointHealth, SourceState
    from numaudit.memorymanager.admission import NodeState
    from numaudit.memorymanager.forecast import Forecast
    from numaudit.memorymanager.kubelet import Kubelet


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


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """Room for the next pod beside the memory map."""

    cpus: tuple[CPURoom, ...] | None
    """By NUMA node; None = no static CPU Manager."""
    unrequested: Mapping[str, int] | None
    """Resource -> its allocatable amount less what the pods request: thousandths of a CPU, bytes, or a number. None =
    not all pods are known."""
    reserved_cpus: CpuSet | None = None
    """CPUs that the static CPU Manager keeps for the system; None = there is none."""
    kubelet: Kubelet | None = field(default=None, compare=False, repr=False)
    state: NodeState | None = field(default=None, compare=False, repr=False)
    """The kubelet and its state, by which it decides on the next pod."""
    unplaced: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Resources of which it is not known on which nodes some of their devices are."""


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
    room: NodeRoom | None = None
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
