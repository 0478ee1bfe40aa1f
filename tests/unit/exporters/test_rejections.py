"""Pods that the kubelet refused, as counters."""

from __future__ import annotations

from msgspec import structs

from numaudit.encoding.value import timestamp
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.exporters.rejections import MOST_WORKLOADS, PAIRS, Rejections
from numaudit.memorymanager.outcome import AdmissionOutcome

STARTED = 1000.0


def _rejected(uid: str, reason: str = "TopologyAffinityError", at: float | None = STARTED + 5) -> HintOutcome:
    affinity = reason == "TopologyAffinityError"
    outcome = AdmissionOutcome.REJECTED_AFFINITY if affinity else AdmissionOutcome.REJECTED_OTHER
    return HintOutcome(
        "prod", f"pod-{uid}", uid, None, outcome, "status", None, reason, None, at=timestamp(at), workload="web"
    )


def test_a_refused_pod_is_counted_once_however_long_it_is_listed() -> None:
    rejections = Rejections(STARTED)
    assert set(rejections.update([]).by_reason.values()) == {0}
    rejections.update([_rejected("a")])
    counts = rejections.update([_rejected("a"), _rejected("b")])
    assert counts.by_reason["TopologyAffinityError", "rejected-affinity"] == 2
    assert set(PAIRS) <= set(counts.by_reason)
    assert counts.by_workload == {("prod", "web"): 2}


def test_what_was_refused_before_the_agent_began_is_no_increase_however_late_it_is_seen() -> None:
    rejections = Rejections(STARTED)
    first = rejections.update([_rejected("old", at=STARTED - 60), _rejected("timeless", at=None)])
    assert sum(first.by_reason.values()) == 0
    later = rejections.update([_rejected("old", at=STARTED - 60), _rejected("also-old", at=STARTED - 3600)])
    assert sum(later.by_reason.values()) == 0
    counts = rejections.update([_rejected("new", at=STARTED - 0.5), _rejected("newer", at=None)])
    assert sum(counts.by_reason.values()) == 2


def test_reasons_that_are_not_known_are_counted_under_one_name() -> None:
    rejections = Rejections(STARTED)
    counts = rejections.update([_rejected(str(n), f"Reason {n} in /a/path") for n in range(200)])
    assert counts.by_reason["other", "rejected-other"] == 200
    assert len(counts.by_reason) == len(PAIRS) + 1


def test_only_the_most_refused_workloads_have_series() -> None:
    rejections = Rejections(STARTED)
    refused = [
        structs.replace(_rejected(f"{name}-{n}"), workload=f"web-{name}")
        for name in range(100)
        for n in range(name + 1)
    ]
    counts = rejections.update(refused).by_workload
    assert counts == {("prod", f"web-{name}"): name + 1 for name in range(100 - MOST_WORKLOADS, 100)}
