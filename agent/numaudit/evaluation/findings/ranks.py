"""Rules about ranks: processes that are not where their launcher was to bind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numaudit.errors import printable
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.evaluation.ranks.rank import Rank, RankVerdict
from numaudit.snapshot import Container
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units, plural

_NAMED = 3


def _ranks_with(verdict: RankVerdict) -> Callable[[TickEvidence], Iterator[RuleResult]]:
    def find(evidence: TickEvidence) -> Iterator[RuleResult]:
        for one, counted in _counted(evidence):
            found = [rank for rank in counted if rank.verdict == verdict]
            if found:
                nodes = NodeSet.from_ids(node for rank in found for node in rank.problems[0].numa_nodes or ())
                yield _result(one, f"{len(found)} of {plural(len(counted), 'rank')}: {_named(found)}", nodes or None)

    return find


def _devices_elsewhere(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, counted in _counted(evidence):
        found = [rank for rank in counted if rank.devices_elsewhere]
        if found:
            held = [device for rank in found for device in rank.devices_elsewhere]
            nodes = NodeSet.from_ids(device.numa_node for device in held if device.numa_node is not None)
            named = "; ".join(f"{rank.title}: {rank.devices_note}" for rank in found[:_NAMED])
            more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            yield _result(one, f"{len(found)} of {plural(len(counted), 'rank')}: {named}{more}", nodes)


def _crowded(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, counted in _counted(evidence):
        found = [(rank, rank.idle_nodes) for rank in counted if rank.idle_nodes]
        if found:
            idle = NodeSet.from_ids(node for _, nodes in found for node in nodes)
            text = (
                f"{len(found)} of {plural(len(counted), 'rank')}: all ranks of their job are on one node, and it may "
            )
            yield _result(one, f"{text}use {idle.in_words}, where it has none", idle)


def _counted(evidence: TickEvidence) -> Iterator[tuple[Container, list[Rank]]]:
    for one in evidence.containers_in(evidence.ranks):
        yield one, [rank for rank in evidence.ranks[one.id] if rank.counts]


def _result(one: Container, text: str, nodes: NodeSet | None) -> RuleResult:
    return RuleResult(
        printable(text), one.id, one.pod_uid, one.name or one.path, nodes, namespace=one.namespace, pod=one.pod
    )


def _named(found: Sequence[Rank]) -> str:
    """The ranks with their likely causes, without anything that was declared."""
    named = ", ".join(f"{one.title}: {_cause(one)}" for one in found[:_NAMED])
    return named + (f", and {len(found) - _NAMED} more" if len(found) > _NAMED else "")


def _cause(one: Rank) -> str:
    worst = one.problems[0]
    if worst.bytes is None or not worst.numa_nodes:
        return worst.cause
    return f"{worst.cause}, {in_units(worst.bytes)} on {worst.numa_nodes.in_words}"


RULES = (
    Rule(
        "declared-not-in-force",
        "warning",
        "Where a filter refused the policy, use a seccomp profile that allows set_mempolicy, or add CAP_SYS_NICE to "
        "the container. Else start it with numactl as the last command before it, on nodes and CPUs that its cpuset "
        "has.",
        _ranks_with("declared-not-in-force"),
    ),
    Rule(
        "first-touch-before-bind",
        "warning",
        "Start it with numactl, which binds before any memory is used. Move what is misplaced with "
        "`migratepages PID FROM TO`.",
        _ranks_with("first-touch-before-bind"),
    ),
    Rule(
        "thread-astray",
        "info",
        "Bind its threads (`taskset -a -p -c CPUS PID`), or bind the process before it starts any.",
        _ranks_with("thread-astray"),
    ),
    Rule(
        "rank-device-elsewhere",
        "info",
        "Bind the rank to the node of its device, or give it a device of its node (`CUDA_VISIBLE_DEVICES`).",
        _devices_elsewhere,
    ),
    Rule(
        "ranks-crowded",
        "info",
        "If they share a node by mistake, let the launcher spread them.",
        _crowded,
    ),
)
