"""The verdict of each process with a declaration, and the summary of a container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, field, structs

from numaudit.evaluation.ranks.cpu_device_rules import (
    affinity_problems,
    cpus_of,
    devices_elsewhere,
    idle_nodes,
    thread_problems,
)
from numaudit.evaluation.ranks.memory_rules import (
    NotRead,
    allowed_elsewhere,
    mappings_of,
    placement_problems,
    policy_in_force,
    policy_problems,
    read_policy,
    shared_elsewhere,
)
from numaudit.evaluation.ranks.rank import (
    NOT_WHERE_BOUND,
    RANK_VERDICTS,
    Rank,
    RankContext,
    RankProblem,
    RankVerdict,
    context_of,
)
from numaudit.ranks.declaration import Declaration
from numaudit.ranks.policy import BINDING
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.processes import ProcessPlacement
from numaudit.topology.nodeset import NodeSet

_HELPER_SHARE = 0.01
"""A process with less memory than this share of the largest rank's, and without a number, is a helper of a rank."""
_NAMED = 2


def ranks_of(container: ContainerId, snapshot: Snapshot) -> tuple[Rank, ...]:
    """Its processes with a declaration, by their ids; empty = none declares anything, or they were not read."""
    processes, told = snapshot.processes.get(container), snapshot.told.get(container, {})
    if processes is None:
        watched = snapshot.watched.get(container)
        if watched is None:
            return ()
        processes, told = watched.processes, watched.told
    context = context_of(container, snapshot, processes, told)
    found = [rank for pid in context.processes if (rank := _rank(pid, context)) is not None]
    largest = max((one.judged_bytes or 0 for one in found if one.verdict != "unbound"), default=0)
    ranks = [structs.replace(one, counts=_counts(one, largest)) for one in found]
    idle = {} if processes.unread is not None else idle_nodes(ranks, context)
    return tuple(structs.replace(one, idle_nodes=idle.get(one.pid)) for one in ranks)


def _counts(rank: Rank, largest: int) -> bool:
    """A process whose memory was not read may be as large as any other."""
    if rank.verdict == "unbound":
        return False
    return rank.rank is not None or rank.judged_bytes is None or rank.judged_bytes >= _HELPER_SHARE * largest


def summary(ranks: Sequence[Rank], whose: str = "its") -> str | None:
    """One sentence: `7 of 8 ranks are where they were bound; rank 3: ...`. None = there is no rank.

    `whose`: the word before a rank that is the only one.
    """
    parts = (_of_counted([one for one in ranks if one.counts], whose), _of_unbound(ranks))
    return "; ".join(filter(None, parts)) + "." if any(parts) else None


def _of_unbound(ranks: Sequence[Rank]) -> str | None:
    count = sum(one.verdict == "unbound" for one in ranks)
    return f"{count} {'process is' if count == 1 else 'processes are'} bound to no node" if count else None


def _of_counted(counted: Sequence[Rank], whose: str) -> str | None:
    if not counted:
        return None
    wrong = [one for one in counted if one.verdict in NOT_WHERE_BOUND]
    unknown = [one for one in counted if one.verdict == "unknown"]
    right = len(counted) - len(wrong) - len(unknown)
    of = (
        f"{right} of {len(counted)} ranks {'is' if right == 1 else 'are'}"
        if len(counted) > 1
        else f"{whose.capitalize()} rank is"
    )
    text = f"{of} where {'they were' if len(counted) > 1 else 'it was'} bound"
    if len(counted) == 1 and not right:
        text = f"{whose.capitalize()} rank is not where it was bound"
        text = text if wrong else f"It is not known if {whose} rank is where it was bound"
    elif unknown:
        text += f", {len(unknown)} {'is' if len(unknown) == 1 else 'are'} not known"
    ordered = sorted(wrong or unknown, key=lambda one: RANK_VERDICTS.index(one.verdict))
    named = "; ".join(f"{one.title}: {one.detail}" for one in ordered[:_NAMED])
    more = f"; and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"{text}{'; ' if named else ''}{named}{more}{_of_devices(counted)}"


def _of_devices(ranks: Sequence[Rank]) -> str:
    """Ranks with a device on another node, of whatever verdict."""
    noted = [one for one in ranks if one.devices_note is not None]
    named = "".join(f"; {one.title}: {one.devices_note}" for one in noted[:_NAMED])
    return named + (f"; and {len(noted) - _NAMED} more with such devices" if len(noted) > _NAMED else "")


