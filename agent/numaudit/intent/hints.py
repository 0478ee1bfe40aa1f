"""One admission by the Topology Manager, as the kubelet logged it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
    from numaudit.intent.pods import Rejection


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
