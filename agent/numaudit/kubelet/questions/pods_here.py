"""The pods of a checkpoint by name and state, by the kubelet's list of pods or else its log; and those of this node
that the kubelet counts when the next one comes, as far as they are known. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from msgspec import Struct, field

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.containermanager.pod.names import PodName
from numaudit.containermanager.pod.spec import Pod
from numaudit.kubelet.sources.readings import KubeletReadings


def pod_names(
    checkpoints: Iterable[Checkpoint], readings: KubeletReadings, with_cgroup: Set[str] | None = None
) -> dict[str, PodName]:
    """By UID, those of which anything is known. The checkpoints were read before the pods.

    `with_cgroup`: the UIDs of the pods that have a cgroup, which says who lives where the pods are not listed; None =
    not known.
    """
    named = {one.pod_uid: (one.namespace, one.pod) for one in readings.log.records if one.pod_uid is not None}
    named.update({uid: (one.namespace, one.pod) for uid, one in readings.log.rejections.items()})
    found: dict[str, PodName] = {}
    for uid in dict.fromkeys(uid for checkpoint in checkpoints for uid in _uids(checkpoint)):
        pod = (readings.pods or {}).get(uid)
        if pod is not None:
            found[uid] = PodName(pod.namespace, pod.name, pod.has_ended)
            continue
        stale = True if readings.pods_are_current else _lacks_cgroup(uid, readings, with_cgroup)
        if stale is not None or uid in named:
            namespace, name = named.get(uid, (None, None))
            found[uid] = PodName(namespace, name, stale)
    return found


def _lacks_cgroup(uid: str, readings: KubeletReadings, with_cgroup: Set[str] | None) -> bool | None:
    """A pod gets its cgroup a moment after its entry. Where no pod has one, they may be out of sight."""
    if not with_cgroup:
        return None
    if uid in with_cgroup:
        return False
    return True if readings.cgroups_are_settled else None


def _uids(checkpoint: Checkpoint) -> Iterable[str]:
    if isinstance(checkpoint, DeviceCheckpoint):
        return [entry.pod_uid for entry in checkpoint.entries or ()]
    if isinstance(checkpoint, ClaimCheckpoint):
        return [uid for claim in checkpoint.claims or () for uid in claim.pod_uids or ()]
    return [*(checkpoint.entries or {}), *(checkpoint.pod_entries or {})]


class PodsHere(Struct, frozen=True):
    """Pods of a node, as far as they are known."""

    names: Mapping[str, PodName] = field(default_factory=dict)
    """UID -> who the pods in the checkpoints are; those of which anything is known."""
    active: tuple[Pod, ...] = ()
    """The pods that have not ended, the oldest first."""
    problem: str | None = "the kubelet was not asked for its pods"
    """Reason why `active` are not all, or are not known; None = they are all."""

    def is_doubtful(self, uid: str) -> bool:
        """May this pod of a checkpoint be gone for all that is known? The kubelet drops it then."""
        return self.problem is not None and (uid not in self.names or self.names[uid].stale is None)


def pods_of(checkpoints: Iterable[Checkpoint], readings: KubeletReadings, with_cgroup: Set[str] | None) -> PodsHere:
    """`with_cgroup`: the UIDs of the pods that have a cgroup; None = not known.

    A pod whose phase is terminal counts no more, one that is about to be deleted still does.
    Source: pkg/kubelet/kubelet_pods.go (filterOutInactivePods).
    """
    names = pod_names(checkpoints, readings, with_cgroup)
    state = next((one for one in readings.polled if one.name == "pods"), None)
    reason = None if state is None else state.reason
    if readings.pods is None or not readings.pods_are_current:
        return PodsHere(names, problem=f"the kubelet's pods are not known ({reason})")
    alive = sorted((one for one in readings.pods.values() if not one.has_ended), key=lambda one: one.created_at or 0.0)
    active = tuple(one.spec for one in alive if one.spec is not None)
    return PodsHere(
        names, active, None if reason is None else f"not all of the kubelet's pods are understood ({reason})"
    )
