"""The agents themselves: do they run, what do they see, what do they cost?"""

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
)
from dashboards.model import Dashboard, Section
from dashboards.panels import Bars, Column, Lines, Panel, Query, Stat, Table, Value

_OK = (Value(1, "yes", "green"), Value(0, "no", "red"))
_NODE = Column(NODE_FIELDS, "Node", link=TO_NODE)
_AGENTS = series(EVERY_AGENT, NODES)


def _of(name: str, *matchers: str, **labels: str) -> str:
    return series(f"numaudit_{name}", NODES, *matchers, **labels)


def _rate(name: str) -> str:
    return f"rate({_of(name)}[$__rate_interval])"


def _by_node(title: str, description: str, promql: str, unit: str, width: int = 6) -> Panel:
    """A line for each agent."""
    queries = [Query(f"sum by ($nodelabel) ({promql})", "{{$nodelabel}}")]
    return Lines(title=title, description=description, queries=queries, unit=unit, width=width, minimum=0)


_FIRST = Section(
    "Do the agents run?",
    (
        Stat(
            title="Agents",
            description="Agents whose newest scrape succeeded.",
            queries=[Query(f"count({_AGENTS})", now=True)],
            width=4,
        ),
        Stat(
            title="Oldest snapshot",
            description="Age of the newest snapshot of the slowest agent. Above three intervals the "
            "ticks of that agent hang.",
            queries=[Query(f"max({_of('snapshot_age_seconds')})", now=True)],
            width=4,
            unit="s",
            warn=180,
            decimals=0,
        ),
        Stat(
            title="Failed and missed ticks",
            description="Ticks that gave no snapshot, and ticks left out because the one before took too long, in the "
            "time range.",
            queries=[
                Query(f"round(sum(increase({_of('failed_ticks_total')}[$__range])))", "failed", now=True),
                Query(f"round(sum(increase({_of('missed_ticks_total')}[$__range])))", "missed", now=True),
            ],
            width=4,
            warn=1,
        ),
        Stat(
            title="Series left out",
            description="Container series that metrics.max_series leaves out now.",
            queries=[Query(f"sum({_of('omitted_series')})", now=True)],
            width=4,
            warn=1,
        ),
        Stat(
            title="Over the budget",
            description="Agents that take steps to keep their probes within overhead.max_cpu_percent. What they pause "
            "is absent.",
            queries=[
                Query(f"count(group by ({BY_NODE}) ({_of('overhead_step')} == 1)) or 0 * count({_AGENTS})", now=True)
            ],
            width=4,
            warn=1,
        ),
        Stat(
            title="Settings not taken over",
            description="Agents whose settings or web-config file were wrong when read last; those before stay.",
            queries=[
                Query(
                    f"count(group by ({BY_NODE}) ({_of('config_reload_success')} == 0 "
                    f"or {_of('web_config_valid')} == 0)) or 0 * count({_AGENTS})",
                    now=True,
                )
            ],
            width=4,
            bad=1,
        ),
    ),
    height=4,
)

_TICKS = Section(
    "Ticks",
    (
        _by_node(
            "Age of the newest snapshot",
            "How old the figures were at each scrape. Grows without end where ticks hang.",
            _of("snapshot_age_seconds"),
            "s",
        ),
        _by_node(
            "Duration of a tick",
            "Wall-clock time of the newest tick, rendering included.",
            _of("tick_duration_seconds"),
            "s",
        ),
        Table(
            title="Collectors",
            description="Success and duration of each collector in the newest tick, and the number of "
            "items that vanished or "
            "could not be read.",
            queries=[
                Query(f"min by ({BY_NODE}, collector) ({_of('collector_success')})", now=True),
                Query(f"max by ({BY_NODE}, collector) ({_of('collector_duration_seconds')})", now=True),
                Query(f"max by ({BY_NODE}, collector) ({_of('collector_skipped')})", now=True),
            ],
            columns=(
                _NODE,
                Column("collector", "Collector"),
                Column("Value #A", "Worked", values=_OK, colored=True),
                Column("Value #B", "Duration", "s"),
                Column("Value #C", "Skipped"),
            ),
            width=12,
            sort="-Worked",
        ),
    ),
    height=8,
)

