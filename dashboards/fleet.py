"""Is anything wrong, and where?"""

from __future__ import annotations

from dashboards.choices import (
    BY_CONTAINER,
    BY_NODE,
    COLORS,
    CRITICAL_FINDINGS,
    EVERY_AGENT,
    FLEET,
    MISALIGNED_VERDICTS,
    NAMESPACES,
    NODE_FIELDS,
    NODES,
    NUMA_REFUSALS,
    RANKS,
    SEVERAL_CONTAINERS,
    SEVERITIES,
    TO_CONTAINER,
    TO_NODE,
    TO_RUNBOOK,
    alert_rank,
    docs,
    finding_rank,
    remote_share,
    series,
    verdict_rank,
    worst,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Panel, Query, Stat, Table, Value

_ROWS = 50
"""Of a table, at most."""
_LINES = 10
"""Of a graph by node, at most."""


def _of(name: str, *matchers: str, **labels: str) -> str:
    """Of the namespaces that were chosen."""
    return series(f"numaudit_{name}", NAMESPACES, *matchers, **labels)


def _on_nodes(name: str, *matchers: str, **labels: str) -> str:
    """Of the nodes that were chosen."""
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


_MISALIGNED = _of("container_verdict", f'verdict=~"{MISALIGNED_VERDICTS}"')
_UNKNOWN = _of("container_verdict", verdict="unknown")
_CRITICAL = _of("container_finding", f'finding=~"{CRITICAL_FINDINGS}"')
_REFUSALS = _on_nodes("admission_rejections_total", NUMA_REFUSALS)
_AGENTS = series(EVERY_AGENT, NODES)
_SEEN = f"group by ({BY_NODE}) (max_over_time({_AGENTS}[1d]))"
_MEASURING = f"group by ({BY_NODE}) ({_on_nodes('snapshot_age_seconds')} < 180)"
_BLIND = f"({_SEEN} unless {_MEASURING})"
"""Nodes of which nothing new is known."""
_UNSAFE_FILES = f"(min by ({BY_NODE}, file) ({_on_nodes('state_restart_safe')}) == 0)"
_UNSAFE = f"group by ({BY_NODE}) ({_on_nodes('state_restart_safe')} == 0)"
_NONE = f"0 * count({_AGENTS})"
"""0 where there are agents: without any, a number is not known, and not 0."""
_NO_AGENT = "No agent reports"


def _or_none(promql: str) -> str:
    return f"{promql} or {_NONE}"


_BY_ALERT = f"alertname, severity, workload, {BY_CONTAINER}"
_PROBLEMS = f"max by ({BY_NODE}, file, reason) ({_on_nodes('state_problem_info')})"

_URGENT = Section(
    "Alerts, and nodes that are unsafe to restart",
    (
        Table(
            title="Alerts",
            description="These alerts of numaudit's rules fire now, critical ones first. The name of an alert leads to "
            "its runbook, the name of a node to its page.",
            queries=[Query(f"topk({_ROWS}, {alert_rank(_BY_ALERT)})", now=True)],
            empty="No alert fires, or the rules are not loaded",
            width=14,
            columns=(
                Column("Value", "Severity", values=SEVERITIES, colored=True),
                Column("alertname", "Alert", link=TO_RUNBOOK),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container"),
                Column("workload", "Workload"),
            ),
            sort="Severity",
        ),
        Table(
            title="Nodes unsafe to restart",
            description="The kubelets of these nodes would not start again with this file, or may not. Repair "
            "the file before anything restarts. The name of a node leads to its page.",
            queries=[
                Query(
                    f"topk({_ROWS}, {_PROBLEMS} and on ({BY_NODE}, file) {_UNSAFE_FILES}"
                    f" or ({_UNSAFE_FILES} + 1 unless on ({BY_NODE}, file) {_PROBLEMS}))",
                    now=True,
                )
            ],
            empty="No node that reports is unsafe to restart",
            width=10,
            columns=(
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("file", "File"),
                Column("reason", "Reason"),
            ),
            sort="-Node",
        ),
    ),
    height=7,
)


def _number(title: str, description: str, promql: str, *, bad: bool, unit: str = "none") -> Panel:
    """Green at 0."""
    return Stat(
        title=title,
        description=description,
        queries=[Query(promql, now=True)],
        empty=_NO_AGENT,
        width=3,
        unit=unit,
        bad=1 if bad else None,
        warn=None if bad else 1,
    )


_FIRST = Section(
    "Is anything wrong?",
    (
        _number(
            "Nodes unsafe",
            "On this number of nodes the kubelet would not start again, or may not. The table below names them.",
            _or_none(f"count({_UNSAFE})"),
            bad=True,
        ),
        _number(
            "Agents silent",
            "This number of agents was scraped in the last day and is not now, or gives values that are older than "
            "three minutes. What they would say is missing on this page.",
            f"count({_BLIND}) or 0 * count({_SEEN})",
            bad=True,
        ),
        _number(
            "Critical findings",
            "This number of findings about containers is critical, such as oom-risk.",
            _or_none(f"sum({_CRITICAL})"),
            bad=True,
        ),
        _number(
            "Misaligned containers",
            "This number of containers does not have what it was promised: their verdicts are drifted, spilled, "
            "cpu-remote or remote-access.",
            _or_none(f"sum({_MISALIGNED})"),
            bad=True,
        ),
        _number(
            "Verdict unknown",
            "For this number of containers with a promise, evidence is missing. `numaudit report` names the evidence, "
            "and `numaudit doctor` says how to get it.",
            _or_none(f"sum({_UNKNOWN})"),
            bad=False,
        ),
        _number(
            "Misplaced memory",
            "Containers have this number of bytes on NUMA nodes that they were not promised.",
            _or_none(f"sum({_of('container_misplaced_bytes')})"),
            bad=False,
            unit="bytes",
        ),
        _number(
            "Pods refused",
            "Kubelets refused this number of pods for NUMA reasons in the time range.",
            f"round(sum(increase({_REFUSALS}[$__range])))",
            bad=False,
        ),
        _number(
            "Refused at a restart",
            "Kubelets would refuse this number of their running pods if they were restarted now.",
            _or_none(f"sum({_on_nodes('restart_refused_pods', reboot='false')})"),
            bad=False,
        ),
    ),
    height=4,
)

_VERDICTS = Section(
    "Verdicts",
    (
        Bars(
            title="Containers by verdict",
            description="The bars count the containers of each verdict. Containers of plain cgroups and of pods "
            "without a promise are unmanaged.",
            queries=[Query(f"sum by (verdict) ({_of('container_verdict')})", "{{verdict}}", now=True)],
            empty="No agent reports any container",
            width=6,
            unit="none",
            colors=COLORS,
        ),
        Lines(
            title="Verdicts over time",
            description="The graph shows when containers became misaligned. It leaves out containers that are aligned "
            "or unmanaged.",
            queries=[
                Query(
                    "sum by (verdict) (" + _of("container_verdict", 'verdict!~"aligned|unmanaged"') + ")",
                    "{{verdict}}",
                )
            ],
            empty="Every container that reports is aligned or unmanaged",
            width=10,
            unit="none",
            colors=COLORS,
            stacked=True,
            minimum=0,
        ),
        Lines(
            title="Misplaced memory by node",
            description=f"Containers of these Kubernetes nodes have memory on NUMA nodes that they were not promised. "
            f"The graph shows the {_LINES} nodes with most of it at the end of the time range.",
            queries=[
                Query(
                    worst(_LINES, f"sum by ($nodelabel) ({_of('container_misplaced_bytes')})", "$nodelabel"),
                    "{{$nodelabel}}",
                )
            ],
            empty="No container that reports has misplaced memory",
            width=8,
            unit="bytes",
            minimum=0,
        ),
    ),
)

_WORST_VERDICTS = f"{MISALIGNED_VERDICTS}|unknown|split"
_WORST_RANKS = f"topk(30, {verdict_rank(NAMESPACES, _WORST_VERDICTS)})"

_STATES = (
    Value(5, "kubelet unsafe", "dark-red"),
    Value(4, "critical finding", "red"),
    Value(3, "no news", "purple"),
    Value(2, "misaligned", "orange"),
    Value(1, "verdict unknown", "blue"),
    Value(0, "fine", "green"),
)
"""What is worst on a node."""
_STATE = (
    f"(5 * {_UNSAFE} or 4 * group by ({BY_NODE}) ({_CRITICAL}) or 3 * {_BLIND}"
    f" or 2 * group by ({BY_NODE}) ({_MISALIGNED}) or group by ({BY_NODE}) ({_UNKNOWN}) or 0 * {_SEEN})"
)
_WORST_NODES = f"topk({_ROWS}, 1e6 * {_STATE} + (sum by ({BY_NODE}) ({_MISALIGNED}) or 0 * {_STATE}))"


def _of_worst_nodes(promql: str) -> Query:
    return Query(f"({promql}) and on ({BY_NODE}) {_WORST_NODES}", now=True)


_WORST = Section(
    "Where",
    (
        Table(
            title="Nodes",
            description=f"The table has a row for each of the {_ROWS} worst nodes, and the name of a node leads to its "
            "page. The state is the worst of all that is known of the node. Largest fit is the largest request for "
            "memory that one NUMA node would admit now. Refused pods are those that were refused for NUMA reasons in "
            "the time range.",
            queries=[
                _of_worst_nodes(_STATE),
                _of_worst_nodes(f"sum by ({BY_NODE}) ({_MISALIGNED}) or 0 * {_SEEN}"),
                _of_worst_nodes(f"sum by ({BY_NODE}) ({_UNKNOWN}) or 0 * {_SEEN}"),
                _of_worst_nodes(f"max by ({BY_NODE}) ({_on_nodes('memory_manager_admissible_bytes', width='1')})"),
                _of_worst_nodes(f"round(sum by ({BY_NODE}) (increase({_REFUSALS}[$__range])))"),
                _of_worst_nodes(f"max by ({BY_NODE}) ({_on_nodes('restart_refused_pods', reboot='false')})"),
            ],
            empty="No agent has reported within a day",
            width=11,
            columns=(
                Column("Value #A", "State", values=_STATES, colored=True),
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("Value #B", "Misaligned"),
                Column("Value #C", "Unknown"),
                Column("Value #D", "Largest fit", "bytes"),
                Column("Value #E", "Refused"),
                Column("Value #F", "Refused at a restart"),
            ),
            sort="State",
        ),
        Table(
            title="Worst containers",
            description="The table shows the 30 worst of the containers that are not aligned, and the name of a "
            "container leads to its page. Remote is the share of accesses to another node's memory. It is measured "
            "where the processor counts accesses; where it does not, it is expected: the share if the container used "
            "every byte equally.",
            queries=[
                Query(_WORST_RANKS, now=True),
                Query(
                    f"sum by ({BY_CONTAINER}) ({_of('container_misplaced_bytes')}) > 0"
                    f" and on ({BY_CONTAINER}) {_WORST_RANKS}",
                    now=True,
                ),
                Query(f"{remote_share(NAMESPACES)} and on ({BY_CONTAINER}) {_WORST_RANKS}", now=True),
            ],
            empty="Every container that reports is aligned or unmanaged",
            width=13,
            columns=(
                Column("Value #A", "Verdict", values=RANKS, colored=True),
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container", link=TO_CONTAINER),
                Column("Value #B", "Misplaced", "bytes"),
                Column("Value #C", "Remote", "percentunit", decimals=1),
                Column("remote", "Remote is"),
            ),
            sort="Verdict",
        ),
    ),
    height=10,
)

_FINDINGS = Section(
    "Findings that are no verdict",
    (
        Bars(
            title="Containers by finding",
            description="The bars count the containers of each finding. docs/findings.md explains the findings.",
            queries=[Query(f"sum by (finding) ({_of('container_finding')})", "{{finding}}", now=True)],
            empty="No container that reports has a finding",
            width=8,
            links=[docs("findings.md#findings", "Findings")],
        ),
        Table(
            title="Containers with findings",
            description=f"The table shows the {_ROWS} gravest findings about containers, whatever their verdicts are, "
            "and the name of a container leads to its page.",
            queries=[Query(f"topk({_ROWS}, {finding_rank(NAMESPACES)})", now=True)],
            empty="No container that reports has a finding",
            width=16,
            columns=(
                Column("Value", "Severity", values=SEVERITIES, colored=True),
                Column("finding", "Finding"),
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container", link=TO_CONTAINER),
            ),
            sort="Severity",
        ),
    ),
)

_REFUSED = Section(
    "Refused pods",
    (
        Lines(
            title="Refusals by outcome",
            description="The graph counts the pods that the kubelets refused for NUMA reasons in each of its "
            "intervals. docs/findings.md explains the outcomes.",
            queries=[
                Query(f"sum by (outcome) (increase({_REFUSALS}[$__rate_interval]))", "{{outcome}}"),
            ],
            empty=_NO_AGENT,
            width=12,
            unit="none",
            minimum=0,
            links=[docs("findings.md#hint-outcomes", "Outcomes")],
        ),
        Bars(
            title="Workloads refused most",
            description="The kubelets refused the pods of these workloads most often since the agents started, for "
            "whatever reason. Each agent counts 20 workloads.",
            queries=[
                Query(
                    "topk(10, sum by (namespace, workload) (" + _of("admission_workload_rejections_total") + "))",
                    "{{namespace}}/{{workload}}",
                    now=True,
                )
            ],
            empty="No kubelet that reports refused a pod",
            width=12,
        ),
    ),
)

_SETUP_LABELS = "kernel, sockets, numa_balancing, transparent_hugepage, zone_reclaim, kernel_parameters"

_SETUP = Section(
    "How nodes are set up",
    (
        Table(
            title="Rules of setup that do not hold",
            description="The table counts the nodes where a rule of `numaudit setup` finds an error or a warning. "
            "docs/setup.md has the reason and the remedy of each rule.",
            queries=[Query(f"count by (rule, level) ({_on_nodes('node_setup_problem_info')})", now=True)],
            empty="No node that reports has such a rule",
            width=9,
            columns=(Column("level", "Severity"), Column("rule", "Rule"), Column("Value", "Nodes")),
            sort="Nodes",
            links=[docs("setup.md", "Rules")],
        ),
        Table(
            title="Nodes by setup",
            description="The table counts the nodes that share a kernel, a number of sockets and settings, the fewest "
            "first: nodes of one kind should be alike. `kubectl numaudit setup --alike` names them, and compares the "
            "kubelets' settings and the memory of each NUMA node too.",
            queries=[Query(f"count by ({_SETUP_LABELS}) ({_on_nodes('node_setup_info')})", now=True)],
            empty=_NO_AGENT,
            width=15,
            columns=(
                Column("Value", "Nodes"),
                Column("kernel", "Kernel"),
                Column("sockets", "Sockets"),
                Column("numa_balancing", "NUMA balancing"),
                Column("transparent_hugepage", "Transparent huge pages"),
                Column("zone_reclaim", "Zone reclaim"),
                Column("kernel_parameters", "Kernel parameters"),
            ),
            sort="-Nodes",
        ),
    ),
    collapsed=True,
)

DASHBOARD = Dashboard(
    uid=FLEET,
    title="numaudit / Fleet",
    description="Is anything wrong with the NUMA alignment of containers, and where?",
    variables=SEVERAL_CONTAINERS,
    sections=(_FIRST, _WORST, _VERDICTS, _FINDINGS, _REFUSED, _SETUP, _URGENT),
    links=(docs("dashboards.md", "About this page"), docs("verdicts.md", "Verdicts")),
)
