"""The agents that a Prometheus knows: which node each is on, and whether it reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.fleet.answers import Sample
from numaudit.fleet.scope import Scope

AgentState = Literal["reporting", "stale", "down", "gone"]
"""stale: it answers, but measures nothing any more; down: it does not answer; gone: nobody scrapes it now."""
STATES: tuple[AgentState, ...] = ("reporting", "stale", "down", "gone")

AgentKey = tuple[str, ...]
"""The values of `Scope.by`."""


class FleetAgent(Struct, frozen=True):
    """One agent."""

    key: AgentKey
    node: str
    """The Kubernetes node's name, or the address it is scraped at."""
    instance: str
    state: AgentState
    version: str | None
    age: float | None
    """Seconds since what it reports was measured."""


class Agents(Struct, frozen=True):
    """One for each node."""

    by_key: Mapping[AgentKey, FleetAgent]
    notices: tuple[str, ...]

    def of(self, sample: Sample, scope: Scope) -> FleetAgent | None:
        """Return the agent that this sample belongs to; None = that agent is left out."""
        return self.by_key.get(key_of(sample, scope))

    @property
    def reporting(self) -> tuple[FleetAgent, ...]:
        return tuple(one for one in self.by_key.values() if one.state == "reporting")


def key_of(sample: Sample, scope: Scope) -> AgentKey:
    return tuple(sample.label(name) for name in scope.by)


def find_agents(
    scope: Scope,
    builds: Sequence[Sample],
    known: Iterable[Sample],
    targets: Iterable[Sample],
    ages: Iterable[Sample],
) -> Agents:
    """Every agent that has reported within an hour, one for each node, by the node's name.

    Raises Unavailable when there is none, and when two series stand for one agent, as those of two clusters or two
    replicas of a Prometheus may: then all sums would be wrong.
    """
    _refuse_twins(scope, builds)
    versions = {key_of(one, scope): one.label("version") or None for one in builds}
    is_up = {key_of(one, scope): one.value == 1 for one in targets}
    age_of = {key_of(one, scope): one.value for one in ages}
    keys = dict.fromkeys([*versions, *(key_of(one, scope) for one in known)])
    if not keys:
        raise Unavailable(_nothing(scope))
    found = [
        FleetAgent(
            key,
            key[0] or _instance(scope, key),
            _instance(scope, key),
            _state(key in versions, is_up.get(key), key in age_of),
            versions.get(key),
            age_of.get(key),
        )
        for key in keys
    ]
    found.sort(key=lambda one: (one.node, STATES.index(one.state), one.age or 0.0, one.key))
    by_node: dict[str, FleetAgent] = {}
    several: dict[str, None] = {}
    for one in found:
        if by_node.setdefault(one.node, one) is not one and one.state == "reporting":
            several[one.node] = None
    notices = [_several(list(several))] if several else []
    if scope.node_label != "instance" and all(not one.key[0] for one in by_node.values()):
        notices.append(
            f"no series has the label {scope.node_label}, so nodes are named by the address they are scraped at; "
            "--node-label names another"
        )
    return Agents({one.key: one for one in by_node.values()}, tuple(notices))


def _state(reports: bool, is_up: bool | None, has_age: bool) -> AgentState:
    """An agent that has not measured for long leaves out all but what it knows of itself."""
    if reports:
        return "reporting"
    if is_up or (is_up is None and has_age):
        return "stale"
    return "gone" if is_up is None else "down"


def _instance(scope: Scope, key: AgentKey) -> str:
    return key[scope.by.index("instance")]


def _refuse_twins(scope: Scope, builds: Sequence[Sample]) -> None:
    first: dict[AgentKey, Sample] = {}
    for one in builds:
        other = first.setdefault(key_of(one, scope), one)
        if other is one:
            continue
        differing = sorted(
            name
            for name in {*one.labels, *other.labels} - {"version", "python"}
            if one.label(name) != other.label(name)
        )
        if differing:
            name = differing[0]
            raise Unavailable(
                f"the agent at {_instance(scope, key_of(one, scope))} is reported twice: its series differ in "
                f"{', '.join(differing)} ({other.label(name)!r}, {one.label(name)!r}); choose one with "
                f"--selector '{name}=\"{other.label(name)}\"'"
            )


def _several(nodes: Sequence[str]) -> str:
    listed = ", ".join(nodes[:3]) + (", ..." if len(nodes) > 3 else "")
    return (
        f"several agents report from one node, and the freshest counts: {listed} ({len(nodes)} in all); if they are "
        "nodes of several clusters, choose one with --selector"
    )


def _nothing(scope: Scope) -> str:
    where = f" with {scope.selector}" if scope.selector.strip() else ""
    return (
        f"no numaudit agent has reported{where} within an hour: there is no numaudit_build_info. Does this Prometheus "
        "scrape the agents (docs/prometheus.md, port 9746)? Is its path, tenant or --selector the right one?"
    )
