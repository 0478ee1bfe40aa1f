"""Commands that bring a rank to where it was bound, with its values; none where it is not sure that they help."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.ranks.rank import Rank, RankProblem
from numaudit.ranks.policy import understood
from numaudit.snapshot.processes import ProcessPlacement
from numaudit.topology.nodeset import NodeSet


def commands(rank: Rank, process: ProcessPlacement) -> tuple[str, ...]:
    """taskset(1) for CPUs, migratepages(8) for memory.

    A memory policy cannot be set from outside, a full node takes no pages, and a launcher that places each thread by
    itself would lose that: of these there are none.
    """
    if not rank.counts:
        return ()
    return tuple(dict.fromkeys(found for one in rank.problems for found in _for(one, rank, process)))


def _for(problem: RankProblem, rank: Rank, process: ProcessPlacement) -> Iterator[str]:
    if problem.cause in ("cpus-not-bound", "threads-outside"):
        declared = next((one for one in rank.declarations if one.has_cpus), None)
        if declared is not None and declared.cpus and declared.threads == "all" and not declared.one_node:
            yield f"taskset -a -p -c {declared.cpus} {rank.pid}"
    elif problem.cause == "touched-before" and problem.numa_nodes:
        home = _home(process)
        if home:
            yield f"migratepages {rank.pid} {problem.numa_nodes} {home}"


def _home(process: ProcessPlacement) -> NodeSet | None:
    """Nodes to which its policy binds it, else the one of its CPUs; None = not known, or its cpuset forbids them."""
    main = process.main
    policy = None if process.policy is None else understood(process.policy)
    if main is None or policy is None:
        return None
    home = policy.nodes if policy.kind not in (None, "local") else main.cpu_nodes
    if home is None or main.memory_nodes is None or not home <= main.memory_nodes:
        return None
    return home if len(home) == 1 or policy.kind == "bind" else None
