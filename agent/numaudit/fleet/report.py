"""The cluster as a report: what is worst, who does not report, and what room is left. Pure but for the questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, get_args

from numaudit.api.fleet_document import (
    FleetAgents,
    FleetContainer,
    FleetNode,
    FleetRefusal,
    FleetReport,
    FleetRoom,
    FleetWorkload,
)
from numaudit.errors import ParseError
from numaudit.evaluation.access import Source
from numaudit.evaluation.findings import gravity
from numaudit.fleet import queries
from numaudit.fleet.agents import STATES, Agents, FleetAgent, find_agents
from numaudit.fleet.answers import Sample
from numaudit.fleet.scope import Scope
from numaudit.fleet.sentences import SEVERITY, blind_spots, notices_of, problem, problem_rank, summary
from numaudit.topology.nodeset import NodeSet
from numaudit.value import Timestamp

_SOURCES: tuple[str, ...] = get_args(Source)
"""Of remote shares, the best first."""
_RESTART_SAFE = "numaudit_state_restart_safe"
_ALLOCATABLE, _FREE, _STRANDED, _ADMISSIBLE = (
    f"numaudit_memory_manager_{name}_bytes" for name in ("allocatable", "free", "stranded", "admissible")
)


class FleetAnswers(Protocol):
    """Whoever answers queries about one moment."""

    where: str
    at: float
    warnings: dict[str, None]

    def vector(self, promql: str) -> tuple[Sample, ...]:
        """Raises Unavailable."""


def ask_agents(prometheus: FleetAnswers, scope: Scope) -> Agents:
    """Raises Unavailable, also when there are none."""
    questions = (queries.agents, queries.known_agents, queries.targets, queries.ages)
    return find_agents(scope, *(prometheus.vector(one(scope)) for one in questions))


def ask_report(prometheus: FleetAnswers, scope: Scope, top: int) -> FleetReport:
    """Ask for all of it; `top` limits the worst containers and the refused workloads. Raises Unavailable."""
    agents = ask_agents(prometheus, scope)
    own = _Own(agents, scope)
    verdicts = own.rows(prometheus.vector(queries.verdicts(scope)))
    worst = _worst(own.rows(prometheus.vector(queries.worst(scope, top))), top)
    names = [_name(one.sample) for one in worst]
    details = [row for text in queries.details(scope, names) for row in own.rows(prometheus.vector(text))]
    refused = own.rows(prometheus.vector(queries.refusals(scope)))
    workloads = prometheus.vector(queries.refused_workloads(scope, top))
    nodes = _nodes(
        agents,
        _Facts(
            verdicts,
            own.rows(prometheus.vector(queries.misplaced(scope))),
            refused,
            own.rows(prometheus.vector(queries.room(scope))),
            own.rows(prometheus.vector(queries.problems(scope))),
            own.rows(prometheus.vector(queries.findings(scope))),
        ),
    )
    counts: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for one in nodes:
        counts.update(one.verdicts)
        findings.update(one.findings)
    rooms = largest_rooms(nodes)
    of_agents = count_of(agents)
    by_reason = _refusals(refused)
    misplaced = sum(one.misplaced_bytes for one in nodes)
    return FleetReport(
        prometheus=prometheus.where,
        taken_at=Timestamp(prometheus.at),
        namespace=scope.namespace,
        summary=summary(
            of_agents,
            counts,
            misplaced,
            sum(one.pods for one in by_reason),
            rooms,
            unsafe=sum(one.restart_unsafe for one in nodes),
        ),
        agents=of_agents,
        verdicts=dict(sorted(counts.items(), key=lambda item: SEVERITY.get(item[0], len(SEVERITY)))),
        findings=dict(sorted(findings.items(), key=lambda item: (gravity(item[0]), item[0]))),
        misplaced_bytes=misplaced,
        worst=[_container(one, details) for one in worst],
        nodes=nodes,
        refusals=by_reason,
        refused_workloads=[
            FleetWorkload(one.label("namespace"), one.label("workload"), round(one.value))
            for one in sorted(workloads, key=lambda one: (-one.value, one.label("namespace"), one.label("workload")))
        ],
        allocatable_bytes=sum(one.allocatable_bytes or 0 for one in nodes),
        free_bytes=sum(one.free_bytes or 0 for one in nodes),
        stranded_bytes=sum(one.stranded_bytes or 0 for one in nodes),
        largest_rooms=rooms,
        notices=[
            *notices_of(prometheus.warnings, agents, of_agents),
            *_old_agents(agents, verdicts),
            *blind_spots(nodes),
        ],
    )


class _Row(NamedTuple):
    agent: FleetAgent
    sample: Sample


class _Own(NamedTuple):
    agents: Agents
    scope: Scope

    def rows(self, samples: Iterable[Sample]) -> list[_Row]:
        """Those of the agents that count."""
        pairs = ((self.agents.of(one, self.scope), one) for one in samples)
        return [_Row(agent, one) for agent, one in pairs if agent is not None]


class _Facts(NamedTuple):
    verdicts: Sequence[_Row]
    misplaced: Sequence[_Row]
    refused: Sequence[_Row]
    room: Sequence[_Row]
    problems: Sequence[_Row]
    findings: Sequence[_Row]


def _name(sample: Sample) -> tuple[str, str, str]:
    return sample.label("namespace"), sample.label("pod"), sample.label("container")


def _worst(rows: Iterable[_Row], top: int) -> list[_Row]:
    """The worst verdict first, and of each the most misplaced bytes."""

    def rank(row: _Row) -> tuple[int, float, str, tuple[str, str, str]]:
        verdict = row.sample.label("verdict")
        return SEVERITY.get(verdict, len(SEVERITY)), -row.sample.value, row.agent.node, _name(row.sample)

    return sorted(rows, key=rank)[:top]


def _container(row: _Row, details: Iterable[_Row]) -> FleetContainer:
    own = [one.sample for one in details if one.agent is row.agent and _name(one.sample) == _name(row.sample)]
    ratios = {one.label("source"): one.value for one in own if _is(one, "remote_ratio")}
    source = next((one for one in _SOURCES if one in ratios), None)
    intended = [
        one.label("numa_node") for one in own if _is(one, "intended_node") and one.label("resource") == "memory"
    ]
    return FleetContainer(
        row.agent.node,
        *_name(row.sample),
        verdict=row.sample.label("verdict"),
        misplaced_bytes=round(row.sample.value),
        judged_bytes=next((round(one.value) for one in own if _is(one, "judged_bytes")), None),
        aligned_bytes=next((round(one.value) for one in own if _is(one, "aligned_bytes")), None),
        remote_ratio=None if source is None else ratios[source],
        remote_source=source,
        intended_memory_nodes=_node_set(intended),
        findings=sorted(one.label("finding") for one in own if _is(one, "finding")),
    )


def _is(sample: Sample, family: str) -> bool:
    return sample.label("__name__") == f"numaudit_container_{family}"


def _node_set(ids: Sequence[str]) -> NodeSet | None:
    try:
        return NodeSet.parse(",".join(ids)) or None
    except (ParseError, ValueError):
        return None


def _nodes(agents: Agents, facts: _Facts) -> list[FleetNode]:
    verdicts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for agent, one in facts.verdicts:
        verdicts[agent.node][one.label("verdict")] = round(one.value)
    misplaced = _sums(facts.misplaced)
    refused = _sums(facts.refused)
    room: defaultdict[str, dict[str, int]] = defaultdict(dict)
    admissible: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for agent, one in facts.room:
        if one.label("__name__") == _ADMISSIBLE and one.label("width").isdecimal():
            admissible[agent.node][int(one.label("width"))] = round(one.value)
        else:
            room[agent.node][one.label("__name__")] = round(one.value)
    problems: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    silent: defaultdict[str, list[str]] = defaultdict(list)
    unsafe = {agent.node for agent, one in facts.problems if one.label("__name__") == _RESTART_SAFE}
    for agent, one in facts.problems:
        problems[agent.node].append((problem_rank(one), problem(one)))
        if one.label("__name__") == "numaudit_collector_age_seconds":
            silent[agent.node].append(one.label("collector"))
    findings: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for agent, one in facts.findings:
        findings[agent.node][one.label("finding")] = round(one.value)
    found = [
        FleetNode(
            node=one.node,
            instance=one.instance,
            state=one.state,
            version=one.version,
            age_seconds=None if one.age is None else round(one.age, 3),
            verdicts=verdicts[one.node],
            misplaced_bytes=misplaced[one.node],
            allocatable_bytes=room[one.node].get(_ALLOCATABLE),
            free_bytes=room[one.node].get("numaudit_memory_manager_bytes"),
            stranded_bytes=room[one.node].get(_STRANDED),
            admissible_bytes=dict(sorted(admissible[one.node].items())),
            refused_pods=refused[one.node],
            findings=findings[one.node],
            restart_unsafe=one.node in unsafe,
            silent_sources=sorted(silent[one.node]),
            problems=[text for _, text in sorted(problems[one.node])],
        )
        for one in agents.by_key.values()
    ]
    return sorted(found, key=how_bad)


def how_bad(node: FleetNode) -> tuple[bool, int, bool, bool, int, int, bool, int, str]:
    """A misaligned container may wait; a kubelet that does not start again takes the whole node with it."""
    return (
        not node.restart_unsafe,
        -sum(count for name, count in node.findings.items() if gravity(name) == 0),
        node.state == "reporting",
        not node.misaligned,
        -node.misplaced_bytes,
        -node.misaligned,
        not node.silent_sources,
        -node.refused_pods - len(node.problems) - node.verdicts.get("unknown", 0) - _warnings(node),
        node.node,
    )


def _warnings(node: FleetNode) -> int:
    return sum(count for name, count in node.findings.items() if gravity(name) == 1)


def _sums(rows: Iterable[_Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for agent, one in rows:
        found[agent.node] += round(one.value)
    return found


def _refusals(rows: Iterable[_Row]) -> list[FleetRefusal]:
    counts: Counter[tuple[str, str]] = Counter()
    for _, one in rows:
        counts[one.label("reason"), one.label("outcome")] += round(one.value)
    return [FleetRefusal(reason, outcome, pods) for (reason, outcome), pods in sorted(counts.items(), key=_by_count)]


def _by_count(item: tuple[tuple[str, str], int]) -> tuple[int, tuple[str, str]]:
    return -item[1], item[0]


def largest_rooms(nodes: Iterable[FleetNode]) -> list[FleetRoom]:
    """The node with the most room, by the number of NUMA nodes."""
    best: dict[int, FleetRoom] = {}
    for node in sorted(nodes, key=lambda one: one.node):
        for width, size in node.admissible_bytes.items():
            if size and (width not in best or size > best[width].bytes):
                best[width] = FleetRoom(width, size, node.node)
    return [best[width] for width in sorted(best)]


def count_of(agents: Agents) -> FleetAgents:
    """Nodes by state and version."""
    all_of = agents.by_key.values()
    states = Counter(str(one.state) for one in all_of)
    versions = Counter(one.version or "" for one in all_of if one.state == "reporting")
    return FleetAgents(**{state: states[state] for state in STATES}, versions=dict(sorted(versions.items())))


def _old_agents(agents: Agents, verdicts: Sequence[_Row]) -> list[str]:
    """An agent that reports gives every container a verdict, and there is no host without any cgroup."""
    having = {row.agent.node for row in verdicts}
    if having or not agents.reporting:
        return []
    return [
        "no agent exports numaudit_container_verdict for these containers: there are none, their series are dropped "
        "at the scrape, or the agents are too old"
    ]
