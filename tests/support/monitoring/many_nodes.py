"""Many made-up nodes behind one port, for a Prometheus that scrapes a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from made_up.scenarios import play, pod, scenario
from monitoring.fleet_nodes import page


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
    return page(played.scenario.setup, played.state.memory.state.machine, containers, away)


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