def _rank(pid: int, context: RankContext) -> Rank | None:
    process, told = context.processes[pid], context.told.get(pid)
    declarations = () if told is None else told.declarations
    unbound = None
    if not any(one.has_placement for one in declarations):
        unbound = _unbound(process, context) if declarations else None
        declarations = _by_itself(process, context) if unbound is None else declarations
    if not declarations:
        return None
    found = _compare(declarations, process, context)
    verdict: RankVerdict = found.problems[0].name if found.problems else "unknown" if found.missing else "in-force"
    judged, devices = process.judged, () if told is None else told.devices
    memory_only = None if judged is None else sum(judged.get(node, 0) for node in context.memory_only)
    return Rank(
        pid=pid,
        process=process.process,
        rank=None if told is None else told.rank,
        counts=True,
        declarations=declarations,
        devices=devices,
        devices_elsewhere=devices_elsewhere(declarations, devices, process, context),
        idle_nodes=None,
        verdict=verdict if unbound is None else "unbound",
        detail=found.detail if unbound is None else unbound,
        problems=tuple(found.problems),
        judged_bytes=None if judged is None else sum(judged.values()),
        shared_elsewhere_bytes=found.shared,
        memory_only_bytes=memory_only,
    )


def _by_itself(process: ProcessPlacement, context: RankContext) -> tuple[Declaration, ...]:
    """A policy in force that nothing declares is a declaration of its own, with the CPUs of its nodes, where its main
    thread is bound to some of them."""
    try:
        found = policy_in_force(process)
        cpus = cpus_of(process)
    except NotRead:
        return ()
    if found.kind not in BINDING:
        return ()
    allowed = None if context.allowed is None else context.allowed.cpus
    of_nodes = context.cpus_on(found.nodes) if allowed is None else context.cpus_on(found.nodes) & allowed
    is_bound = cpus <= of_nodes and (allowed is None or not allowed <= cpus)
    bound = of_nodes if is_bound else None
    return (Declaration("itself", "its memory policy", "itself", found.kind, found.nodes, bound),)


def _unbound(process: ProcessPlacement, context: RankContext) -> str | None:
    """The evidence, in words, that nothing binds its main thread or its memory to some of its container's nodes.

    None = something does, there is one node, or it is not known.
    """
    allowed = context.allowed
    if allowed is None or allowed.cpus is None or allowed.nodes is None:
        return None
    nodes = context.nodes_of(allowed.cpus)
    try:
        kinds = {policy_in_force(process).kind, *(read_policy(one.policy).kind for one in mappings_of(process))}
        is_free = allowed.cpus <= cpus_of(process) and kinds <= {None, "local"}
    except NotRead:
        return None
    if len(nodes & allowed.nodes) < 2 or not is_free:
        return None
    return f"its main thread may run on all CPUs of its container, of {nodes.in_words}, and no memory policy binds it"


class _Compared(Struct):
    problems: list[RankProblem] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    shared: int | None = None
    allowed_elsewhere: str | None = None
    what: str = ""

    def take(self, find: Callable[[], Iterable[RankProblem]], doubt: str | None = None) -> bool:
        """Were there none? What could not be read is noted once, and a difference that is in doubt is none."""
        before = len(self.problems)
        try:
            found = list(find())
            if found and doubt is not None:
                raise NotRead(f"{found[0].detail}; {doubt}")
            self.problems.extend(found)
        except NotRead as reason:
            if str(reason) not in self.missing:
                self.missing.append(str(reason))
            return False
        return len(self.problems) == before

    @property
    def detail(self) -> str:
        if self.problems:
            return self.problems[0].detail
        return self.missing[0] if self.missing else self.what


def _compare(declarations: Sequence[Declaration], process: ProcessPlacement, context: RankContext) -> _Compared:
    memory = next((one for one in declarations if one.has_memory), None)
    cpus = next((one for one in declarations if one.has_cpus), None)
    found = _Compared(missing=[one.unresolved for one in declarations if one.unresolved is not None])
    is_policy = memory is None or found.take(lambda: policy_problems(memory, process, context), memory.doubt)
    is_bound = cpus is not None and found.take(lambda: affinity_problems(cpus, process, context), cpus.doubt)
    if is_policy:
        nodes = _nodes_of_cpus(process, context) if is_bound else None
        found.take(lambda: placement_problems(memory, nodes, process, context))
        found.allowed_elsewhere = allowed_elsewhere(memory, process, context)
    if memory is None or is_policy:
        found.take(lambda: thread_problems(memory if is_policy else None, cpus if is_bound else None, process, context))
    try:
        found.shared = shared_elsewhere(process)
    except NotRead:
        found.shared = None
    found.problems.sort(key=lambda one: RANK_VERDICTS.index(one.name))
    said = (*_in_force(memory, cpus, process), found.allowed_elsewhere)
    found.what = ", ".join(one for one in said if one is not None)
    return found


def _nodes_of_cpus(process: ProcessPlacement, context: RankContext) -> NodeSet | None:
    try:
        return context.nodes_of(cpus_of(process))
    except NotRead:
        return None


def _in_force(memory: Declaration | None, cpus: Declaration | None, process: ProcessPlacement) -> Iterator[str]:
    """The parts of a declaration that are in force, in words."""
    if memory is not None:
        yield f"its memory policy is {process.policy}" if memory.memory_of == "process" else "its mappings are placed"
    if cpus is not None and process.main is not None and process.main.cpus is not None:
        yield f"it runs on {process.main.cpus.in_words}"
