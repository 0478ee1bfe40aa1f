"""Values of the kubelet's promises, pods, hints and settings.

None = not known, everywhere. An empty tuple or set = known to be none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:  # the memory manager is imported where it is asked: only on a node with a kubelet
    from numaudit.checkpoints.start.findings import StartAnswer, StateFinding
    from numaudit.checkpoints.start.outlook import Outlook
    from numaudit.containermanager.cpu.room import CPURoom
    from numaudit.containermanager.memory.headroom import Headroom, Holder
    from numaudit.containermanager.memory.state import Block, MachineState
    from numaudit.containermanager.pod.spec import Pod, QosClass
    from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
    from numaudit.memorymanager.admission import NodeState
    from numaudit.memorymanager.forecast import Forecast
    from numaudit.memorymanager.kubelet import Kubelet

SourceName = Literal[
    "memory checkpoint",
    "cpu checkpoint",
    "device checkpoint",
    "claim checkpoint",
    "cdi",
    "podresources",
    "pods",
    "kubelet configuration",
    "kubelet log",
    "kubelet metrics",
]

ContainerKind = Literal["init", "sidecar", "app", "ephemeral"]
"""`sidecar` is an init container that restarts always."""

RunState = Literal["waiting", "running", "terminated"]


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of one of the kubelet's sources.

    `ok`: read now. `old`: could not be read now, its last good values are used. `missing`: nothing is known from it.
    """

    name: SourceName
    state: Literal["ok", "old", "missing"]
    reason: str | None = None
    """Reason why it is not `ok`; what an `ok` source left out."""
    read_at: float | None = None
    """Time when the values in use were read, seconds since the epoch."""
    age: float | None = None
    """Seconds since then; None = not known, or of a captured host."""
    lost: int = 0
    """Bytes of log that were passed over because there were too many, since the start."""


@dataclass(frozen=True, slots=True)
class StartOutlook:
    """Would the kubelet start with a checkpoint on this machine, with the configuration that is known?"""

    valid: bool | None = None
    """Nothing is wrong with it; None = it is absent or was not read."""
    starts_now: StartAnswer = "unknown"
    starts_after_reboot: StartAnswer = "unknown"
    findings: tuple[StateFinding, ...] = ()
    refusal: str | None = None
    """The kubelet's words when it does not start with it now; None = it does, or they are not known."""
    compared: Outlook | None = None
    """The whole comparison; None = there was nothing to compare."""


@dataclass(frozen=True, slots=True)
class CheckpointHealth:
    """One checkpoint file."""

    file: str
    """`memory_manager_state`, `cpu_manager_state`, `kubelet_internal_checkpoint` or `dra_manager_state`."""
    policy: str | None = None
    form: str | None = None
    """The format whose checksum fits: V1, V2, ... None = none does."""
    written_at: float | None = None
    """The file's modification time, seconds since the epoch. Of the file as it is, even when it is corrupt."""
    last_good_at: float | None = None
    """Time when a file with a fitting checksum was last seen."""
    problem: Literal["absent", "unreadable", "not understood", "checksum", "newer format"] | None = None
    detail: str | None = None
    """The problem in words."""
    outlook: StartOutlook = StartOutlook()


@dataclass(frozen=True, slots=True)
class PromisedDevices:
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


@dataclass(frozen=True)
class Promise:
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


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """A resource claim (DRA) that a container uses."""

    claim: str
    """Name of the claim in the pod's namespace."""
    request: str | None = None
    """The only request of the claim that the container gets; None = all of them."""


