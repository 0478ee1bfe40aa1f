"""Who the pods of a checkpoint are, by the kubelet's list of pods or else its log. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from numaudit.kubelet.readings import Readings
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.file import Checkpoint
from numaudit.memorymanager.pod.names import PodName


def pod_names(checkpoints: Iterable[Checkpoint], readings: Readings) -> dict[str, PodName]:
    """By UID, those of which anything is known. The checkpoints were read before the pods."""
    named = {one.pod_uid: (one.namespace, one.pod) for one in readings.log.records if one.pod_uid is not None}
    named.update({uid: (one.namespace, one.pod) for uid, one in readings.log.rejections.items()})
    found: dict[str, PodName] = {}
    for uid in dict.fromkeys(uid for checkpoint in checkpoints for uid in _uids(checkpoint)):
        pod = (readings.pods or {}).get(uid)
        if pod is not None:
            found[uid] = PodName(pod.namespace, pod.name, pod.has_ended)
        elif readings.pods_are_current or uid in named:
            namespace, name = named.get(uid, (None, None))
            found[uid] = PodName(namespace, name, True if readings.pods_are_current else None)
    return found


def _uids(checkpoint: Checkpoint) -> Iterable[str]:
    if isinstance(checkpoint, DeviceCheckpoint):
        return [entry.pod_uid for entry in checkpoint.entries or ()]
    return [*(checkpoint.entries or {}), *(checkpoint.pod_entries or {})]
