"""Rules about processes: their memory policies, and ranks that are not where their launcher was to bind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numaudit.evaluation.findings.memory_short import available
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about_row
from numaudit.evaluation.ranks.rank import Rank, RankVerdict
from numaudit.ranks.policy import understood
from numaudit.snapshot import Container, Mappings, NodeMemory
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units, plural

_NEARLY_FULL = 0.05
"""Share of the nodes' memory: with less of it free or reclaimable, the next allocations may find none."""


def _bind_oom(evidence: TickEvidence) -> Iterator[RuleResult]:
    """Bound memory that can grow on nearly full nodes only. Where no process was read, nothing is found."""
    snapshot = evidence.snapshot
    for one in evidence.containers_in(snapshot.numa_maps):
        for nodes, (policy, size) in _bound(snapshot.numa_maps[one.id]).items():
            room = _room(snapshot.nodes, nodes)
            if room is not None and room[0] < _NEARLY_FULL * room[1]:
                yield _finding(one, nodes, policy, size, room)


def _bound(mappings: Mappings) -> dict[NodeSet, tuple[str, int]]:
    """By set of nodes: a bind policy, and the bytes under it. Huge pages come from pools of their own."""
    found: dict[NodeSet, tuple[str, int]] = {}
    for one in mappings.by_process:
        policy = understood(one.policy)
        if policy is not None and policy.kind == "bind" and policy.nodes and one.kind != "hugetlb":
            _, before = found.get(policy.nodes, (one.policy, 0))
            found[policy.nodes] = one.policy, before + sum(one.bytes_by_node.values())
    return found


def _room(nodes: Sequence[NodeMemory], within: NodeSet) -> tuple[int, int] | None:
    """Free and reclaimable bytes of these nodes, and all they have; None = not known of one of them."""
    free, totals = available(nodes, within), [one.total for one in nodes if one.node in within]
    return None if free is None or not all(totals) else (free, sum(filter(None, totals)))


def _finding(one: Container, nodes: NodeSet, policy: str, size: int, room: tuple[int, int]) -> RuleResult:
    text = (
        f"its memory policy {policy} allows {nodes.in_words} only, where {in_units(room[0])} of {in_units(room[1])} "
        f"are free or reclaimable; {in_units(size)} are under it, and it cannot grow elsewhere"
    )
    return about_row(one, text, nodes)


_NAMED = 3


def _ranks_with(verdict: RankVerdict) -> Callable[[TickEvidence], Iterator[RuleResult]]:
    def find(evidence: TickEvidence) -> Iterator[RuleResult]:
        for one, counted in _counted(evidence):
            found = [rank for rank in counted if rank.verdict == verdict]
            if found:
                nodes = NodeSet.from_ids(node for rank in found for node in rank.problems[0].numa_nodes or ())
                yield about_row(one, f"{len(found)} of {plural(len(counted), 'rank')}: {_named(found)}", nodes or None)

    return find


def _devices_elsewhere(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, counted in _counted(evidence):
        found = [rank for rank in counted if rank.devices_elsewhere]
        if found:
            held = [device for rank in found for device in rank.devices_elsewhere]
            nodes = NodeSet.from_ids(device.numa_node for device in held if device.numa_node is not None)
            named = "; ".join(f"{rank.title}: {rank.devices_note}" for rank in found[:_NAMED])
            more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            yield about_row(one, f"{len(found)} of {plural(len(counted), 'rank')}: {named}{more}", nodes)


def _crowded(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, counted in _counted(evidence):
        found = [(rank, rank.idle_nodes) for rank in counted if rank.idle_nodes]
        if found:
            idle = NodeSet.from_ids(node for _, nodes in found for node in nodes)
            text = (
                f"{len(found)} of {plural(len(counted), 'rank')}: all ranks of their job are on one node, and it may "
            )
            yield about_row(one, f"{text}use {idle.in_words}, where it has none", idle)


def _counted(evidence: TickEvidence) -> Iterator[tuple[Container, list[Rank]]]:
    for one in evidence.containers_in(evidence.ranks):
        yield one, [rank for rank in evidence.ranks[one.id] if rank.counts]


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
        "bind-oom",
        "warning",
        "Move pods that are not Guaranteed off the node: with a policy of bind the kernel kills a process when these "
        "nodes are full, whatever is free on others.",
        _bind_oom,
    ),
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
