"""Names and state of the pods of a checkpoint, by the kubelet's list of pods or else its log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.containermanager.pod.names import PodName
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
