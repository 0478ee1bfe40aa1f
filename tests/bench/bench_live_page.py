"""What readers of the agent's page cost the agent: a poll without news, the page when it is there, and making it.

Run: python tests/bench/bench_live_page.py. 1,000 containers, CPU time of the agent's own process. It fails when a poll
costs more than a twentieth of making the page, which happens once for each tick, however many read it, and when the
page has over 3 MB, or takes over 50 ms to make or over 80 ms to make and pack.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most, at_most_ms, cost, pick, run
from hosts.node_tree import NodeTree
from numaudit.daemon.web.pages import LINKS
from numaudit.daemon.web.tick_document import TickDocuments
from numaudit.encoding.value import Origin, Timestamp
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.report.values import Report
from processes.agent_process import running_agent

CONTAINERS = pick(1000, short=50)
ROUNDS = pick(7, short=1)
REQUESTS = pick(5000, short=20)
INTERVAL = 15
"""Seconds: the agent's default."""
MOST_OF_MAKING, SHORT_POLL = 1 / 20, 1.0
MOST_MB, MOST_MS, SHORT_MADE = 3.0, 80.0, 6.0
MOST_UNPACKED_MS = 50.0


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = NodeTree(Path(folder) / "node")
        tree.fill(CONTAINERS)
        report = build(Observer.of(Host.under(tree.root)).observe())
        unpacked, making, whole, packed = _making(report)
        with running_agent("--root", str(tree.root), "--interval", "1h", log=Path(folder) / "log") as agent:
            process = psutil.Process(agent.process.pid)

            def cpu() -> float:
                times = process.cpu_times()
                return float(times.user + times.system)

            connection = agent.connection()
            tag = _ask(connection, "GET", "/report.json", {}, 200)
            poll = _each(lambda: _ask(connection, "HEAD", "/report.json", {"If-None-Match": tag}, 304), cpu)
            page = _each(lambda: _ask(connection, "GET", "/", {"Accept-Encoding": "gzip"}, 200), cpu)
    hundred = (making + 100 * (page + poll)) / INTERVAL
    print(f"{CONTAINERS} containers: {packed} bytes packed; a poll without news {1000 * poll:.3f} ms of CPU time")
    print(f"100 readers, a tick every {INTERVAL} s: {100 * hundred:.3f} % of a CPU")
    cost("reader", f"sending the page of {CONTAINERS:,} containers once", 1000 * page, "ms")
    cost("tick", f"making the page of {CONTAINERS:,} containers, where somebody reads it", 1000 * making, "ms")
    at_most("a poll without news, of making the page", poll / making, MOST_OF_MAKING, short=SHORT_POLL)
    at_most(f"the page of {CONTAINERS:,} containers", whole / 1e6, MOST_MB, "MB", short=MOST_MB)
    at_most_ms("making it", 1000 * unpacked, MOST_UNPACKED_MS, short=SHORT_MADE)
    at_most_ms("making and packing it", 1000 * making, MOST_MS, short=SHORT_MADE)


def _making(report: Report) -> tuple[float, float, int, int]:
    """Seconds of the quickest round, without and with packing, and the bytes of the page, as it is and packed."""
    made, seconds = [], []
    for _ in range(ROUNDS):
        documents = TickDocuments.of(report, 0.0, INTERVAL, LINKS, Origin(None, Timestamp(0.0)))
        begun = time.thread_time()
        documents.page.get(gzip=False)
        made.append(time.thread_time() - begun)
        packed = documents.page.get(gzip=True)
        seconds.append(time.thread_time() - begun)
    return min(made), min(seconds), len(documents.page.get(gzip=False)), len(packed)


def _each(ask: Callable[[], object], cpu: Callable[[], float]) -> float:
    """CPU seconds of one request, as the mean of many: the kernel counts in hundredths."""
    ask()
    begun = cpu()
    for _ in range(REQUESTS):
        ask()
    return (cpu() - begun) / REQUESTS


def _ask(
    connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], status: int
) -> str:
    """The ETag of the answer."""
    connection.request(method, path, headers=dict(headers))
    answer = connection.getresponse()
    answer.read()
    assert answer.status == status, answer.status
    return answer.headers["ETag"]


if __name__ == "__main__":
    run(main)
