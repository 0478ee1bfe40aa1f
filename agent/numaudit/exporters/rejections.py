"""Pods that the kubelet refused, each counted once however long and in however many places it is seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.memorymanager.admission import TOPOLOGY_AFFINITY_ERROR
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.memorymanager.topologymanager.admission_error import UNEXPECTED

Pair = tuple[str, str]
"""Reason of the pod's status, hint outcome."""

PAIRS: tuple[Pair, ...] = (
    (TOPOLOGY_AFFINITY_ERROR, AdmissionOutcome.REJECTED_AFFINITY.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_CAPACITY.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_GROUP_RULE.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_PREFERRED_EXTENSION.value),
    (UNEXPECTED, AdmissionOutcome.REJECTED_OTHER.value),
)
"""There from the start at 0, so that the first rejection of each kind is an increase."""

_REMEMBERED = 10_000
_MOST_PAIRS = 50
_OTHER: Pair = ("other", AdmissionOutcome.REJECTED_OTHER.value)


@dataclass(slots=True)
class Rejections:
    """Counts since start."""

    _counts: dict[Pair, int] = field(default_factory=lambda: dict.fromkeys(PAIRS, 0))
    _seen: dict[str, None] = field(default_factory=dict)
    """Pod UIDs, the one seen longest ago first."""

    def update(self, rejections: Iterable[HintOutcome]) -> Mapping[Pair, int]:
        """Take in one report; all counts so far."""
        for one in rejections:
            uid = one.pod_uid or f"{one.namespace}/{one.pod}"
            if uid not in self._seen:
                pair = (one.reason or "", str(one.outcome))
                if pair not in self._counts and len(self._counts) >= _MOST_PAIRS:
                    pair = _OTHER
                self._counts[pair] = self._counts.get(pair, 0) + 1
            self._seen.pop(uid, None)
            self._seen[uid] = None
        for uid in list(islice(self._seen, max(0, len(self._seen) - _REMEMBERED))):
            del self._seen[uid]
        return dict(self._counts)
