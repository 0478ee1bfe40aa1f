"""Rules about the CPUs of a rank, about threads that have others than it, or another memory policy, and about its
devices: those on another node than the one to which it is bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.evaluation.ranks.memory_rules import NotRead, policy_in_force
from numaudit.evaluation.ranks.rank import Rank, RankContext, RankProblem
from numaudit.ranks.declaration import Declaration, DeviceKind, HeldDevice
from numaudit.ranks.table import OF_JOBS
from numaudit.snapshot.processes import ProcessPlacement, ThreadGroup
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import plural


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


def idle_nodes(ranks: Sequence[Rank], context: RankContext) -> dict[int, NodeSet]:
    """Process id of each rank of a job that is on one node as a whole -> the other nodes that the job may use.

    A job: children of one process that one launcher places one by one.
    """
    jobs: dict[tuple[int, str], list[Rank]] = {}
    for one in ranks:
        parent = context.processes[one.pid].parent
        launcher = next((own.launcher for own in one.declarations if own.launcher in OF_JOBS), None)
        if one.counts and parent is not None and launcher is not None:
            jobs.setdefault((parent, launcher), []).append(one)
    found: dict[int, NodeSet] = {}
    for job in jobs.values():
        homes = {_home(context.processes[one.pid]) for one in job}
        idle = _others(homes.pop(), job, context) if len(job) > 1 and len(homes) == 1 else None
        found.update({one.pid: idle for one in job} if idle else {})
    return found


def _home(process: ProcessPlacement) -> int | None:
    """The node that all of its threads may run on; None = there are several, or it is not known."""
    every = NodeSet()
    for one in process.thread_groups:
        if one.cpu_nodes is None:
            return None
        every |= one.cpu_nodes
    return next(iter(every)) if len(every) == 1 else None


def _others(home: int | None, job: Sequence[Rank], context: RankContext) -> NodeSet | None:
    """Nodes with CPUs and memory that a job on this node may use, too. None = its GPUs are there, or unknown."""
    allowed = context.allowed
    if home is None or allowed is None or allowed.cpus is None or allowed.nodes is None:
        return None
    gpus = {device.numa_node for one in job for device in one.devices if device.kind == "gpu"}
    if gpus and gpus <= {home, None}:
        return None
    return (context.nodes_of(allowed.cpus) & allowed.nodes) - NodeSet.of(home)


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


_COMPARED: tuple[DeviceKind, ...] = ("gpu", "vfio", "infiniband", "network")
"""A disk serves the whole node."""


def devices_elsewhere(
    declarations: Sequence[Declaration],
    devices: Sequence[HeldDevice],
    process: ProcessPlacement,
    context: RankContext,
) -> tuple[HeldDevice, ...]:
    """Devices on nodes that are neither declared nor in force, of a rank that has one node with CPUs."""
    try:
        own = _nodes(declarations, process, context) - context.memory_only
    except NotRead:
        return ()
    if len(own) != 1:
        return ()
    away = []
    for kind in _COMPARED:
        of_kind = [one for one in devices if one.kind == kind]
        if all(_is_away(one, own, context) for one in of_kind):
            away += of_kind
    return tuple(away)


def _nodes(declarations: Sequence[Declaration], process: ProcessPlacement, context: RankContext) -> NodeSet:
    """Declared and in force. Raises NotRead."""
    nodes = context.nodes_of(cpus_of(process)) | policy_in_force(process).nodes
    for one in declarations:
        nodes |= one.memory_nodes or NodeSet()
        nodes |= NodeSet() if one.cpus is None else context.nodes_of(one.cpus)
    return nodes


def _is_away(device: HeldDevice, own: NodeSet, context: RankContext) -> bool:
    """Next to a node without CPUs no process can run."""
    node = device.numa_node
    return node is not None and node not in own and bool(context.cpus_of.get(node))
