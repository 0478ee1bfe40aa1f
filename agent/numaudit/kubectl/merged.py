"""The reports of all agents as one. Pure: answers in, a document out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from numaudit.api.cluster_document import (
    ClusterAgents,
    ClusterContainer,
    ClusterNode,
    ClusterRefusal,
    ClusterReport,
    ClusterRoom,
    ClusterWorkload,
)
from numaudit.encoding.value import Timestamp
from numaudit.evaluation.findings import gravity
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.kubectl import answers
from numaudit.kubectl.answers import Checkpoint, Container, Measured, Rejection, Report, brief_path
from numaudit.kubectl.everywhere import NodeReply, Replies
from numaudit.kubectl.sentences import SEVERITY, blind_spots, several_versions, summary
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import plural

_HOUR = 3600.0


def merge(
    replies: Replies,
    *,
    now: float,
    context: str | None,
    namespace: str | None,
    top: int,
    of_pod: tuple[str, str | None] | None = None,
) -> ClusterReport:
    """`of_pod`: only containers of this pod of the namespace, and the container if one is named."""
    nodes: list[ClusterNode] = []
    worst: list[ClusterContainer] = []
    refused: list[Rejection] = []

    def is_asked(one: Container) -> bool:
        if one.verdict is None or namespace not in (None, one.namespace):
            return False
        return of_pod is None or (one.pod == of_pod[0] and of_pod[1] in (None, one.container))

    for reply in replies.by_node:
        try:
            report = None if reply.body is None else answers.report(reply.body)
        except ValueError as error:
            nodes.append(_silent(replace(reply, state="down", body=None, problem=str(error))))
            continue
        if report is None:
            nodes.append(_silent(reply))
            continue
        fresh = [one for one in report.rejections if _within_an_hour(one, report)]
        refused += fresh
        nodes.append(_node(reply, report, is_asked, len(fresh)))
        worst += [_worst(reply.node, one) for one in report.containers if is_asked(one) and _name_of(one) in MISALIGNED]
    nodes.sort(key=_how_bad)
    verdicts = _sum(one.verdicts for one in nodes)
    findings = _sum(one.findings for one in nodes)
    rooms = _largest_rooms(nodes)
    states = Counter(one.state for one in nodes)
    versions = Counter(one.version or "" for one in nodes if one.state == "reporting")
    agents = ClusterAgents(
        reporting=states["reporting"],
        stale=states["stale"],
        down=states["down"],
        none=states["none"],
        versions=dict(sorted(versions.items())),
    )
    misplaced = sum(one.misplaced_bytes for one in nodes)
    by_reason = Counter((one.reason or "", one.outcome) for one in refused)
    workloads = Counter((one.namespace or "", one.workload or one.pod or "") for one in refused)
    by_name = sorted(nodes, key=lambda one: one.node)
    return ClusterReport(
        taken_at=Timestamp(now),
        namespace=namespace,
        summary=summary(
            agents,
            verdicts,
            misplaced,
            len(refused),
            rooms,
            unsafe=sum(one.restart_unsafe for one in nodes),
        ),
        agents=agents,
        verdicts=dict(sorted(verdicts.items(), key=lambda item: SEVERITY.get(item[0], len(SEVERITY)))),
        findings=dict(sorted(findings.items(), key=lambda item: (gravity(item[0]), item[0]))),
        misplaced_bytes=misplaced,
        worst=sorted(worst, key=_rank)[:top],
        nodes=nodes,
        refusals=[
            ClusterRefusal(*key, pods) for key, pods in sorted(by_reason.items(), key=lambda it: (-it[1], it[0]))
        ],
        refused_workloads=[
            ClusterWorkload(*key, pods) for key, pods in sorted(workloads.items(), key=lambda it: (-it[1], it[0]))[:top]
        ],
        allocatable_bytes=sum(one.allocatable_bytes or 0 for one in nodes),
        free_bytes=sum(one.free_bytes or 0 for one in nodes),
        stranded_bytes=sum(one.stranded_bytes or 0 for one in nodes),
        largest_rooms=rooms,
        notices=[
            *replies.notices,
            *several_versions(agents),
            *blind_spots(by_name),
        ],
        context=context,
    )


def _silent(reply: NodeReply) -> ClusterNode:
    return ClusterNode(
        node=reply.node,
        instance="" if reply.agent is None else reply.agent.name,
        state=reply.state,
        version=None,
        age_seconds=None,
        verdicts={},
        misplaced_bytes=0,
        allocatable_bytes=None,
        free_bytes=None,
        stranded_bytes=None,
        admissible_bytes={},
        refused_pods=0,
        findings={},
        restart_unsafe=False,
        silent_sources=[],
        problems=[] if reply.problem is None else [reply.problem],
    )


def _node(reply: NodeReply, report: Report, is_asked: Callable[[Container], bool], refused: int) -> ClusterNode:
    own = [one for one in report.containers if is_asked(one)]
    unsafe = [one for one in report.checkpoints if one.starts_now not in ("yes", "unknown")]
    room = report.memory_manager
    tables = [one for one in room.tables if one.type == "memory"] if room else []
    return msgspec.structs.replace(
        _silent(reply),
        version=report.generator.version,
        age_seconds=None if reply.age is None else round(reply.age, 3),
        verdicts=dict(Counter(_name_of(one) for one in own)),
        misplaced_bytes=sum(one.misplaced_bytes for one in own),
        allocatable_bytes=sum(one.allocatable_bytes for one in tables) if room else None,
        free_bytes=sum(one.free_bytes for one in tables) if room else None,
        stranded_bytes=sum(one.stranded_bytes for one in room.nodes) if room else None,
        admissible_bytes={one.node_count: one.bytes for one in room.admissible or ()} if room else {},
        refused_pods=refused,
        findings=dict(Counter(name for one in own for name in one.findings)),
        restart_unsafe=bool(unsafe),
        silent_sources=sorted(one.source for one in report.sources if one.old),
        problems=_problems(report, unsafe),
    )


def _problems(report: Report, unsafe: Sequence[Checkpoint]) -> list[str]:
    """The gravest first."""
    found = [f"the kubelet may not start again with {brief_path(one.file)}" for one in unsafe]
    found += [f"{brief_path(one.file)} is not valid" for one in report.checkpoints if one.valid is False]
    for one in report.restarts:
        if one.refused_pods:
            what = "a reboot" if one.reboot else "a restart of the kubelet"
            found.append(f"{what} would refuse {plural(one.refused_pods, 'pod')}")
    found += [f"{one.source} does not answer, so promises and room may be old" for one in report.sources if one.old]
    return found


def _within_an_hour(one: Rejection, report: Report) -> bool:
    """Within the hour before the report, by the agent's own clock."""
    if one.at is None or report.taken_at is None:
        return False
    try:
        return Timestamp.parse(report.taken_at) - Timestamp.parse(one.at) <= _HOUR
    except ValueError:
        return False


