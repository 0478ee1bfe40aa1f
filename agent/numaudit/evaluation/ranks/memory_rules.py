"""Rules about the memory of a rank: its policy, and where its pages are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaudit.errors import ParseError
from numaudit.evaluation.ranks.rank import RankContext, RankProblem
from numaudit.evaluation.verdicts import DEFAULT
from numaudit.ranks import policy
from numaudit.ranks.declaration import Declaration, PolicyKind
from numaudit.ranks.policy import PolicyInForce
from numaudit.snapshot.processes import MappedMemory, ProcessPlacement
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_FULFILLED_BY: Mapping[PolicyKind, tuple[PolicyKind | None, ...]] = {
    "bind": ("bind",),
    "preferred": ("preferred", "preferred-many"),
    "preferred-many": ("preferred-many",),
    "interleave": ("interleave",),
    "weighted-interleave": ("weighted-interleave",),
    "local": ("local", None),
    "bound": ("bind", "preferred", "preferred-many"),
    "any": ("bind", "preferred", "preferred-many", "interleave", "weighted-interleave"),
}
"""Policies in force that fulfil a declared one. None = default, which places pages as `local` does."""
_PRIVATE = ("anon", "heap", "stack")


class NotRead(Exception):
    """A part of the evidence is missing."""


def policy_problems(declared: Declaration, process: ProcessPlacement, context: RankContext) -> Iterator[RankProblem]:
    """Differences between the declared policy and the one in force. Raises NotRead."""
    if declared.memory_of == "huge-pages":
        yield from _huge_pages(declared, process, context)
    elif declared.policy is not None and declared.memory_of == "mappings":
        yield from _of_mappings(declared, declared.policy, process, context)
    elif declared.policy is not None:
        yield from _of_threads(declared, declared.policy, process, context)


def _of_threads(
    declared: Declaration, kind: PolicyKind, process: ProcessPlacement, context: RankContext
) -> Iterator[RankProblem]:
    found = policy_in_force(process)
    if found.kind not in _FULFILLED_BY[kind]:
        yield _not_in_force(declared, found, process, context)
        return
    wanted, main = declared.memory_nodes, process.main
    if wanted is None or found.kind in (None, "local"):
        yield from _one_node(declared, found)
        return
    if found.nodes == wanted or (declared.one_node and len(found.nodes) == 1 and found.nodes <= wanted):
        return
    allowed = None if main is None else main.memory_nodes
    if allowed is not None and found.nodes == wanted & allowed:
        text = f"{_declares(declared)}, and its cpuset allows {(wanted & allowed).in_words} of them only"
        yield RankProblem("declared-not-in-force", "cut-by-cpuset", text)
    else:
        text = f"{_declares(declared)}, but its memory policy is on {found.nodes.in_words}"
        yield RankProblem("declared-not-in-force", "wrong-node", text)


def _one_node(declared: Declaration, found: PolicyInForce) -> Iterator[RankProblem]:
    if declared.one_node and len(found.nodes) > 1:
        text = f"{declared.source} binds it to one node, but its memory policy is on {found.nodes.in_words}"
        yield RankProblem("declared-not-in-force", "wrong-node", text)


def _not_in_force(
    declared: Declaration, found: PolicyInForce, process: ProcessPlacement, context: RankContext
) -> RankProblem:
    """Another policy, or none, with the likely cause."""
    main = process.main
    if found.kind is not None:
        text = f"{_declares(declared)}, but its memory policy is {process.policy}"
        return RankProblem("declared-not-in-force", "other-policy", text)
    nothing = f"{_declares(declared)}, but it has no memory policy"
    wanted, allowed = declared.memory_nodes, None if main is None else main.memory_nodes
    if wanted is not None and allowed is not None and wanted.isdisjoint(allowed):
        text = f"{nothing}: its cpuset allows {allowed.in_words} only"
        return RankProblem("declared-not-in-force", "cut-by-cpuset", text)
    if process.seccomp == "filter" and process.sys_nice is False:
        text = f"{nothing}: it has a seccomp filter and no CAP_SYS_NICE, so set_mempolicy(2) was probably refused"
        return RankProblem("declared-not-in-force", "refused-by-seccomp", text)
    if declared.policy is not None and _ancestor_has_it(declared.policy, process, context):
        text = f"{nothing}: an ancestor has it, so the process or a library of it has reset its own"
        return RankProblem("declared-not-in-force", "policy-lost", text)
    return RankProblem("declared-not-in-force", "not-set", f"{nothing}: nobody set it, or it was reset")


def _ancestor_has_it(kind: PolicyKind, process: ProcessPlacement, context: RankContext) -> bool:
    seen = {process.pid}
    parent = process.parent
    while parent is not None and parent not in seen and parent in context.processes:
        seen.add(parent)
        one = context.processes[parent]
        if one.policy is not None and read_policy(one.policy).kind in _FULFILLED_BY[kind]:
            return True
        parent = one.parent
    return False


def _of_mappings(
    declared: Declaration, kind: PolicyKind, process: ProcessPlacement, context: RankContext
) -> Iterator[RankProblem]:
    """Policies of single mappings: there must be some, on all declared nodes and on no other."""
    found = NodeSet()
    is_there = False
    for one in mappings_of(process):
        parsed = read_policy(one.policy)
        if parsed.kind is not None and parsed.kind in _FULFILLED_BY[kind]:
            is_there, found = True, NodeSet(found.mask | parsed.nodes.mask)
    if not is_there:
        yield _not_in_force(declared, PolicyInForce(None, NodeSet()), process, context)
    elif declared.memory_nodes is not None and found != declared.memory_nodes:
        text = f"{_declares(declared)}, but the policies of its mappings are on {found.in_words}"
        yield RankProblem("declared-not-in-force", "wrong-node", text)


def _huge_pages(declared: Declaration, process: ProcessPlacement, context: RankContext) -> Iterator[RankProblem]:
    wanted = declared.memory_nodes
    if wanted is None:
        return
    by_node: dict[int, int] = {}
    for one in mappings_of(process):
        if one.kind == "hugetlb":
            add(by_node, one.bytes_by_node)
    outside = {node: size for node, size in by_node.items() if node not in wanted and size}
    if outside:
        nodes = NodeSet.from_ids(outside)
        text = f"{_declares(declared)}, but {in_units(sum(outside.values()))} of its huge pages are on {nodes.in_words}"
        yield RankProblem("declared-not-in-force", "wrong-node", text, sum(outside.values()), nodes)


def placement_problems(
    declared: Declaration | None, cpu_nodes: NodeSet | None, process: ProcessPlacement, context: RankContext
) -> Iterator[RankProblem]:
    """Private memory on other nodes than its policy says, or than those of its declared CPUs. Raises NotRead.

    `cpu_nodes`: the nodes of its CPUs, where these were declared and are in force.
    """
    target, why = _target(declared, cpu_nodes, process)
    found = None if target is None else _elsewhere(target, process, context)
    if target is None or found is None or _is_preference(process):
        return
    away, text = found
    size, nodes = sum(away.values()), NodeSet.from_ids(away)
    if policy_in_force(process).kind == "bind":
        yield RankProblem("first-touch-before-bind", "touched-before", f"{text}, touched before {why}", size, nodes)
    elif target.isdisjoint(context.full_nodes):
        text += f", touched before {why}, or while {target.in_words} was full"
        yield RankProblem("first-touch-before-bind", "touched-before", text, size, nodes)
    else:
        text += f", {target.in_words} being full"
        yield RankProblem("first-touch-before-bind", "node-full", text, size, nodes)


def allowed_elsewhere(declared: Declaration | None, process: ProcessPlacement, context: RankContext) -> str | None:
    """Private memory beside the nodes that its policy prefers, in words; None = there is none, or it is not known.

    A preferred node that is full sends pages to others, and nothing shows later that it was.
    """
    try:
        target, _ = _target(declared, None, process)
        found = _elsewhere(target, process, context) if target is not None and _is_preference(process) else None
    except NotRead:
        return None
    return None if found is None else f"{found[1]}, which its policy allows"


def _is_preference(process: ProcessPlacement) -> bool:
    return policy_in_force(process).kind in ("preferred", "preferred-many")


def _elsewhere(target: NodeSet, process: ProcessPlacement, context: RankContext) -> tuple[dict[int, int], str] | None:
    """Private memory on other nodes with CPUs, in bytes and in words. None = too little. Raises NotRead."""
    private: dict[int, int] = {}
    for one in mappings_of(process):
        if one.kind in _PRIVATE and one.policy == process.policy:
            add(private, one.bytes_by_node)
    total = sum(private.values())
    outside = {
        node: size for node, size in private.items() if size and node not in target and node not in context.memory_only
    }
    away = sum(outside.values())
    if away <= DEFAULT.spilled_bytes or away <= DEFAULT.spilled_share * total:
        return None
    return outside, f"{in_units(away)} of {in_units(total)} on {NodeSet.from_ids(outside).in_words}"


def _target(
    declared: Declaration | None, cpu_nodes: NodeSet | None, process: ProcessPlacement
) -> tuple[NodeSet | None, str]:
    """Nodes of its private memory. None = any, or it is not known."""
    found = policy_in_force(process)
    if declared is not None and declared.memory_of == "process" and found.kind not in (None, "local"):
        return found.nodes, "it was bound"
    by_cpus = declared is None or declared.policy == "local"
    if by_cpus and found.kind in (None, "local") and cpu_nodes is not None and len(cpu_nodes) == 1:
        return cpu_nodes, "it was bound to its CPUs, or by another thread"
    return None, ""


def shared_elsewhere(process: ProcessPlacement) -> int | None:
    """Shared memory under a policy of nodes that lies on others, in bytes; None = not read."""
    if process.mappings is None:
        return None
    size = 0
    for one in process.mappings:
        parsed = read_policy(one.policy)
        if one.kind == "shmem" and parsed.nodes:
            size += sum(size for node, size in one.bytes_by_node.items() if node not in parsed.nodes)
    return size


def policy_in_force(process: ProcessPlacement) -> PolicyInForce:
    """Of the main thread. Raises NotRead."""
    if process.policy is None:
        reasons = [one.reason for one in process.unread if one.what in ("mappings", "policy")]
        raise NotRead(f"its memory policy was not read: {reasons[0] if reasons else 'it maps nothing'}")
    return read_policy(process.policy)


def mappings_of(process: ProcessPlacement) -> tuple[MappedMemory, ...]:
    """Raises NotRead."""
    if process.mappings is None:
        reasons = [one.reason for one in process.unread if one.what == "mappings"]
        raise NotRead(f"its mappings were not read: {reasons[0] if reasons else 'no reason is known'}")
    return process.mappings


def read_policy(text: str) -> PolicyInForce:
    """Raises NotRead."""
    try:
        return policy.parse(text)
    except ParseError as error:
        raise NotRead(str(error)) from None


def add(sums: dict[int, int], by_node: Mapping[int, int]) -> None:
    for node, size in by_node.items():
        sums[node] = sums.get(node, 0) + size


def _declares(declared: Declaration) -> str:
    """`--membind (numactl) declares bind on node 1`."""
    kind = {"bound": "a bound policy", "any": "a policy", None: "memory"}.get(declared.policy, declared.policy)
    where = f" on {declared.memory_nodes.in_words}" if declared.memory_nodes else ""
    return f"{declared.source} declares {kind}{where}"
