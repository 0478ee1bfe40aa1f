"""Sentences of a cluster's report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaudit.api.fleet_document import FleetAgents, FleetNode, FleetReport, FleetRoom, misaligned
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.fleet.agents import Agents
from numaudit.fleet.answers import Sample
from numaudit.topology.sizes import in_units, plural

_MOST_NAMES = 5
SEVERITY: Mapping[str, int] = {name: rank for rank, name in enumerate(REMEDIES)}
"""Verdict -> its place in their order, 0 for the worst."""


def summary(
    agents: FleetAgents,
    verdicts: Mapping[str, int],
    misplaced: int,
    refused: int,
    rooms: Sequence[FleetRoom],
    unsafe: int = 0,
    *,
    refused_are_counted: bool = True,
) -> str:
    """`refused_are_counted`: by the agents' counters; else `refused` are the pods that are still there to be seen."""
    bad = [f"{verdicts[name]} {name}" for name in SEVERITY if name in MISALIGNED and verdicts.get(name)]
    total = sum(verdicts.values())
    parts = [
        *([f"{plural(unsafe, 'kubelet')} would not start again"] if unsafe else []),
        f"{misaligned(verdicts)} of {plural(total, 'container')} misaligned"
        + (f" ({', '.join(bad)}; {in_units(misplaced)} misplaced)" if bad else ""),
        f"{plural(refused, 'pod')} refused in the last hour{'' if refused_are_counted else ' and not deleted since'}",
    ]
    if rooms:
        one = rooms[0]
        where = "one NUMA node" if one.numa_nodes == 1 else f"{one.numa_nodes} NUMA nodes"
        parts.append(f"{in_units(one.bytes)} of memory would still be admitted on {where} of {one.node}")
    reporting = reporting_sentence(agents)
    return f"{reporting[0].upper()}{reporting[1:]}: {'; '.join(parts)}"


def blind_spots(nodes: Iterable[FleetNode], most: int = _MOST_NAMES) -> list[str]:
    """Notices that name what is not seen: nodes without news, silent sources, containers of unknown verdict.

    `most`: names of nodes without news that it lists.
    """
    listed = list(nodes)
    away = [f"{one.node} ({one.state})" for one in listed if one.state != "reporting"]
    silent = [f"{one.node} ({', '.join(one.silent_sources)})" for one in listed if one.silent_sources]
    unknown = [f"{one.node} ({count})" for one in listed if (count := one.verdicts.get("unknown"))]
    found = []
    if away:
        found.append(f"there are no current values of {_some(away, most)}")
    if silent:
        found.append(f"sources of the kubelet are silent on {_some(silent)}; promises and room there may be old")
    if unknown:
        found.append(
            f"verdicts are unknown on {_some(unknown)}; `numaudit report` there names the evidence that is missing"
        )
    return found


def _some(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def reporting_sentence(agents: FleetAgents) -> str:
    """`2 of 3 nodes report (1 down)`"""
    missing = {"stale": agents.stale, "down": agents.down, "gone": agents.gone, "without an agent": agents.none}
    total = agents.reporting + sum(missing.values())
    why = ", ".join(f"{count} {state}" for state, count in missing.items() if count)
    if not why:
        return f"all {total} nodes report" if total > 1 else "1 node reports"
    return f"{agents.reporting} of {plural(total, 'node')} report ({why})"


def notices_of(warnings: Iterable[str], agents: Agents, count: FleetAgents) -> list[str]:
    """Notices about the answers and the agents."""
    found = [f"the server warns: {text}" for text in warnings]
    found += agents.notices
    return [*found, *several_versions(count)]


def several_versions(count: FleetAgents) -> list[str]:
    """A notice when not all agents are of one version."""
    if len(count.versions) < 2:
        return []
    listed = ", ".join(f"{version} on {plural(nodes, 'node')}" for version, nodes in count.versions.items())
    return [f"the agents are of {len(count.versions)} versions: {listed}"]


def what_is_missing(found: FleetReport, warnings: Iterable[str]) -> str | None:
    """Reason why there may be containers whose verdicts are not in the report; None = there are none."""
    if found.agents.stale or found.agents.down:
        return reporting_sentence(found.agents)
    if not found.verdicts and found.namespace is None:
        return "no agent gives any verdict"
    return next((f"the server warns: {text}" for text in warnings), None)


_PROBLEMS = ("state_restart_safe", "state_valid", "restart_refused_pods", "collector_age_seconds")
"""The gravest first."""


def problem_rank(sample: Sample) -> int:
    """0 for the gravest kind of `problem`."""
    name = sample.label("__name__").removeprefix("numaudit_")
    return _PROBLEMS.index(name) if name in _PROBLEMS else len(_PROBLEMS)


def problem(sample: Sample) -> str:
    """One of `queries.problems`."""
    match sample.label("__name__").removeprefix("numaudit_"):
        case "state_valid":
            return f"{sample.label('file')} is not valid"
        case "state_restart_safe":
            its = "its " if sample.label("file") == "configuration" else ""
            return f"the kubelet may not start again with {its}{sample.label('file')}"
        case "restart_refused_pods":
            what = "a reboot" if sample.label("reboot") == "true" else "a restart of the kubelet"
            return f"{what} would refuse {plural(round(sample.value), 'pod')}"
        case "collector_age_seconds":
            minutes = plural(round(sample.value / 60), "minute")
            return f"{sample.label('collector')} was last read {minutes} ago, so promises and room may be old"
        case _:
            return f"{plural(round(sample.value), 'container')} left out by metrics.max_series"