def _worst(node: str, one: Container) -> ClusterContainer:
    nodes = one.intended.memory_nodes if one.intended is not None else None
    counted = one.measured if one.measured is not None and one.measured.of == "accesses" else Measured()
    return ClusterContainer(
        node,
        one.namespace or "",
        one.pod or "",
        one.container or brief_path(one.path or ""),
        verdict=_name_of(one),
        misplaced_bytes=one.misplaced_bytes,
        judged_bytes=one.judged_bytes,
        aligned_bytes=one.aligned_bytes,
        remote_ratio=counted.lower,
        remote_source=counted.source,
        intended_memory_nodes=NodeSet.from_ids(nodes) if nodes else None,
        findings=sorted(one.findings),
    )


def _name_of(one: Container) -> str:
    return "" if one.verdict is None else one.verdict.name


def _rank(one: ClusterContainer) -> tuple[int, int, str, str, str, str]:
    """The most misplaced bytes first, and of as many the worst verdict."""
    severity = SEVERITY.get(one.verdict, len(SEVERITY))
    return -one.misplaced_bytes, severity, one.node, one.namespace, one.pod, one.container


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return found


def _how_bad(node: ClusterNode) -> tuple[bool, int, bool, bool, int, int, bool, int, str]:
    """A misaligned container may wait; a kubelet that does not start again takes the whole node with it."""
    warnings = sum(count for name, count in node.findings.items() if gravity(name) == 1)
    return (
        not node.restart_unsafe,
        -sum(count for name, count in node.findings.items() if gravity(name) == 0),
        node.state == "reporting",
        not node.misaligned,
        -node.misplaced_bytes,
        -node.misaligned,
        not node.silent_sources,
        -node.refused_pods - len(node.problems) - node.verdicts.get("unknown", 0) - warnings,
        node.node,
    )


def _largest_rooms(nodes: Iterable[ClusterNode]) -> list[ClusterRoom]:
    """The node with the most room, by the number of NUMA nodes."""
    best: dict[int, ClusterRoom] = {}
    for node in sorted(nodes, key=lambda one: one.node):
        for width, size in node.admissible_bytes.items():
            if size and (width not in best or size > best[width].bytes):
                best[width] = ClusterRoom(width, size, node.node)
    return [best[width] for width in sorted(best)]
