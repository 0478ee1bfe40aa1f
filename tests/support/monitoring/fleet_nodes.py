"""What a Prometheus would have of agents, without either: pages by the real exporter, answers that were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from kubelets.http import replies
from made_up.reports import LIVE, NOW, STARTED, container, tick
from numaudit.containermanager.memory.headroom import headroom_of
from numaudit.containermanager.memory.state import Block, MachineState
from numaudit.exporters.exposition import evaluate_containers, evaluate_live, evaluate_tick
from numaudit.exporters.prometheus import render
from numaudit.exporters.series import SeriesTracker
from numaudit.fleet import queries
from numaudit.fleet.answers import Sample, read_vector
from numaudit.fleet.scope import Scope
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, NodeRoom
from numaudit.intent.promise import Promise
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import poll_once
from numaudit.kubelet.intent.intent_of import intent_of
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.report.build import build
from numaudit.scenario.values import Setup
from numaudit.snapshot import Allowed, Container, NodeMemory, Resident, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet


def page(
    setup: Setup,
    machine_state: MachineState,
    containers: int = 0,
    away: Iterable[int] = (),
    room: NodeRoom | None = None,
) -> str:
    """What an agent on such a node serves. Of its containers those `away` have their memory on the wrong node."""
    listed = [container(1000 + number, pod=f"pod-{number}") for number in range(containers)]
    wrong = set(away)
    ids = [node.id for node in setup.machine.nodes]
    held = {
        one.id: Resident(anon={ids[-1] if number in wrong else ids[0]: 64 << 20}, file={ids[0]: 4096})
        for number, one in enumerate(listed)
    }
    snapshot = Snapshot(
        taken_at=NOW,
        machine=setup.machine,
        cgroup_mode="v2",
        containers=tuple(listed),
        allowed={one.id: Allowed(NodeSet.of(ids[0]), CpuSet.parse("0-1")) for one in listed},
        residency=held,
        nodes=tuple(NodeMemory(node.id, node.memory, 1 << 30, Resident(anon={})) for node in setup.machine.nodes),
        unattributed=Resident(anon={}),
        cpu_time={},
        page_alloc={},
        outcomes=(),
        intent=_intent(setup, machine_state, listed),
    )
    of = build(snapshot)
    series = SeriesTracker().update(of.containers, of.taken_at, tuple(ids))
    whole = evaluate_tick(replace(tick(of), room=room), evaluate_containers(series)[0]), evaluate_live(LIVE, STARTED)
    return "".join(render(one, "text").decode() for one in whole)


def _intent(setup: Setup, machine_state: MachineState, listed: Sequence[Container]) -> Intent:
    kubelet = setup.kubelet
    gates = setup.configuration.get("featureGates")
    config = KubeletConfig(
        f"v{setup.version}.0",
        kubelet.memory_policy,
        "none" if kubelet.cpu is None else "static",
        kubelet.topology.policy,
        kubelet.topology.scope,
        gates if isinstance(gates, Mapping) else None,
        setup.configuration,
    )
    first = NodeSet.of(setup.machine.nodes[0].id)
    promised = tuple(
        ContainerIntent(
            one.pod_uid or "", one.name or "", one.namespace, one.pod, "app", (one.id,),
            Promise((Block.of("memory", 1 << 30, first),)), is_stale=False, has_ended=False,
        )
        for one in listed
    )  # fmt: skip
    return Intent(
        containers=promised,
        machine=machine_state,
        headroom=headroom_of(machine_state, kubelet.topology.policy) if machine_state else None,
        config=config,
    )


def page_of_tree(root: Path) -> str:
    """What an agent serves that reads this captured host, without its containers."""
    readings = poll_once(KubeletPoller.of(Host.under(root)))
    assert readings is not None
    assert readings.machine is not None
    intent = intent_of(readings, ()).intent
    snapshot = Snapshot(
        taken_at=NOW,
        machine=readings.machine,
        cgroup_mode="v2",
        containers=(),
        allowed={},
        residency={},
        nodes=(),
        unattributed=Resident(anon={}),
        cpu_time={},
        page_alloc={},
        outcomes=(),
        intent=intent,
    )
    of = build(snapshot)
    series = SeriesTracker().update(of.containers, of.taken_at, tuple(node.id for node in readings.machine.nodes))
    whole = evaluate_tick(replace(tick(of), room=intent.room), evaluate_containers(series)[0])
    return "".join(render(one, "text").decode() for one in (whole, evaluate_live(LIVE, STARTED)))


def samples(text: str, node: str, **labels: str) -> tuple[Sample, ...]:
    """A scraped page as a server answers for all of it."""
    target = {"nodename": node, "instance": f"{node}:9746", "job": "numaudit", **labels}
    result = []
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            metric = {"__name__": one.name} | dict(one.labels) | target
            result.append({"metric": metric, "value": [NOW, repr(one.value)]})
    return read_vector(vector(result)).samples


def vector(result: object, **more: object) -> bytes:
    """The body of an instant vector."""
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **more}).encode()


@dataclass(slots=True)
class Answering:
    """Answers some queries, and others with nothing."""

    known: Mapping[str, tuple[Sample, ...]]
    where: str = "http://prometheus"
    at: float = NOW
    warnings: dict[str, None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def vector(self, promql: str) -> tuple[Sample, ...]:
        self.asked.append(promql)
        return self.known.get(promql, ())


def answering(scraped: Iterable[Sample]) -> Answering:
    """Answers what needs no engine: whose pages these are, and their memory maps."""
    scope = Scope()
    by_name: dict[str, list[Sample]] = {}
    for one in scraped:
        by_name.setdefault(one.label("__name__"), []).append(one)
    builds = tuple(by_name.get("numaudit_build_info", ()))
    maps = tuple(one for name in queries.MAP.split("|") for one in by_name.get(f"numaudit_{name}", ()))
    return Answering(
        {
            queries.agents(scope): builds,
            queries.known_agents(scope): builds,
            queries.memory_maps(scope): maps,
            queries.stale_entries(scope): tuple(
                one for one in by_name.get("numaudit_memory_manager_stale_entries", ()) if one.value > 0
            ),
            queries.distances(scope): tuple(by_name.get("numaudit_node_distance", ())),
        }
    )


def recordable(scope: Scope, top: int) -> dict[str, str]:
    """Query -> the name of its function in `queries`, but for `details`, which depends on the answers."""
    of_scope = (
        "agents", "known_agents", "targets", "ages", "verdicts", "misplaced", "refusals", "room", "problems",
        "memory_maps", "distances", "stale_entries", "source_ages", "findings",
    )  # fmt: skip
    texts = {getattr(queries, name)(scope): name for name in of_scope}
    return texts | {getattr(queries, name)(scope, top): name for name in ("worst", "refused_workloads")}


def recorded(file: Path, scope: Scope, top: int) -> Answering:
    """A server's own answers to each question of a report, recorded with the same `top`."""
    bodies: dict[str, str] = json.loads(file.read_text())
    known = {promql: read_vector(bodies[name].encode()).samples for promql, name in recordable(scope, top).items()}
    worst = known[queries.worst(scope, top)]
    names = [(one.label("namespace"), one.label("pod"), one.label("container")) for one in worst]
    (details,) = queries.details(scope, names)
    known[details] = read_vector(bodies["details"].encode()).samples
    return Answering(known)


class Answered:
    """A server that gives a recorded server's answers, and none to other questions."""

    def __init__(self, server: Answering, *warnings: str) -> None:
        self.server, self.warnings = server, list(warnings)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        (query,) = parse_qs(request.rfile.read(int(request.headers["Content-Length"])).decode())["query"]
        rows = [{"metric": one.labels, "value": one.stamped} for one in self.server.known.get(query, ())]
        at = [{"metric": {}, "value": [self.server.at, str(self.server.at)]}]
        replies(vector(at if query == "time()" else rows, warnings=self.warnings))(request)