_COST = Section(
    "What they cost",
    (
        _by_node(
            "CPU time of an agent",
            "CPUs that an agent keeps busy: 0.01 is one hundredth of a CPU.",
            _rate("process_cpu_seconds_total"),
            "none",
        ),
        _by_node("Memory of an agent", "Resident memory of an agent.", _of("process_resident_memory_bytes"), "bytes"),
        _by_node(
            "Share of CPU time that probes take",
            "Of all CPUs' time of the node, by estimate. overhead.max_cpu_percent is the budget.",
            _of("overhead_cpu_ratio"),
            "percentunit",
        ),
        Lines(
            title="CPU time by probe",
            description="CPUs that each kind of probe keeps busy on all nodes together, by estimate.",
            queries=[Query(f"sum by (probe) ({_rate('bpf_estimated_seconds_total')})", "{{probe}}")],
            minimum=0,
        ),
        Lines(
            title="Events by probe",
            description="Events per second that each kind of probe counts on all nodes together.",
            queries=[Query(f"sum by (probe) ({_rate('bpf_events_total')})", "{{probe}}")],
            unit="cps",
            minimum=0,
        ),
        _by_node("Open files", "Open descriptors of an agent. They must not grow.", _of("process_open_files"), "none"),
        _by_node("Threads", "Threads of an agent. They must not grow.", _of("process_threads"), "none"),
        Table(
            title="Steps taken",
            description="Steps by which an agent keeps its probes within their budget. docs/access.md has the steps.",
            queries=[Query(f"max by ({BY_NODE}, step) ({_of('overhead_step')}) > 0", now=True)],
            columns=(_NODE, Column("step", "Step")),
        ),
    ),
)

_SEEN = Section(
    "What they see",
    (
        Table(
            title="Unavailable features",
            description="Features that an agent cannot measure on its node, and the reason. `numaudit "
            "doctor` there says more.",
            queries=[Query(f"max by ({BY_NODE}, feature, reason) ({_of('feature_problem_info')})", now=True)],
            columns=(_NODE, Column("feature", "Feature"), Column("reason", "Why")),
            width=8,
        ),
        Bars(
            title="Agents without a feature",
            description="Number of nodes on which a feature cannot be measured.",
            queries=[Query(f"count by (feature) ({_of('feature_enabled')} == 0)", "{{feature}}", now=True)],
            width=8,
        ),
        Table(
            title="Versions",
            description="The version of numaudit on each node, and of its interpreter.",
            queries=[Query(f"max by ({BY_NODE}, version, python) ({_AGENTS})", now=True)],
            columns=(_NODE, Column("version", "numaudit"), Column("python", "Python")),
            width=8,
        ),
        Lines(
            title="Lost events",
            description="Events per second that a probe did not count, by reason (docs/metrics.md).",
            queries=[Query(f"sum by (probe, reason) ({_rate('lost_events_total')})", "{{probe}} {{reason}}")],
            width=8,
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="Dropped series",
            description="Series per second left out over metrics.max_series, counted in each tick.",
            queries=[Query(f"sum by (reason) ({_rate('dropped_series_total')})", "{{reason}}")],
            width=8,
            unit="cps",
            minimum=0,
        ),
        _by_node(
            "Containers left out",
            "Containers without series, because metrics.max_series was reached.",
            _of("omitted_containers"),
            "none",
            width=8,
        ),
    ),
)

_OUT = Section(
    "What they send",
    (
        Lines(
            title="HTTP requests",
            description="Requests per second that the agents answered, by path and status.",
            queries=[Query(f"sum by (path, code) ({_rate('web_requests_total')})", "{{path}} {{code}}")],
            unit="cps",
            minimum=0,
        ),
        Lines(
            title="OTLP batches",
            description="Pushes per second by outcome; none where no endpoint is set.",
            queries=[Query(f"sum by (outcome) ({_rate('otlp_batches_total')})", "{{outcome}}")],
            unit="cps",
            minimum=0,
        ),
        _by_node(
            "Time since the last OTLP delivery",
            "Time since a push was last delivered as a whole.",
            f"time() - {_of('otlp_last_success_timestamp_seconds')}",
            "s",
        ),
        _by_node(
            "Log lines left out",
            "Log lines per second that were left out because the same message came too often.",
            _rate("suppressed_log_lines_total"),
            "cps",
        ),
    ),
)

DASHBOARD = Dashboard(
    uid=AGENT,
    title="numaudit / Agents",
    description="Do the agents run, what do they see, and what do they cost?",
    variables=SEVERAL_NODES,
    sections=(_FIRST, _TICKS, _COST, _SEEN, _OUT),
    links=(docs("dashboards.md", "About this page"), docs("agent.md", "The agent")),
)
