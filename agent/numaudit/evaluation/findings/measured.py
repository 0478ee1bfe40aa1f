"""Rules about what the probes measured, and about what that cost."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.topology.quantity import plural


def _cannot_heal(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Memory is used from another node, NUMA balancing wants to bring it home, and cannot."""
    snapshot = evidence.snapshot
    for one in evidence.containers_in(evidence.histories):
        history = evidence.histories[one.id]
        if history.moves is None or not history.moves.is_past:
            continue
        failed, moved = (round(history.moves.amounts.amounts.get(kind, 0)) for kind in ("failed", "moved"))
        text = (
            f"NUMA balancing could not bring {plural(failed, 'page')} to the node where they are used; it moved {moved}"
        )
        allowed = snapshot.allowed.get(one.id)
        nodes = None if allowed is None else allowed.nodes
        yield RuleResult(text, one.id, one.pod_uid, one.name or one.path, nodes, namespace=one.namespace, pod=one.pod)


def _over_budget(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The probes used more CPU time than their limit, so some of them are paused."""
    overhead = evidence.snapshot.overhead
    if overhead is not None and overhead.steps:
        text = (
            f"the probes reached their limit of {overhead.limit:.2%} of the CPU time. Steps: "
            f"{', '.join(overhead.steps)}"
        )
        if overhead.coverage is not None:
            text += f"; {overhead.coverage:.0%} of the containers are watched at a time"
        yield RuleResult(text)


RULES = (
    Rule(
        "cannot-heal",
        "warning",
        "The kernel cannot move this memory to the CPUs that use it, because cpuset.mems does not allow their node or "
        "that node is full: let it use the memory of the nodes where its CPUs are, or run it on CPUs of the "
        "nodes where its memory is. Until then each attempt costs time and moves nothing.",
        _cannot_heal,
    ),
    Rule(
        "over-budget",
        "info",
        "Nothing has to be done: paused probes resume when there is less load. To measure more, raise the agent's "
        "setting overhead.max_cpu_percent, or name fewer probes.",
        _over_budget,
    ),
)
