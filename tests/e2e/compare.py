"""A forecast beside what the kubelet did. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forecast:
    """An answer of `numaudit fit`; `admitted` None = it does not know, for the reason given."""

    admitted: bool | None
    reason: str
    nodes: dict[str, list[int]]
    """Container -> its promised NUMA nodes."""


@dataclass(frozen=True, slots=True)
class Happened:
    """The kubelet's decision; `admitted` None = none within the time."""

    admitted: bool | None
    reason: str
    nodes: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Row:
    """One pod."""

    pod: str
    forecast: Forecast
    happened: Happened

    @property
    def is_right(self) -> bool | None:
        """None = nothing to compare."""
        before, after = self.forecast, self.happened
        if before.admitted is None or after.admitted is None:
            return None
        if before.admitted != after.admitted:
            return False
        if not before.admitted:
            return before.reason == after.reason
        if before.nodes and not after.nodes:
            return None  # what was promised was not seen
        return all(before.nodes.get(name) == nodes for name, nodes in after.nodes.items())


def forecast_of(answer: Json) -> Forecast:
    """Of one document of kind Explanation."""
    if answer["doubt"]:
        return Forecast(None, str(answer["doubt"]), {})
    nodes = {
        name: one["hint"]["nodes"]
        for name, one in answer["containers"].items()
        if one.get("hint") and one.get("blocks")
    }
    return Forecast(answer["admitted"], "" if answer["admitted"] else answer["reason"], nodes)


def happened_of(pod: Json, report: Json | None) -> Happened:
    """Of the pod's object once the kubelet has decided, and of a report that was made then."""
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        return Happened(False, status.get("reason", ""), {})
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    if not statuses:
        return Happened(None, status.get("phase", "Pending"), {})
    name = pod["metadata"]["name"], pod["metadata"]["namespace"]
    promised = {
        one["container"]: one["intended"]["memoryNodes"]
        for one in (report or {}).get("containers", [])
        if (one.get("pod"), one.get("namespace")) == name and (one.get("intended") or {}).get("bytes")
    }
    return Happened(True, "", promised)


def policy_of(report: Json) -> str:
    """The name of the Memory Manager's policy; `unknown` where the agent does not know its kubelet."""
    return str((report.get("kubelet") or {}).get("memoryManagerPolicy") or "unknown")


def containers_in(namespace: str, report: Json) -> int:
    """Containers that have a verdict, of a node's report."""
    return sum(one.get("namespace") == namespace and one.get("verdict") is not None for one in report["containers"])


def plugin_is_right(namespace: str, report: Json, merged: Json) -> tuple[bool, str]:
    """The plugin's document beside the agent's own report: the same containers, and at least one."""
    own, listed = containers_in(namespace, report), sum(merged["verdicts"].values())
    states = {one["node"]: one["state"] for one in merged["nodes"]}
    said = (
        f"{listed} of {own} containers of {namespace}; {', '.join(f'{node} {state}' for node, state in states.items())}"
    )
    return own == listed > 0, said


def table(rows: Sequence[Row]) -> str:
    """For people, with the sum at the end."""
    lines = [("POD", "FORECAST", "KUBELET", "")]
    for row in rows:
        mark = {True: "right", False: "WRONG", None: "not compared"}[row.is_right]
        lines.append((row.pod, _text(row.forecast), _text(row.happened), mark))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    text = ["  ".join((*map(str.ljust, line, widths), line[3])).rstrip() for line in lines]
    compared = [row for row in rows if row.is_right is not None]
    right = sum(row.is_right is True for row in compared)
    left = f"; {len(rows) - len(compared)} could not be compared" if len(compared) < len(rows) else ""
    return "\n".join([*text, "", f"forecasts right: {right} of {len(compared)}{left}"])


def _text(one: Forecast | Happened) -> str:
    if one.admitted is None:
        return f"unknown: {one.reason}"[:60]
    if not one.admitted:
        return one.reason
    nodes = sorted({tuple(found) for found in one.nodes.values()})
    return "admitted" + (f" on {'; '.join(','.join(map(str, found)) for found in nodes)}" if nodes else "")
