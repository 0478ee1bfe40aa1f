"""Sentences of a cluster's report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaudit.api.cluster_document import ClusterAgents, ClusterNode, ClusterRoom, misaligned
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.topology.sizes import in_units, plural

_MOST_AWAY, _MOST_NAMES = 50, 5
"""Nodes without an answer, and other nodes, that a notice names."""
SEVERITY: Mapping[str, int] = {name: rank for rank, name in enumerate(REMEDIES)}
"""Verdict -> its place in their order, 0 for the worst."""


def summary(
    agents: ClusterAgents,
    verdicts: Mapping[str, int],
    misplaced: int,
    refused: int,
    rooms: Sequence[ClusterRoom],
    unsafe: int = 0,
) -> str:
    """`refused`: pods that are still there to be seen; `unsafe`: kubelets."""
    bad = [f"{verdicts[name]} {name}" for name in SEVERITY if name in MISALIGNED and verdicts.get(name)]
    total = sum(verdicts.values())
    parts = [
        *([f"{plural(unsafe, 'kubelet')} would not start again"] if unsafe else []),
        f"{misaligned(verdicts)} of {plural(total, 'container')} misaligned"
        + (f" ({', '.join(bad)}; {in_units(misplaced)} misplaced)" if bad else ""),
        f"{plural(refused, 'pod')} refused in the last hour and not deleted since",
    ]
    if rooms:
        one = rooms[0]
        where = "one NUMA node" if one.numa_nodes == 1 else f"{one.numa_nodes} NUMA nodes"
        parts.append(f"{in_units(one.bytes)} of memory would still be admitted on {where} of {one.node}")
    reporting = reporting_sentence(agents)
    return f"{reporting[0].upper()}{reporting[1:]}: {'; '.join(parts)}"


def blind_spots(nodes: Iterable[ClusterNode]) -> list[str]:
    """Notices that name what is not seen: nodes without news, silent sources, containers of unknown verdict."""
    listed = list(nodes)
    away = [f"{one.node} ({one.state})" for one in listed if one.state != "reporting"]
    silent = [f"{one.node} ({', '.join(one.silent_sources)})" for one in listed if one.silent_sources]
    unknown = [f"{one.node} ({count})" for one in listed if (count := one.verdicts.get("unknown"))]
    found = []
    if away:
        found.append(f"there are no current values of {_some(away, _MOST_AWAY)}")
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


def reporting_sentence(agents: ClusterAgents) -> str:
    """`2 of 3 nodes report (1 down)`"""
    missing = {"stale": agents.stale, "down": agents.down, "without an agent": agents.none}
    total = agents.reporting + sum(missing.values())
    why = ", ".join(f"{count} {state}" for state, count in missing.items() if count)
    if not why:
        return f"all {total} nodes report" if total > 1 else "1 node reports"
    return f"{agents.reporting} of {plural(total, 'node')} report ({why})"


def several_versions(count: ClusterAgents) -> list[str]:
    """A notice when not all agents are of one version."""
    if len(count.versions) < 2:
        return []
    listed = ", ".join(f"{version} on {plural(nodes, 'node')}" for version, nodes in count.versions.items())
    return [f"the agents are of {len(count.versions)} versions: {listed}"]
