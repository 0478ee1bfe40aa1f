"""Pods that a kubelet refused when it was started again, although they ran. Pure.

Such a pod ends as if it had done its work: phase Succeeded (or Failed), without a reason or message (seen with 1.36).
One whose containers restart always does not end by itself, and the kubelet's own counter of refusals, which begins
with its start, says that it refused more pods than are known, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from numaudit.intent.pods import PodFacts, Rejection
from numaudit.kubelet.parsers.metrics import KubeletMetrics

REJECTIONS = "kubelet_admission_rejections_total"
MESSAGE = "at a restart of the kubelet, by its counter of refusals; the pod's status does not say so"
UNKNOWN = "Unknown"
"""The reason of a pod where the counter leaves more than one."""
_CLOCK_STEP = 1.0
"""Seconds: times in a pod's status have no fractions."""


def refused_at_restart(
    pods: Mapping[str, PodFacts] | None, known: Collection[Rejection], metrics: KubeletMetrics | None
) -> tuple[Rejection, ...]:
    """`known`: the refusals that a status or the log names."""
    if metrics is None or metrics.started_at is None:
        return ()
    began = metrics.started_at - _CLOCK_STEP
    candidates = list(_ended_without_reason(pods or {}, {one.pod_uid for one in known}, began))
    if not candidates:
        return ()
    left = _counted(metrics) - Counter(one.reason for one in known if one.at is None or one.at >= began)
    if left.total() < len(candidates):
        return ()
    reason = next(iter(left)) if len(left) == 1 else UNKNOWN
    return tuple(
        Rejection(one.uid, one.namespace, one.name, reason, MESSAGE, metrics.started_at, True) for one in candidates
    )


def _ended_without_reason(pods: Mapping[str, PodFacts], known: Collection[str], began: float) -> Iterator[PodFacts]:
    for pod in pods.values():
        if pod.ended_without_reason and pod.uid not in known and (pod.ended_at is None or pod.ended_at >= began):
            yield pod


def _counted(metrics: KubeletMetrics) -> Counter[str]:
    """By reason, since the kubelet's start."""
    counted = Counter[str]()
    for series, value in metrics.counters.items():
        if series.name == REJECTIONS and (reason := dict(series.labels).get("reason")):
            counted[reason] += int(value)
    return counted