@dataclass(frozen=True, slots=True)
class ClaimPromise:
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
    device_files: tuple[str, ...] = ()
    """Paths of device files that the container gets."""
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


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container of a pod's spec, with its status."""

    name: str
    kind: ContainerKind
    state: RunState | None = None
    container_id: str | None = None
    """The runtime's id of the newest instance, without the `containerd://` before it."""
    previous_container_id: str | None = None
    """That of the previous instance, where the status still has it."""
    restarts: int | None = None
    started_at: float | None = None
    """Time when the newest instance started, seconds since the epoch; None = it does not run, or that is not known."""
    claims: tuple[ClaimReference, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that the kubelet refused to admit."""

    pod_uid: str
    namespace: str
    pod: str
    reason: str
    """TopologyAffinityError, UnexpectedAdmissionError, ..., or one that has nothing to do with NUMA."""
    message: str
    """Without the "Pod was rejected: " that the pod's status has before it."""
    at: float | None = None
    """Seconds since the epoch."""
    by_counter: bool = False
    """Neither the pod's status nor the log says so: the kubelet counted more refused pods than are known."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod of this node."""

    uid: str
    """As in the cgroup path and the checkpoints: for a static pod the hash of its manifest."""
    namespace: str
    name: str
    qos: QosClass | None = None
    phase: str | None = None
    is_static: bool = False
    """Is it from a manifest file of this node?"""
    created_at: float | None = None
    """Seconds since the epoch; for a static pod when the kubelet first saw it."""
    containers: tuple[PodContainer, ...] = ()
    """Init containers first."""
    spec: Pod | None = None
    """The requests and limits; None when they could not be read."""
    rejection: Rejection | None = None
    workload: str | None = None
    """Name of the Deployment, StatefulSet, Job, ... that made it; None = none did, or that is not known."""
    ended_without_reason: bool = False
    """It ended although its containers restart always and nobody deletes it, and its status says no reason."""
    ended_at: float | None = None
    """Time when the last of its containers ended, seconds since the epoch; None = one runs, or that is not known."""

    @property
    def has_pod_level_resources(self) -> bool | None:
        return None if self.spec is None else self.spec.has_pod_level_resources

    @property
    def has_ended(self) -> bool | None:
        """Did all of it end for good, a rejection included? None = the phase is not known."""
        return None if self.phase is None else self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class HintRecord:
    """One admission of a container or a whole pod by the Topology Manager, from the kubelet's log."""

    namespace: str
    pod: str
    container: str | None
    """None = pod scope."""
    pod_uid: str | None = None
    """None = the log does not say and more than one pod fits, or none."""
    at: float | None = None
    """Time when it began, seconds since the epoch."""
    providers: tuple[ProviderHints, ...] = ()
    """Each provider's answer, in the kubelet's order: devices, CPUs, memory."""
    best: TopologyHint | None = None
    """The merged hint. None = the log does not have it."""
    merged: bool | None = None
    """Did the merge admit? True as soon as the affinity was handed to the providers."""
    cpus: CpuSet | None = None
    """The exclusive CPUs it got."""
    memory_nodes: NodeSet | None = None
    """The nodes written to cpuset.mems when the container was created."""
    allocate_error: str | None = None
    """The memory manager's reason not to allocate."""
    denial: Rejection | None = None
    regenerated: bool = False
    """A restarted kubelet found the allocation in its checkpoint: the hints only repeat it, always preferred.
    Such a record is shown only where the log does not have the first one."""


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The kubelet's settings that decide about NUMA. Defaults are filled in only where the configuration was read."""

    version: str | None = None
    """v1.36.2"""
    memory_manager_policy: str | None = None
    cpu_manager_policy: str | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    feature_gates: Mapping[str, bool] | None = None
    """Only those that were set."""
    document: Mapping[str, object] | None = None
    """The KubeletConfiguration in force, drop-in files and flags folded in; `memorymanager.kubelet.read_kubelet`
    reads it. It has only the fields that were set somewhere."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field of this class -> `flag`, `file`, `configz`, `default`, `log`, `checkpoint` or `metrics`."""

    @property
    def topology_manager_options(self) -> Mapping[str, str] | None:
        """topologyManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("topologyManagerPolicyOptions")

    @property
    def cpu_manager_options(self) -> Mapping[str, str] | None:
        """cpuManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("cpuManagerPolicyOptions")

    def _options(self, key: str) -> Mapping[str, str] | None:
        found = (self.document or {}).get(key)
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, Mapping) else None


class KubeletSeries(NamedTuple):
    """One series of the kubelet's own metrics; its labels as names and values, in the kubelet's order."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerIntent:
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


@dataclass(frozen=True)
class Intent:
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
