"""Findings: what is wrong or risky beside the verdicts, each with what to do about it."""

from __future__ import annotations

from numaudit.evaluation.findings import kubelet, measured, promised
from numaudit.evaluation.findings.rule import Evidence, Finding, Rule, Severity
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.intent import Intent
from numaudit.snapshot import Snapshot

__all__ = ["RULES", "Finding", "Severity", "find"]

RULES: tuple[Rule, ...] = (*promised.RULES, *kubelet.RULES, *measured.RULES)
"""In the order in which a report lists what they find."""
_NO_KUBELET = Intent()


def find(snapshot: Snapshot, before: Snapshot | None = None, thresholds: Thresholds = DEFAULT) -> tuple[Finding, ...]:
    """All findings of one tick. `before` is the previous snapshot, for what happened since then."""
    intent = _NO_KUBELET if snapshot.intent is None else snapshot.intent
    evidence = Evidence(snapshot, intent, before, thresholds)
    return tuple(finding for rule in RULES for finding in rule.findings(evidence))
