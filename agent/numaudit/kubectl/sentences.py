"""Sentences of a cluster's report. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from numaudit.api.cluster_document import ClusterAgents, ClusterNode, ClusterRoom, misaligned
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.kubectl.answers import Fit
from numaudit.topology.quantity import in_units, plural, some_of

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
    """`refused`: pods that the agents saw, deleted ones included; `unsafe`: kubelets."""
    bad = [f"{verdicts[name]} {name}" for name in SEVERITY if name in MISALIGNED and verdicts.get(name)]
    total = sum(verdicts.values())
    parts = [
        *([f"{plural(unsafe, 'kubelet')} would not start again"] if unsafe else []),
        f"{misaligned(verdicts)} of {plural(total, 'container')} misaligned"
        + (f" ({', '.join(bad)}; {in_units(misplaced)} misplaced)" if bad else ""),
        f"{plural(refused, 'pod')} refused in the last hour",
    ]
    if rooms:
        one = rooms[0]
        where = "one NUMA node" if one.node_count == 1 else f"{one.node_count} NUMA nodes"
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
        found.append(f"there are no current values of {some_of(away, _MOST_AWAY)}")
    if silent:
        where = some_of(silent, _MOST_NAMES)
        found.append(f"sources of the kubelet are silent on {where}; promises and room there may be old")
    if unknown:
        where = some_of(unknown, _MOST_NAMES)
        found.append(f"verdicts are unknown on {where}; `numaudit report` there names the evidence that is missing")
    return found


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


def fit_summary(answers: Iterable[Sequence[Fit]], silent: int) -> str:
    """`answers`: the pods of each node that answered; `silent`: nodes that did not."""
    unknown = [f"no answer from {plural(silent, 'node')}"] if silent else []
    return "; ".join([*(_of_pod(name, found) for name, found in _by_pod(answers).items()), *unknown])


def all_fit(answers: Iterable[Sequence[Fit]]) -> bool:
    """Are as many of each pod admitted, on all nodes together, as were asked for?"""
    return all(sum(one.fit for one in found) >= found[0].asked for found in _by_pod(answers).values())


def _by_pod(answers: Iterable[Sequence[Fit]]) -> Mapping[str, Sequence[Fit]]:
    found: defaultdict[str, list[Fit]] = defaultdict(list)
    for one in (one for pods in answers for one in pods):
        found[one.pod].append(one)
    return found


def _of_pod(name: str, found: Sequence[Fit]) -> str:
    asked, total = found[0].asked, sum(one.fit for one in found)
    taking, open_ = sum(one.fit > 0 for one in found), sum(one.is_open for one in found)
    refusing = len(found) - taking - open_
    several = "" if asked == 1 else f"all {asked} " if total >= asked else f"{total} of {asked} "
    parts = [
        f"{several}{name} would be admitted, on {plural(taking, 'node')}" if taking else "",
        f"{'' if taking else f'{name} is '}refused on {plural(refusing, 'node')}" if refusing else "",
        f"{'' if taking or refusing else f'{name}: '}not known of {plural(open_, 'node')}" if open_ else "",
    ]
    return ", ".join(filter(None, parts))
