"""Rules about the host: what the kernel does not show of the machine; the kubelet's checkpoints, its counters, and
where its sources disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.checkpoints.start.findings import (
    CHECKPOINT_ABSENT,
    CONFIGURATION_REFUSED,
    MAKES_A_RESTART_UNSAFE,
    StateFinding,
)
from numaudit.checkpoints.start.findings import MEANINGS as STATE_MEANINGS
from numaudit.containermanager.pod.spec import with_names
from numaudit.containermanager.topologymanager.policy import TOPOLOGY_AFFINITY_ERROR, UNEXPECTED
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.evaluation.setup.reservations import RESERVED_UNCOVERED
from numaudit.intent.kubelet import REJECTIONS
from numaudit.intent.node import Intent
from numaudit.topology.quantity import plural


def _cpus_not_placed(evidence: TickEvidence) -> Iterator[RuleResult]:
    machine = evidence.snapshot.machine
    if machine.cpu_problem is not None:
        yield RuleResult(machine.cpu_problem, numa_nodes=machine.without_cpu_list or None)


def _checkpoint_damaged(evidence: TickEvidence) -> Iterator[RuleResult]:
    for file in evidence.intent.checkpoints:
        if file.problem in ("not understood", "checksum"):
            yield RuleResult(f"{file.file}: {file.detail or file.problem}")


def _checkpoint_absent(evidence: TickEvidence) -> Iterator[RuleResult]:
    for file in evidence.intent.checkpoints:
        yield from (RuleResult(one.message) for one in file.outlook.findings if one.name == CHECKPOINT_ABSENT)


def _restart_unsafe(evidence: TickEvidence) -> Iterator[RuleResult]:
    """One finding for each cause and file, with all places where it holds; one for a refused configuration."""
    refused, names = False, _pod_names(evidence.intent)
    for file in evidence.intent.checkpoints:
        causes: dict[str, list[StateFinding]] = {}
        for one in file.outlook.findings:
            if one.stops in MAKES_A_RESTART_UNSAFE:
                causes.setdefault(one.name, []).append(one)
        for name, found in causes.items():
            first = with_names("; ".join(one.message for one in found[:3]), names)
            more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
            if name != CONFIGURATION_REFUSED:
                yield RuleResult(f"{file.file}: {name}: {first}{more}", remedy=found[0].remedy)
            elif not refused:
                refused = True
                yield RuleResult(f"{name}: {first}", remedy=found[0].remedy)


def _pod_names(intent: Intent) -> dict[str, str]:
    """UID -> namespace/pod of those that have a name."""
    return {one.pod_uid: f"{one.namespace}/{one.pod}" for one in intent.containers if one.namespace and one.pod}


def _refusals_missed(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The kubelet counted more refused pods than its log shows.

    Of its counters only this one can be compared: the others count restored pods, other QoS
    classes or init containers as well. It is read before the log, so the log may only know more.
    """
    intent = evidence.intent
    if intent.counters is None or intent.denials is None:
        return
    for reason in (TOPOLOGY_AFFINITY_ERROR, UNEXPECTED):
        counted = sum(
            value
            for series, value in intent.counters.items()
            if series.name == REJECTIONS and dict(series.labels).get("reason") == reason
        )
        logged = intent.denials.get(reason, 0)
        if counted > logged:
            pods = plural(round(counted), "pod")
            text = f"the kubelet counted {pods} refused with {reason} since its start, its log shows {logged}"
            yield RuleResult(text)


def _restart_refuses_pods(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Of a restart that the kubelet survives; `restart-unsafe` is about the others."""
    for one in evidence.intent.forecasts:
        if one.starts != "no" and one.refused:
            named = ", ".join(f"{pod.namespace}/{pod.pod}" for pod in one.refused[:3])
            more = f" and {len(one.refused) - 3} more" if len(one.refused) > 3 else ""
            what = "reboot of the node" if one.reboot else "restart of the kubelet"
            yield RuleResult(f"a {what} would refuse {named}{more}: {one.refused[0].reason}: {one.refused[0].message}")


def _resize_pending(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in (evidence.intent.pods or {}).values():
        if one.resize is not None and not one.has_ended:
            yield RuleResult(f"in-place resize of {one.namespace}/{one.name}: {one.resize}")


def _setting_ignored(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.config.ignored:
        yield RuleResult(f"the kubelet's configuration has a field that no kubelet numaudit knows of has: {one}")


def _sources_disagree(evidence: TickEvidence) -> Iterator[RuleResult]:
    return map(RuleResult, evidence.intent.conflicts)


def _setup_error(evidence: TickEvidence) -> Iterator[RuleResult]:
    """One finding for each rule of `numaudit setup` that finds an error; warnings harm nobody yet."""
    for one in evidence.setup:
        if one.state == "error":
            yield RuleResult(f"{one.id}: {_some(one.messages)}", numa_nodes=one.numa_nodes, remedy=one.remedy)


def _reserved_uncovered(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The one warning of `numaudit setup` about memory that is in use."""
    for one in evidence.setup:
        if one.id == RESERVED_UNCOVERED and one.state == "warning":
            yield RuleResult(_some(one.messages), numa_nodes=one.numa_nodes, remedy=one.remedy)


def _some(messages: Sequence[str]) -> str:
    more = f"; and {len(messages) - 3} more" if len(messages) > 3 else ""
    return f"{'; '.join(messages[:3])}{more}"


_SETUP_REMEDY = "Do as `numaudit setup` says of the rule that the message names."

RULES = (
    Rule("setup-error", "critical", _SETUP_REMEDY, _setup_error),
    Rule(RESERVED_UNCOVERED, "warning", _SETUP_REMEDY, _reserved_uncovered),
    Rule(
        "cpus-not-placed",
        "warning",
        "No verdict that depends on these CPUs can be given. Compare /sys/devices/system/node/node*/cpulist with "
        "/sys/devices/system/cpu/online; in a captured tree, look for files that were cut short, and capture again.",
        _cpus_not_placed,
    ),
    Rule(
        "checkpoint-damaged",
        "critical",
        "Drain the node, stop the kubelet, delete the file, start the kubelet. `numaudit state verify` says more.",
        _checkpoint_damaged,
    ),
    Rule(CHECKPOINT_ABSENT, "warning", STATE_MEANINGS[CHECKPOINT_ABSENT].remedy, _checkpoint_absent),
    Rule(
        "restart-unsafe",
        "critical",
        "Repair what the message names before the kubelet restarts: it would not start again, and the node would go "
        "not ready.",
        _restart_unsafe,
    ),
    Rule(
        "restart-refuses-pods",
        "warning",
        "Drain the pods that are named before the kubelet restarts, or undo the change of its configuration. "
        "`numaudit forecast` says more.",
        _restart_refuses_pods,
    ),
    Rule(
        "refusals-missed",
        "info",
        "The kubelet's log has gaps (rotation, or the journal's rate limit): raise RateLimitBurst for the kubelet's "
        "unit or keep more of its log. Pods that it refused may be missing here.",
        _refusals_missed,
    ),
    Rule(
        "resize-pending",
        "info",
        "What is allocated counts, not the wish. Where it is infeasible, set the old amount, or create the pod again.",
        _resize_pending,
    ),
    Rule(
        "setting-ignored",
        "info",
        "A kubelet passes over fields that it does not know, and the default is in force. Correct the name.",
        _setting_ignored,
    ),
    Rule(
        "sources-disagree",
        "info",
        "Compare the sources that are named; the kubelet may just have restarted.",
        _sources_disagree,
    ),
)
