"""Values of the pods of this node, as the kubelet names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from numaudit.containermanager.pod.spec import Pod, QosClass


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
    is_static: bool = False
    """Is it from a manifest file of this node?"""
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
