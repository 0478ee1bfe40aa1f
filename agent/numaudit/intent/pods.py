"""The pods of this node as the kubelet names them, and their admissions by the Topology Manager as it logged them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    from numaudit.containermanager.pod.spec import Pod, QosClass
    from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint


ContainerKind = Literal["init", "sidecar", "app", "ephemeral"]
"""`sidecar` is an init container that restarts always."""


RunState = Literal["waiting", "running", "terminated"]


class ClaimReference(Struct, frozen=True):
    """A resource claim (DRA) that a container uses."""

    claim: str
    """Name of the claim in the pod's namespace."""
    request: str | None = None
    """The only request of the claim that the container gets; None = all of them."""


class PodContainer(Struct, frozen=True):
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


class Rejection(Struct, frozen=True):
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


class PodFacts(Struct, frozen=True):
    """One pod of this node."""

    uid: str
    """As in the cgroup path and the checkpoints: for a static pod the hash of its manifest."""
    namespace: str
    name: str
    qos: QosClass | None = None
    phase: str | None = None
    created_at: float | None = None
    """Seconds since the epoch; for a static pod when the kubelet first saw it."""
    containers: tuple[PodContainer, ...] = ()
    """Init containers first."""
    spec: Pod | None = None
    """The requests and limits; None when they could not be read."""
    rejection: Rejection | None = None
    resize: str | None = None
    """An in-place resize that waits, was refused or is under way, with what is allocated and what was wished."""
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


class HintRecord(Struct, frozen=True):
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
