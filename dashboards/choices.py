"""What the dashboards share: the choices at their top, the matchers of these choices, and the ways between pages.

A Kubernetes node is known by the label `nodename`, which our PodMonitor sets, or by `instance`, which every scrape has.
The choice `nodelabel` is the name of that label: it takes what the series have, and every query uses it as a label.
"""

from __future__ import annotations

import re

from dashboards.model import Variable
from dashboards.panels import Link, Value
from numaudit.evaluation.findings import RULES
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.memorymanager.outcome import AdmissionOutcome

FLEET = "numaudit-fleet"
NODE = "numaudit-node"
CONTAINER = "numaudit-container"
AGENT = "numaudit-agent"

DOCS = "${docs:raw}"
"""Where the docs are: a choice of every dashboard. Not encoded, as Grafana does to other values in links."""


def series(name: str, *matchers: str, **labels: str) -> str:
    """A selector: series("up", 'job=~"a|b"', code="200") is up{job=~"a|b",code="200"}."""
    exact = (f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{','.join((*matchers, *exact))}}}"


# Matchers of what was chosen. `=~` takes several values, and `.*` (all) takes series without the label, too.
CLUSTER = 'cluster=~"$cluster"'
NODES = f'{CLUSTER},$nodelabel=~"$nodename"'
NAMESPACES = f'{NODES},namespace=~"$namespace"'
_IN_NAMESPACE = 'namespace="$namespace"'
_IN_POD = 'pod="$pod"'
ONE_CONTAINER = f'{NODES},{_IN_NAMESPACE},{_IN_POD},container="$container"'

# Labels that name a node, and a container on it.
BY_NODE = "cluster, $nodelabel"
BY_CONTAINER = "cluster, $nodelabel, namespace, pod, container"

EVERY_AGENT = "numaudit_build_info"


def worst(count: int, promql: str, by: str) -> str:
    """Of these series, no more than this many: the largest at the end of the time range.

    `topk` alone picks again at each point of a graph, and draws all that were ever among the largest.
    """
    at_end = re.sub(r"\}(\[[^\]]*\])?", r"\g<0> @ end()", promql)
    return f"({promql}) and on ({by}) topk({count}, {at_end})"


_NAMED = 'nodename!=""'
_CLUSTERS = Variable(
    "cluster",
    "Cluster",
    f"label_values({EVERY_AGENT}, cluster)",
    "The label cluster, where the Prometheus of several clusters has one. Names of nodes may be the same in two.",
    all_only=True,
)
_NODE_LABEL = Variable(
    "nodelabel",
    "Node by",
    "query_result("
    f"count by (nodelabel) (label_replace({series(EVERY_AGENT, CLUSTER, _NAMED)}, "
    '"nodelabel", "nodename", "", "")'
    f' or label_replace({series(EVERY_AGENT, CLUSTER)}, "nodelabel", "instance", "", "")))',
    "The label that names a node: nodename if the scrape sets it, else instance.",
    regex='/nodelabel="([^"]+)"/',
    sort=2,
)


def _nodes(several: bool = False, all_only: bool = False) -> Variable:
    query = f"label_values({series(EVERY_AGENT, CLUSTER)}, $nodelabel)"
    return Variable("nodename", "Node", query, "The Kubernetes node, or the host.", several, all_only)


_NAMESPACES = Variable(
    "namespace",
    "Namespace",
    f"label_values({series('numaudit_container_info', NODES)}, namespace)",
    "Namespaces of containers. All: plain cgroups, too, which have none.",
    several=True,
)
SEVERAL_NODES = (_CLUSTERS, _NODE_LABEL, _nodes(several=True))
SEVERAL_CONTAINERS = (*SEVERAL_NODES, _NAMESPACES)
ONE_NODE = (_CLUSTERS, _NODE_LABEL, _nodes())
CONTAINER_CHOICES = (
    _CLUSTERS,
    _NODE_LABEL,
    _nodes(all_only=True),
    Variable(
        "namespace",
        "Namespace",
        f"label_values({series('numaudit_container_info', NODES)}, namespace)",
        "Its namespace; empty for a plain cgroup, for which choose one node.",
    ),
    Variable(
        "pod",
        "Pod",
        f"label_values({series('numaudit_container_info', NODES, _IN_NAMESPACE)}, pod)",
        "Its pod; empty for a plain cgroup.",
    ),
    Variable(
        "container",
        "Container",
        f"label_values({series('numaudit_container_info', NODES, _IN_NAMESPACE, _IN_POD)}, container)",
        "Its name; the path of a plain cgroup.",
    ),
)

