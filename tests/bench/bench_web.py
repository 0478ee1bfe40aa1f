"""How long a scrape of 20,000 series takes while four scrape at once and 300 clients are silent.

Run: python tests/bench/bench_web.py. The server has a process of its own and serves one rendered tick. It fails when
the median scrape takes more than 5 ms of wall-clock time; with more load on the machine than it has CPUs that can not
be known, and the floor (the same bytes over a bare socket, in the same run) says so.
"""

from __future__ import annotations

import http.client
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most
from hosts.node_tree import NodeTree
from processes.agent_process import running_agent
from short import pick, run

CONTAINERS = pick(1110, short=50)
SILENT, SCRAPERS, SCRAPES = pick((300, 4, 50), short=(100, 2, 3))
ALLOWED_MS, SHORT_SCRAPE = 5.0, 500.0
HEADERS = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = NodeTree(Path(folder) / "node")
        tree.fill(CONTAINERS)
        with running_agent("--root", str(tree.root), "--interval", "1h", log=Path(folder) / "log") as agent:
            series = sum(map(len, agent.samples().values()))
            body = len(_scrape(http.client.HTTPConnection("127.0.0.1", agent.port)))
            alone = _times(agent.port, 1)
            silent = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(SILENT)]
            busy = _times(agent.port, SCRAPERS)
            evicted = agent.value("numaudit_web_evicted_connections_total")
            threads = agent.value("numaudit_process_threads")
            for one in silent:
                one.close()
    floor = _floor(body)
    print(f"{series} series, {body} bytes packed, wall-clock ms:")
    print(f"  floor, a bare socket          median {statistics.median(floor):6.2f}")
    print(f"  one scraper                   median {statistics.median(alone):6.2f}   worst {max(alone):6.2f}")
    print(
        f"  {SCRAPERS} scrapers, {SILENT} silent clients median {statistics.median(busy):6.2f}   worst {max(busy):6.2f}"
    )
    print(f"  {evicted:.0f} silent clients closed, {threads:.0f} threads; allowed median {ALLOWED_MS:.0f} ms")
    at_most("a scrape among silent clients, median", statistics.median(busy), ALLOWED_MS, "ms", short=SHORT_SCRAPE)


def _times(port: int, scrapers: int) -> list[float]:
    """Milliseconds of every scrape. A scraper keeps its connection, and waits a little between two."""
    times: list[float] = []

    def scraper() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        _scrape(connection)
        for _ in range(SCRAPES):
            time.sleep(0.02)
            begun = time.perf_counter()
            _scrape(connection)
            times.append((time.perf_counter() - begun) * 1000)

    threads = [threading.Thread(target=scraper) for _ in range(scrapers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def _scrape(connection: http.client.HTTPConnection) -> bytes:
    connection.request("GET", "/metrics", headers=HEADERS)
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    return answer.read()


def _floor(size: int) -> list[float]:
    """As many bytes from a thread that does nothing else."""
    listening = socket.create_server(("127.0.0.1", 0))
    body = b"x" * size

    def serve() -> None:
        peer, _ = listening.accept()
        with peer:
            while peer.recv(1):
                peer.sendall(body)

    threading.Thread(target=serve, daemon=True).start()
    times = []
    with socket.create_connection(listening.getsockname()) as client:
        for _ in range(SCRAPES):
            begun = time.perf_counter()
            client.sendall(b"?")
            left = size
            while left:
                left -= len(client.recv(left))
            times.append((time.perf_counter() - begun) * 1000)
    listening.close()
    return times


if __name__ == "__main__":
    run(main)
