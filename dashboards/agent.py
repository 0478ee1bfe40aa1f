"""The agents themselves: do they run, what do they see, what do they cost?

A graph has a line for each of the few agents with the largest values, and two for what the others have, so that it
costs the same with two nodes and with a thousand.
"""

from __future__ import annotations

from dashboards.choices import (
    AGENT,
    BY_NODE,
    EVERY_AGENT,
    NODE_FIELDS,
    NODES,
    SEVERAL_NODES,
    TO_NODE,
    docs,
    series,
    worst,
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Column, Lines, Panel, Query, Stat, Table

_NODE = Column(NODE_FIELDS, "Node", link=TO_NODE)
_AGENTS = series(EVERY_AGENT, NODES)
_NO_AGENT = "No agent reports"
_LARGEST = 3
_ROWS = 50
"""Of a table, at most."""


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


def _of_process(promql: str) -> str:
    """Of agents alone: every exporter has metrics of these names."""
    return f"{promql} and on (job, instance) {_AGENTS}"


def _rate(name: str) -> str:
    return f"rate({_of(name)}[$__rate_interval])"


def _by_node(title: str, description: str, promql: str, unit: str, width: int = 6, empty: str = _NO_AGENT) -> Panel:
    each = f"sum by ($nodelabel) ({promql})"
    queries = [
        Query(worst(_LARGEST, each, "$nodelabel"), "{{$nodelabel}}"),
        Query(f"quantile(0.95, {each})", "95 % of agents"),
        Query(f"quantile(0.5, {each})", "half of agents"),
    ]
    description = (
        f"{description} The named lines are the {_LARGEST} agents with the largest values at the end of the time "
        "range; the others say below which value 95 % and half of all agents are."
    )
    return Lines(title=title, description=description, queries=queries, unit=unit, width=width, minimum=0, empty=empty)


_FIRST = Section(
    "Do the agents run?",
    (
        Stat(
            title="Agents",
            description="This number of agents answered their newest scrape, by version.",
            queries=[Query(f"count by (version) ({_AGENTS})", "{{version}}", now=True)],
            empty=_NO_AGENT,
            width=4,
        ),
        Stat(
            title="Oldest snapshot",
            description="The newest snapshot of the slowest agent is this old. Above three intervals the ticks of that "
            "agent hang.",
            queries=[Query(f"max({_of('snapshot_age_seconds')})", now=True)],
            empty=_NO_AGENT,
            width=4,
            unit="s",
            warn=180,
            decimals=0,
        ),
        Stat(
            title="Failed and missed ticks",
            description="In the time range this number of ticks gave no snapshot (failed), and this number was left "
            "out because the tick before took too long (missed).",
            queries=[
                Query(f"round(sum(increase({_of('failed_ticks_total')}[$__range])))", "failed", now=True),
                Query(f"round(sum(increase({_of('missed_ticks_total')}[$__range])))", "missed", now=True),
            ],
            empty=_NO_AGENT,
            width=4,
            warn=1,
        ),
        Stat(
            title="Series left out",
            description="The setting metrics.max_series leaves out this number of container series now.",
            queries=[Query(f"sum({_of('omitted_series')})", now=True)],
            empty=_NO_AGENT,
            width=4,
            warn=1,
        ),
        Stat(
            title="Over the budget",
            description="This number of agents takes steps to keep its probes within overhead.max_cpu_percent. What "
            "they pause has no values.",
            queries=[
                Query(f"count(group by ({BY_NODE}) ({_of('overhead_step')} == 1)) or 0 * count({_AGENTS})", now=True)
            ],
            empty=_NO_AGENT,
            width=4,
            warn=1,
        ),
        Stat(
            title="Settings not taken over",
            description="This number of agents found its settings or web-config file wrong when it read them last, "
            "and uses the previous ones.",
            queries=[
                Query(
                    f"count(group by ({BY_NODE}) ({_of('config_reload_success')} == 0 "
                    f"or {_of('web_config_valid')} == 0)) or 0 * count({_AGENTS})",
                    now=True,
                )
            ],
            empty=_NO_AGENT,
            width=4,
            bad=1,
        ),
    ),
    height=4,
)

_FAILING = f"topk({_ROWS}, 1 - min by ({BY_NODE}, collector) ({_of('collector_success')} == 0))"

_COST = Section(
    "What they cost",
    (
        _by_node(
            "Duration of a tick",
            "The newest tick took this much wall-clock time, rendering included.",
            _of("tick_duration_seconds"),
            "s",
        ),
        _by_node(
            "CPU time of an agent",
            "An agent keeps this number of CPUs busy: 0.01 is one hundredth of a CPU.",
            _of_process(f"rate({series('process_cpu_seconds_total', NODES)}[$__rate_interval])"),
            "none",
        ),
        _by_node(
            "Memory of an agent",
            "An agent has this much resident memory.",
            _of_process(series("process_resident_memory_bytes", NODES)),
            "bytes",
        ),
        _by_node(
            "Share of CPU time that probes take",
            "The probes take this share of the time of all CPUs of the node, by estimate. overhead.max_cpu_percent is "
            "the budget.",
            _of("overhead_cpu_ratio"),
            "percentunit",
            empty="No agent runs a probe",
        ),
    ),
)

_MISSING = Section(
    "What they do not see",
    (
        Table(
            title="Collectors that fail",
            description=f"These collectors and sources of the kubelet gave nothing new in the newest tick ({_ROWS} at "
            "most). The age is that of the values that are still used.",
            queries=[
                Query(_FAILING, now=True),
                Query(
                    f"max by ({BY_NODE}, collector) ({_of('collector_age_seconds')}) "
                    f"and on ({BY_NODE}, collector) {_FAILING}",
                    now=True,
                ),
            ],
            empty="Every collector of the agents that report works",
            width=12,
            columns=(
                _NODE,
                Column("collector", "Collector"),
                Column("Value #B", "Age", "s"),
            ),
            sort="Age",
        ),
        Table(
            title="Unavailable features",
            description="These features cannot be measured on this number of nodes, for this reason. `numaudit doctor` "
            "on a node says more.",
            queries=[
                Query(f"topk({_ROWS}, count by (feature, reason) ({_of('feature_problem_info')}))", now=True),
            ],
            empty="Every agent that reports measures every feature",
            columns=(Column("feature", "Feature"), Column("reason", "Why"), Column("Value", "Nodes")),
            width=12,
            sort="Nodes",
        ),
    ),
)

DASHBOARD = Dashboard(
    uid=AGENT,
    title="numaudit / Agents",
    description="Do the agents run, what do they see, and what do they cost?",
    variables=SEVERAL_NODES,
    sections=(_FIRST, _COST, _MISSING),
    links=(docs("dashboards.md", "About this page"), docs("agent.md", "The agent")),
)