_SAME = "${datasource:queryparam}&${cluster:queryparam}&${nodelabel:queryparam}&${docs:queryparam}&${__url_time_range}"


TO_NODE = Link("Node", f"/d/{NODE}?var-nodename=${{__data.fields.Node}}&{_SAME}")
"""From a row of a table that has the column Node."""
TO_CONTAINER = Link(
    "Container",
    f"/d/{CONTAINER}?var-nodename=${{__data.fields.Node}}&var-namespace=${{__data.fields.Namespace}}"
    f"&var-pod=${{__data.fields.Pod}}&var-container=${{__data.fields.Container}}&{_SAME}",
)
"""From a row of a table with these columns."""
TO_RUNBOOK = Link("Runbook", f"{DOCS}/runbooks/${{__data.fields.Alert}}.md", new_tab=True)


def docs(page: str, title: str) -> Link:
    return Link(title, f"{DOCS}/{page}", new_tab=True)


NODE_FIELDS = ("nodename", "instance")
"""The node's label in an answer: one of them is there."""

VERDICTS = tuple(REMEDIES)
"""The worst first."""
MISALIGNED_VERDICTS = "|".join(MISALIGNED)
COLORS = {
    "drifted": "dark-red",
    "spilled": "red",
    "cpu-remote": "dark-orange",
    "remote-access": "orange",
    "unknown": "purple",
    "split": "blue",
    "aligned": "green",
    "unmanaged": "gray",
}
"""Verdict -> colour, on every page the same."""
RANKS = tuple(Value(len(VERDICTS) - index, name, COLORS[name]) for index, name in enumerate(VERDICTS))
"""Verdicts as numbers, the worst the largest: only numbers have colours and an order in Grafana."""


_OURS = 'alertname=~"Numaudit.+"'
_SEVERITIES = (Value(3, "critical", "dark-red"), Value(2, "warning", "orange"), Value(1, "info", "blue"))
SEVERITIES = (*_SEVERITIES, Value(0, "other", "gray"))
"""Severities as numbers, the worst the largest; other: an alert that somebody gave a severity of their own."""
CRITICAL_FINDINGS = "|".join(rule.name for rule in RULES if rule.severity == "critical")


def finding_rank(matchers: str) -> str:
    """The severity of each finding of each container as its number in SEVERITIES."""
    named = {level.text: "|".join(one.name for one in RULES if one.severity == level.text) for level in _SEVERITIES}
    ranked = [
        f"{level.number} * {series('numaudit_container_finding', matchers, _any_of('finding', named[level.text]))}"
        for level in _SEVERITIES
    ]
    others = f"0 * {series('numaudit_container_finding', matchers)}"  # of newer agents
    return f"max by ({BY_CONTAINER}, finding) ({' or '.join((*ranked, others))})"


def alert_rank(by: str) -> str:
    """The severity of each alert that fires as its number in SEVERITIES."""
    named = (
        f"{level.number} * {series('ALERTS', NODES, _OURS, alertstate='firing', severity=level.text)}"
        for level in _SEVERITIES
    )
    return f"max by ({by}) ({' or '.join(named)} or 0 * {series('ALERTS', NODES, _OURS, alertstate='firing')})"


NUMA_REFUSALS = (
    'outcome=~"'
    + "|".join(
        one.value
        for one in AdmissionOutcome
        if one.value.startswith("rejected-") and one is not AdmissionOutcome.REJECTED_OTHER
    )
    + '"'
)
"""Of pods that were refused, those for which NUMA is the reason."""


def remote_share(matchers: str) -> str:
    """The remote share of each container's accesses. The label `remote` says whether it was measured or is expected."""

    def by(source: str, word: str) -> str:
        ratio = series("numaudit_container_remote_ratio", matchers, source=source)
        return f'label_replace(max by ({BY_CONTAINER}) ({ratio}), "remote", "{word}", "", "")'

    return f"({by('pmu', 'measured')} or on ({BY_CONTAINER}) {by('expected', 'expected')})"


def _any_of(label: str, values: str) -> str:
    return f'{label}=~"{values}"'


def verdict_rank(matchers: str, verdicts: str = ".*") -> str:
    """The verdict of each container as its number in RANKS; of these verdicts only (a regular expression)."""
    ranked = (
        f"{value.number} * {series('numaudit_container_verdict', matchers, verdict=value.text)}"
        for value in RANKS
        if re.fullmatch(verdicts, value.text)
    )
    return f"max by ({BY_CONTAINER}) ({' or '.join(ranked)})"
