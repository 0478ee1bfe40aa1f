"""Promised containers that do not run now, as in CrashLoopBackOff: they have no cgroup, and keep their row."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.intent.pods import PodFacts
from numaudit.report.containers import ContainerReports
from numaudit.report.values import ContainerReport
from numaudit.snapshot import Container, ContainerId, Snapshot

_NO_CGROUP = ContainerId(0)
"""The kernel gives no cgroup this id."""
_REMEDY = "It is judged when it runs; `kubectl describe pod` says why it does not."
_NOT_RUNNING = ("waiting", "terminated")


def not_running_reports(
    snapshot: Snapshot, judgements: Judgements, findings: tuple[Finding, ...], outcomes: tuple[HintOutcome, ...]
) -> Iterator[ContainerReport]:
    """One row for each container that holds a promise but does not run, by its pod's status."""
    intent = snapshot.intent
    for one, pod, state in () if intent is None else _waiting(intent):
        names = tuple([each.name for each in findings if (each.pod_uid, each.container) == (one.pod_uid, one.name)])
        outcome: dict[tuple[str | None, str | None], HintOutcome] = {
            (each.pod_uid, each.container): each for each in outcomes if each.pod_uid == one.pod_uid
        }
        reports = ContainerReports(snapshot, judgements, {_NO_CGROUP: names}, outcome, {_NO_CGROUP: one})
        container = Container(
            id=_NO_CGROUP,
            path="",
            kind="container",
            qos=pod.qos,
            pod_uid=one.pod_uid,
            namespace=pod.namespace,
            pod=pod.name,
            name=one.name,
        )
        verdict = Verdict("unknown", f"it does not run now: its status is {state}", None, (), _REMEDY)
        yield msgspec.structs.replace(reports.of(container), id=None, path=None, verdict=verdict, unknown=())


def _waiting(intent: Intent) -> Iterator[tuple[ContainerIntent, PodFacts, str]]:
    """Those that live, and the words of their status."""
    pods = intent.pods or {}
    for one in intent.alive:
        if one.cgroups or not one.promise.memory:
            continue
        pod = pods.get(one.pod_uid)
        if pod is None or pod.has_ended:
            continue
        state = next((part.state for part in reversed(pod.containers) if part.name == one.name), None)
        if state in _NOT_RUNNING:
            yield one, pod, state
