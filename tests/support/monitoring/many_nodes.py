"""Many made-up nodes behind one port, for a Prometheus that scrapes a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from made_up.reports import LIVE, NOW, STARTED, container, tick
from made_up.scenarios import play, pod, scenario
from numaudit.containermanager.memory.headroom import headroom_of
from numaudit.containermanager.memory.state import Block, MachineState
from numaudit.exporters.exposition import evaluate_containers, evaluate_live, evaluate_tick
from numaudit.exporters.prometheus import render
from numaudit.exporters.series import SeriesTracker
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.report.build import build
from numaudit.scenario.values import Setup
from numaudit.snapshot import Allowed, Container, NodeMemory, Resident, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet


def page_of(number: int, containers: int) -> str:
    """What the agent of one of them serves: four NUMA nodes of 64 GiB, and as much room as the number says.

    On each tenth one some containers have their memory on the wrong node.
    """
    machine = {
        "nodes": [
            {"id": id_, "memory": "64Gi", "distances": [10 if id_ == other else 20 for other in range(4)]}
            for id_ in range(4)
        ]
    }
    steps = [{"admit": pod(f"p{one}", f"{5 + number % 7}Gi")} for one in range(number % 24)]
    kubelet = {"topologyManagerPolicy": ("single-numa-node", "restricted", "best-effort")[number % 3]}
    played = play(scenario(machine, steps, kubelet))
    away = range(number % 3) if number % 10 == 0 else ()
    return _page(played.scenario.setup, played.state.memory.state.machine, containers, away)


def _page(setup: Setup, machine_state: MachineState, containers: int, away: Iterable[int]) -> str:
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
    whole = evaluate_tick(tick(of), evaluate_containers(series)), evaluate_live(LIVE, STARTED)
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


def path_of(name: str) -> str:
    """Where the page of `node-007` is."""
    return f"/{name.partition('-')[2]}"


@contextmanager
def served(pages: Sequence[bytes]) -> Iterator[dict[str, int]]:
    """Node -> port, which is the same for all; `path_of` says where its page is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[int(self.path.strip("/"))]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {f"node-{number:03}": server.server_port for number in range(len(pages))}
    finally:
        server.shutdown()
        server.server_close()
