"""Rules about what was measured: memory that the kernel moves to slower tiers, or may; what the probes saw, and what
that cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaudit.evaluation.causes.arrivals import Demotion, demotion, slower_nodes
from numaudit.evaluation.causes.placement import name_of
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about_row
from numaudit.evaluation.verdicts import DEFAULT
from numaudit.snapshot import Container
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units, plural

_NAMED = 3
_OFF = "`echo false > /sys/kernel/mm/numa/demotion_enabled`"


def _demotable(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The kernel may move memory off the nodes that it was promised or confined to."""
    settings = evidence.snapshot.tiers
    if settings is None or not settings.demotion:
        return
    held = _held_nodes(evidence)
    reach = {one.id: _reach(evidence, one, nodes) for one, nodes in held.values()}
    there = [one for one, _ in held.values() if reach[one.id]]
    if not there:
        return
    names = ", ".join(name_of(one) for one in there[:_NAMED])
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    nodes = NodeSet.from_ids(node for one in there for node in reach[one.id])
    proof = _proof(evidence, held)
    text = (
        f"demotion is on, and the kernel may move memory of {names}{more} to the slower nodes {nodes}, outside the "
        f"nodes that {'it was' if len(there) == 1 else 'they were'} promised or confined to: "
        f"{proof or _WHY[settings.keeps_cpuset]}"
    )
    yield RuleResult(text, numa_nodes=nodes)


_WHY = {
    True: "cpuset.mems allows these nodes",
    False: "this kernel demotes without regard to cpuset.mems",
    None: "whether this kernel keeps to cpuset.mems is not known",
}
"""By TierSettings.keeps_cpuset."""


def _proof(evidence: TickEvidence, held: Mapping[int, tuple[Container, NodeSet]]) -> str | None:
    """Proof by what this kernel has done already, which says more than what it is built to do."""
    snapshot = evidence.snapshot
    moved = [demotion(one.id, nodes, snapshot) for one, nodes in held.values() if _is_narrow(evidence, one, nodes)]
    size = sum(one.explained for one in moved if one is not None)
    if size <= DEFAULT.spilled_bytes:
        return None
    return f"this kernel has demoted {in_units(size)} past a cpuset.mems that does not allow it"


def _is_narrow(evidence: TickEvidence, one: Container, nodes: NodeSet) -> bool:
    """Does its cpuset forbid all slower nodes?"""
    allowed = evidence.snapshot.allowed.get(one.id)
    if allowed is None or allowed.nodes is None:
        return False
    return allowed.nodes.isdisjoint(slower_nodes(nodes, evidence.snapshot))


def _reach(evidence: TickEvidence, one: Container, nodes: NodeSet) -> NodeSet:
    """Nodes that its memory may be demoted to although it should not be there."""
    snapshot, settings = evidence.snapshot, evidence.snapshot.tiers
    allowed = snapshot.allowed.get(one.id)
    slower = slower_nodes(nodes, snapshot)
    if settings is not None and settings.keeps_cpuset and allowed is not None and allowed.nodes is not None:
        return slower & allowed.nodes
    return slower


def _held_nodes(evidence: TickEvidence) -> dict[int, tuple[Container, NodeSet]]:
    """Each whole container with the nodes that it was promised, or else with those that a cpuset confines it to."""
    snapshot = evidence.snapshot
    found: dict[int, tuple[Container, NodeSet]] = {}
    for one in snapshot.containers:
        intent = evidence.intent.by_cgroup.get(one.id)
        nodes = None if intent is None else intent.promise.memory_nodes
        if not nodes:
            allowed = snapshot.allowed.get(one.id)
            nodes = None if allowed is None else allowed.nodes
            if nodes is None or not nodes < snapshot.machine.with_memory:
                continue
        if one.whole:
            found[one.id] = (one, nodes)
    return found


def _demoted(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The kernel has moved memory off the nodes that it was promised or confined to, and it is still there."""
    snapshot = evidence.snapshot
    for one, nodes in _held_nodes(evidence).values() if snapshot.machine.is_tiered else ():
        found = demotion(one.id, nodes, snapshot)
        if found is not None and found.explained > DEFAULT.spilled_bytes:
            yield about_row(one, _sentence(found, nodes), found.nodes)


def _sentence(found: Demotion, nodes: NodeSet) -> str:
    node = "node" if len(nodes) == 1 else "nodes"
    return (
        f"the kernel moved at most {in_units(found.explained)} of its memory from {node} {nodes} to the slower nodes "
        f"{found.nodes}, where it is now; {found.counters}"
    )


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
        yield about_row(one, text, None if allowed is None else allowed.nodes)


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
        "demoted",
        "warning",
        f"Turn demotion off ({_OFF}). To bring memory back, write the slow nodes to cpuset.mems too and then the "
        "promised ones alone, or set kernel.numa_balancing to 2, or recreate the container.",
        _demoted,
    ),
    Rule(
        "demotable",
        "warning",
        f"Turn demotion off ({_OFF}) where memory is promised by node.",
        _demotable,
    ),
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
