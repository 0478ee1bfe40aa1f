"""Findings: what is wrong or risky beside the verdicts, each with what to do about it."""

from __future__ import annotations

from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import host, measured, memory_short, processes, promised
from numaudit.evaluation.findings.rule import Finding, Rule, Severity, TickEvidence
from numaudit.intent.node import Intent
from numaudit.snapshot import Snapshot

__all__ = ["RULES", "Finding", "Severity", "find", "gravity"]

RULES: tuple[Rule, ...] = (
    *promised.RULES,
    *memory_short.RULES,
    *processes.RULES,
    *host.RULES,
    *measured.RULES,
)
"""In the order in which a report lists what they find."""
_SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
_GRAVITY = {rule.name: _SEVERITIES.index(rule.severity) for rule in RULES}
_NO_KUBELET = Intent()


def gravity(name: str) -> int:
    """0 for a critical finding, 1 for a warning, 2 for information and for names that are not known here."""
    return _GRAVITY.get(name, len(_SEVERITIES) - 1)


def find(snapshot: Snapshot, judgements: Judgements | None = None) -> tuple[Finding, ...]:
    """All findings of one tick. `judgements` are those of this tick; None = it is judged on its own."""
    intent = _NO_KUBELET if snapshot.intent is None else snapshot.intent
    judged = judge(snapshot) if judgements is None else judgements
    evidence = TickEvidence(snapshot, intent, judged.histories, judged.ranks, judged.setup)
    return tuple(finding for rule in RULES for finding in rule.findings(evidence))
