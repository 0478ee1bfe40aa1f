"""Pods that the kubelet refused since the agent began, each counted once however long and in however many places
it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct, field

from numaudit.containermanager.topologymanager.policy import TOPOLOGY_AFFINITY_ERROR, UNEXPECTED
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.exporters.metric import OTHER
from numaudit.memorymanager.outcome import AdmissionOutcome

ReasonAndHint = tuple[str, str]
"""Reason of the pod's status, hint outcome."""
Workload = tuple[str, str]
"""Namespace, name."""

_OTHER_REASONS = (
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "OutOfephemeral-storage",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
    "Evicted",
    "AppArmor",
    "SysctlForbidden",
    "PodOSNotSupported",
    "PodFeatureUnsupported",
    OTHER,
)
"""Of rejections that have nothing to do with NUMA. Source: pkg/kubelet/lifecycle (predicate.go, handlers.go)."""
PAIRS: tuple[ReasonAndHint, ...] = (
    (TOPOLOGY_AFFINITY_ERROR, AdmissionOutcome.REJECTED_AFFINITY.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_CAPACITY.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_GROUP_RULE.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_PREFERRED_EXTENSION.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_OTHER.value),
)
"""There from the start at 0, so that the first rejection of each kind is an increase."""

_REMEMBERED = 10_000
_CLOCK_STEP = 1.0
"""Times in a pod's status are whole seconds."""
MOST_WORKLOADS = 20
"""The most refused ones have series."""
_COUNTED_WORKLOADS = 1000


class RejectionCounts(Struct, frozen=True):
    """Since the agent's start."""

    by_reason: Mapping[ReasonAndHint, int] = field(default_factory=dict)
    by_workload: Mapping[Workload, int] = field(default_factory=dict)
    """Of the most refused workloads."""


class Rejections(Struct):
    """Counts since start; what was refused before is no increase."""

    started_at: float
    """Of the agent, in seconds since the epoch."""
    _pairs: dict[ReasonAndHint, int] = field(default_factory=lambda: dict.fromkeys(PAIRS, 0))
    _workloads: dict[Workload, int] = field(default_factory=dict)
    _seen: dict[str, None] = field(default_factory=dict)
    """Pod UIDs, the one seen longest ago first."""
    _is_first: bool = True

    def update(self, rejections: Iterable[HintOutcome]) -> RejectionCounts:
        """Take in one report; all counts so far."""
        for one in rejections:
            uid = one.pod_uid or f"{one.namespace}/{one.pod}"
            if uid not in self._seen and not self._is_history(one):
                self._count(one)
            self._seen.pop(uid, None)
            self._seen[uid] = None
        for uid in list(islice(self._seen, max(0, len(self._seen) - _REMEMBERED))):
            del self._seen[uid]
        self._is_first = False
        most = sorted(self._workloads, key=lambda name: (-self._workloads[name], name))[:MOST_WORKLOADS]
        return RejectionCounts(dict(self._pairs), {name: self._workloads[name] for name in most})

    def _is_history(self, one: HintOutcome) -> bool:
        """Without a time: what is there when the agent begins."""
        return self._is_first if one.at is None else one.at < self.started_at - _CLOCK_STEP

    def _count(self, one: HintOutcome) -> None:
        known = one.reason in (TOPOLOGY_AFFINITY_ERROR, UNEXPECTED, *_OTHER_REASONS)
        pair = (one.reason if known and one.reason else OTHER, str(one.outcome))
        self._pairs[pair] = self._pairs.get(pair, 0) + 1
        workload = (one.namespace or "", one.workload or one.pod or "")
        if workload in self._workloads or len(self._workloads) < _COUNTED_WORKLOADS:
            self._workloads[workload] = self._workloads.get(workload, 0) + 1
