"""How long `numaudit fleet` takes for 200 nodes, by a real Prometheus that has scraped them.

Run: python tests/bench/bench_fleet.py. The nodes are made up, their pages rendered by the real exporter: 30 containers
each, some with memory on the wrong node. Prometheus scrapes them from one process. It fails when the report or the
forecast takes more than 2 s of wall-clock time at best.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "integration")]

import tools
from agent_process import eventually
from databases import Database, prometheus
from fleet_nodes import page
from goals import at_most
from numaudit.cli.main import call
from scenarios import play, pod, scenario
from short import pick, repetitions, run

NODES, CONTAINERS = pick((200, 30), short=(5, 3))
TIMES = repetitions(5)
ALLOWED_S = 2.0


def main() -> None:
    binary = tools.find("prometheus")
    pages = [_page(number).encode() for number in range(NODES)]
    with tempfile.TemporaryDirectory() as folder:
        server = _serve(pages)
        targets = {f"node-{number:03}": server.server_port for number in range(NODES)}
        with prometheus(binary, Path(folder), targets, interval=pick("20s", short="1s"), path=_path) as database:
            assert eventually(lambda: len(database.query("numaudit_build_info")) == NODES)
            series = sum(database.query('count({__name__=~"numaudit_.*"})').values())
            taken = [_best(one) for one in _commands(database, Path(folder))]
        server.shutdown()
    print(f"{NODES} nodes, {NODES * CONTAINERS} containers, {series:.0f} series, wall-clock s at best of {TIMES}:")
    print(f"  report   {taken[0]:6.2f}")
    print(f"  fits     {taken[1]:6.2f}")
    print(f"  refused  {taken[2]:6.2f}")
    print(f"  allowed  {ALLOWED_S:6.2f}")
    at_most("the slowest question to 200 nodes", max(taken), ALLOWED_S, "s", short=5 * ALLOWED_S)


def _page(number: int) -> str:
    """Four NUMA nodes of 64 GiB, and as much room as the number says."""
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
    return page(played.scenario.setup, played.state.memory.state.machine, CONTAINERS, away)


def _commands(database: Database, folder: Path) -> list[list[str]]:
    verb = ["fleet", "--prometheus", database.url, "-o", "json"]
    commands = [verb]
    for name, size in (("fits", "6Gi"), ("refused", "100Gi")):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(pod(name, size)))
        commands.append([*verb, "--fits", str(folder / f"{name}.yaml")])
    return commands


def _best(command: list[str]) -> float:
    times = []
    for _ in range(TIMES):
        written = io.BytesIO()
        begun = time.perf_counter()
        with redirect_stdout(io.TextIOWrapper(written)) as out:
            assert call(command) == 0
            out.flush()
            times.append(time.perf_counter() - begun)
            found = json.loads(written.getvalue())
        assert len(found["nodes"]) == NODES
        assert sum(found.get("verdicts", {"": NODES * CONTAINERS}).values()) == NODES * CONTAINERS
    return min(times)


def _path(name: str) -> str:
    return f"/{name.partition('-')[2]}"


def _serve(pages: list[bytes]) -> ThreadingHTTPServer:
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
    return server


if __name__ == "__main__":
    run(main)
