"""Rules about the memory policies of processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.errors import printable
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.evaluation.room.policies import is_bind, policy_nodes
from numaudit.snapshot import Container, Mappings, NodeMemory
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

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
        nodes = policy_nodes(one.policy) if is_bind(one.policy) and one.kind != "hugetlb" else None
        if nodes:
            _, before = found.get(nodes, (one.policy, 0))
            found[nodes] = one.policy, before + sum(one.bytes_by_node.values())
    return found


def _room(nodes: Sequence[NodeMemory], within: NodeSet) -> tuple[int, int] | None:
    """Free and reclaimable bytes of these nodes, and all they have; None = not known of one of them."""
    by_node = {one.node: one for one in nodes}
    free = total = 0
    for node in within:
        one = by_node.get(node)
        if one is None or one.free is None or not one.total:
            return None
        free, total = free + one.free + (one.reclaimable or 0), total + one.total
    return free, total


def _finding(one: Container, nodes: NodeSet, policy: str, size: int, room: tuple[int, int]) -> RuleResult:
    text = (
        f"its memory policy {policy} allows {nodes.in_words} only, where {in_units(room[0])} of {in_units(room[1])} "
        f"are free or reclaimable; {in_units(size)} are under it, and it cannot grow elsewhere"
    )
    return RuleResult(
        printable(text), one.id, one.pod_uid, one.name or one.path, nodes, namespace=one.namespace, pod=one.pod
    )


RULES = (
    Rule(
        "bind-oom",
        "warning",
        "Move pods that are not Guaranteed off the node: with a policy of bind the kernel kills a process when these "
        "nodes are full, whatever is free on others.",
        _bind_oom,
    ),
)
