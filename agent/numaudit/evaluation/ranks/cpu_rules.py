"""Rules about the CPUs of a rank, and about threads that have others than it, or another memory policy."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.ranks.context import RankContext
from numaudit.evaluation.ranks.memory_rules import NotRead
from numaudit.evaluation.ranks.rank import RankProblem
from numaudit.process_placement import ProcessPlacement, ThreadGroup
from numaudit.ranks.declaration import Declaration
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.sizes import plural


def affinity_problems(declared: Declaration, process: ProcessPlacement, context: RankContext) -> Iterator[RankProblem]:
    """Differences between the declared CPUs and those that the main thread may use. Raises NotRead."""
    cpus = cpus_of(process)
    nodes = context.nodes_of(cpus)
    if declared.cpus is None:
        if len(nodes) > 1:
            text = f"{declared.source} binds it to the CPUs of one node, but it may run on {nodes.in_words}"
            yield RankProblem("declared-not-in-force", "cpus-not-bound", text)
        return
    wanted, allowed = declared.cpus, None if context.allowed is None else context.allowed.cpus
    text = f"{declared.source} declares {wanted.in_words}"
    if allowed is not None and wanted.isdisjoint(allowed):
        text += f", and its cpuset allows {allowed.in_words} only"
        yield RankProblem("declared-not-in-force", "cut-by-cpuset", text)
    elif not cpus <= wanted:
        text += f", but it may run on {cpus.in_words}, of {nodes.in_words}"
        yield RankProblem("declared-not-in-force", "cpus-not-bound", text)
    elif declared.one_node and len(nodes) > 1:
        text = f"{declared.source} binds it to the CPUs of one node, but it may run on {nodes.in_words}"
        yield RankProblem("declared-not-in-force", "cpus-not-bound", text)


def thread_problems(
    memory: Declaration | None, cpus: Declaration | None, process: ProcessPlacement, context: RankContext
) -> Iterator[RankProblem]:
    """Threads that may run on other nodes than declared, and those without the main thread's policy. Raises NotRead."""
    if cpus is not None and cpus.threads == "all":
        home = context.nodes_of(cpus_of(process) if cpus.cpus is None else cpus.cpus)
        outside = [one for one in process.differing if one.cpus is not None and context.nodes_of(one.cpus) - home]
        if outside:
            nodes = NodeSet.from_ids(node for one in outside for node in one.cpu_nodes or ())
            text = f"{_threads(outside)} may run on {nodes.in_words}, outside the CPUs of {cpus.source}"
            yield RankProblem("thread-astray", "threads-outside", text)
    if memory is not None and memory.memory_of == "process":
        unlike = [one for one in process.differing if one.policy is not None and one.policy != process.policy]
        if unlike and process.policy is not None:
            policies = ", ".join(sorted({one.policy or "" for one in unlike}))
            text = f"{_threads(unlike)} without its policy {process.policy}, but with {policies}"
            yield RankProblem("thread-astray", "threads-policy", text)


def _threads(groups: list[ThreadGroup]) -> str:
    count = sum(one.threads for one in groups)
    names = list(dict.fromkeys(name for one in groups for name in one.names))
    return plural(count, "thread") + (f" ({', '.join(names[:2])})" if names else "")


def cpus_of(process: ProcessPlacement) -> CpuSet:
    """Of the main thread. Raises NotRead."""
    if process.main is None or process.main.cpus is None:
        reasons = [one.reason for one in process.unread if one.what in ("threads", "status")]
        raise NotRead(f"its affinity was not read: {reasons[0] if reasons else 'no reason is known'}")
    return process.main.cpus
