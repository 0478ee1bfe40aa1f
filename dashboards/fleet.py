"""Is anything wrong, and where?"""

from __future__ import annotations

from dashboards.choices import (
    BY_CONTAINER,
    BY_NODE,
    COLORS,
    EVERY_AGENT,
    FLEET,
    MISALIGNED_VERDICTS,
    NAMESPACES,
    NODE_FIELDS,
    NODES,
    RANKS,
    SEVERAL_CONTAINERS,
    TO_CONTAINER,
    TO_NODE,
    TO_RUNBOOK,
    docs,
    series,
    verdict_rank,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Query, Stat, Table, Value


def _of(name: str, *matchers: str, **labels: str) -> str:
    """Of the namespaces that were chosen."""
    return series(f"numaudit_{name}", NAMESPACES, *matchers, **labels)


def _on_nodes(name: str, *matchers: str, **labels: str) -> str:
    """Of the nodes that were chosen."""
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


_MISALIGNED = _of("container_verdict", f'verdict=~"{MISALIGNED_VERDICTS}"')
_UNKNOWN = _of("container_verdict", verdict="unknown")
_REFUSALS = _on_nodes("admission_rejections_total")
_AGENTS = series(EVERY_AGENT, NODES)
_OURS = 'alertname=~"Numaudit.+"'
_SEEN = f"max_over_time({_AGENTS}[1d])"
_NONE = f"0 * count({_AGENTS})"
"""0 where there are agents: without any, a number is not known, and not 0."""


def _or_none(promql: str) -> str:
    return f"{promql} or {_NONE}"


_FIRST = Section(
    "Is anything wrong?",
    (
        Stat(
            title="Misaligned containers",
            description="Containers that did not get what they were promised now: "
            "drifted, spilled, cpu-remote or remote-access.",
            queries=[Query(_or_none(f"sum({_MISALIGNED})"), now=True)],
            width=4,
            bad=1,
        ),
        Stat(
            title="Verdict unknown",
            description="Containers with a promise for which evidence is missing. "
            "`numaudit report` names it, `numaudit doctor` says how to get it.",
            queries=[Query(_or_none(f"sum({_UNKNOWN})"), now=True)],
            width=4,
            warn=1,
        ),
        Stat(
            title="Misplaced memory",
            description="Bytes on nodes that were not promised, of all containers.",
            queries=[
                Query(_or_none(f"sum({_of('container_misplaced_bytes')})"), now=True),
            ],
            width=4,
            unit="bytes",
            warn=1,
        ),
        Stat(
            title="Pods refused",
            description="Pods that the kubelet refused for NUMA reasons in the time range.",
            queries=[Query(f"round(sum(increase({_REFUSALS}[$__range])))", now=True)],
            width=4,
            warn=1,
        ),
        Stat(
            title="Nodes unsafe to restart",
            description="Nodes where the kubelet would not start again with one of its checkpoints, or only by "
            "chance. Repair that before anything restarts.",
            queries=[
                Query(
                    _or_none(f"count(min by ({BY_NODE}) ({_on_nodes('state_restart_safe')}) == 0)"),
                    now=True,
                ),
            ],
            width=4,
            bad=1,
        ),
        Stat(
            title="Agents gone or stale",
            description="Agents that were scraped in the last day and are not now, and those whose newest snapshot is "
            "older than three minutes. What they would say is missing on this page.",
            queries=[
                Query(
                    f"count(group by ({BY_NODE}) ({_SEEN}) unless group by ({BY_NODE}) "
                    f"({_on_nodes('snapshot_age_seconds')} < 180)) or 0 * count({_SEEN})",
                    now=True,
                ),
            ],
            width=4,
            bad=1,
        ),
    ),
    height=4,
)

_VERDICTS = Section(
    "Verdicts",
    (
        Bars(
            title="Containers by verdict",
            description="Number of containers by verdict. Those of plain cgroups and of pods without a "
            "promise are unmanaged.",
            queries=[Query(f"sum by (verdict) ({_of('container_verdict')})", "{{verdict}}", now=True)],
            width=6,
            unit="none",
            colors=COLORS,
        ),
        Lines(
            title="Verdicts over time",
            description="When containers became misaligned. Those that are aligned or unmanaged are left out.",
            queries=[
                Query(
                    "sum by (verdict) (" + _of("container_verdict", 'verdict!~"aligned|unmanaged"') + ")",
                    "{{verdict}}",
                )
            ],
            width=10,
            unit="none",
            colors=COLORS,
            stacked=True,
            minimum=0,
        ),
        Lines(
            title="Misplaced memory by node",
            description="Bytes of containers on NUMA nodes that were not promised, by Kubernetes node.",
            queries=[
                Query(
                    f"sum by ($nodelabel) ({_of('container_misplaced_bytes')})",
                    "{{$nodelabel}}",
                )
            ],
            width=8,
            unit="bytes",
            minimum=0,
        ),
    ),
)

_WORST_VERDICTS = f"{MISALIGNED_VERDICTS}|unknown|split"
_WORST_RANKS = f"topk(30, {verdict_rank(NAMESPACES, _WORST_VERDICTS)})"

_WORST = Section(
    "Where",
    (
        Table(
            title="Worst containers",
            description="The 30 worst of the containers that are not aligned; the name leads to the container. "
            "Remote is the share of accesses to another node's memory, as the processor counts them; where it does "
            "not, the share if every byte were used equally.",
            queries=[
                Query(_WORST_RANKS, now=True),
                Query(
                    f"sum by ({BY_CONTAINER}) ({_of('container_misplaced_bytes')}) > 0"
                    f" and on ({BY_CONTAINER}) {_WORST_RANKS}",
                    now=True,
                ),
                Query(
                    f"(max by ({BY_CONTAINER}) ({_of('container_remote_ratio', source='pmu')})"
                    f" or max by ({BY_CONTAINER}) "
                    f"({_of('container_remote_ratio', source='expected')}))"
                    f" and on ({BY_CONTAINER}) {_WORST_RANKS}",
                    now=True,
                ),
            ],
            width=14,
            columns=(
                Column("Value #A", "Verdict", values=RANKS, colored=True),
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container", link=TO_CONTAINER),
                Column("Value #B", "Misplaced", "bytes"),
                Column("Value #C", "Remote", "percentunit", decimals=1),
            ),
            sort="Verdict",
        ),
        Table(
            title="Nodes",
            description="One row for each node; the name leads to its page. Largest fit is the largest request for "
            "memory that one NUMA node would admit now. Hint faults are those from another node, per second.",
            queries=[
                Query(f"count by ({BY_NODE}) ({_AGENTS})", now=True),
                Query(
                    f"sum by ({BY_NODE}) ({_MISALIGNED}) or 0 * count by ({BY_NODE}) ({_AGENTS})",
                    now=True,
                ),
                Query(
                    f"max by ({BY_NODE}) ({_on_nodes('memory_manager_admissible_bytes', width='1')})",
                    now=True,
                ),
                Query(f"round(sum by ({BY_NODE}) (increase({_REFUSALS}[$__range])))", now=True),
                Query(
                    f"sum by ({BY_NODE}) (rate({_on_nodes('node_hint_faults_total')}[$__rate_interval]))"
                    f" - sum by ({BY_NODE}) "
                    f"(rate({_on_nodes('node_hint_faults_local_total')}[$__rate_interval]))",
                    now=True,
                ),
                Query(f"min by ({BY_NODE}) ({_on_nodes('state_restart_safe')})", now=True),
            ],
            width=10,
            columns=(
                Column("cluster", "Cluster"),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("Value #B", "Misaligned"),
                Column("Value #C", "Largest fit", "bytes"),
                Column("Value #D", "Refused"),
                Column("Value #E", "Remote hint faults", "cps", decimals=1),
                Column(
                    "Value #F",
                    "Restart",
                    values=(Value(1, "safe", "green"), Value(0, "unsafe", "red")),
                    colored=True,
                ),
            ),
            sort="Misaligned",
        ),
    ),
    height=10,
)

_REFUSED = Section(
    "Refused pods and alerts",
    (
        Lines(
            title="Refusals by outcome",
            description="Pods that the kubelet refused, in each interval of the graph. docs/verdicts.md explains "
            "the outcomes.",
            queries=[
                Query(f"sum by (outcome) (increase({_REFUSALS}[$__rate_interval]))", "{{outcome}}"),
            ],
            width=8,
            unit="none",
            minimum=0,
        ),
        Bars(
            title="Workloads refused most",
            description="Workloads whose pods the kubelet refuses, of the 20 that each agent keeps; since the agents "
            "started.",
            queries=[
                Query(
                    "topk(10, sum by (namespace, workload) (" + _of("admission_workload_rejections_total") + "))",
                    "{{namespace}}/{{workload}}",
                    now=True,
                )
            ],
            width=8,
        ),
        Table(
            title="Alerts",
            description="Alerts of numaudit's rules that fire now; the name leads to its runbook. Empty, too, where "
            "the rules are not loaded.",
            queries=[
                Query(
                    f"count by (alertname, severity, {BY_CONTAINER}) "
                    f"({series('ALERTS', NODES, _OURS, alertstate='firing')})",
                    now=True,
                )
            ],
            width=8,
            columns=(
                Column("severity", "Severity"),
                Column("alertname", "Alert", link=TO_RUNBOOK),
                Column(NODE_FIELDS, "Node", link=TO_NODE),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container"),
            ),
        ),
    ),
)

DASHBOARD = Dashboard(
    uid=FLEET,
    title="numaudit / Fleet",
    description="Is anything wrong with the NUMA alignment of containers, and where?",
    variables=SEVERAL_CONTAINERS,
    sections=(_FIRST, _VERDICTS, _WORST, _REFUSED),
    links=(docs("dashboards.md", "About this page"), docs("verdicts.md", "Verdicts")),
)
