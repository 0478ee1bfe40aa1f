"""What the dashboards ask of a Prometheus with 200 nodes: few series, in little time."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import Database, prometheus
from kubelets.http import replies, serving
from monitoring.grafana import Window, answers, choices, dashboards
from processes.agent_process import eventually, running_agent
from required import tool

NODES = 200
CAPTURED = ("kubernetes-four-nodes", "misaligned-node", "kubernetes-cluster")
"""The nodes serve in turn what an agent serves on each of these."""
MOST_SERIES = 50
"""Of one query. A panel with more is no overview, and slow in a browser."""
MOST_OF_A_PAGE = 1000
MOST_TIMES = 150
"""As long as the plain sum over all verdicts takes, for all queries of a dashboard together."""
STEPS = 60


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Iterator[Database]:
    folder, pages = tmp_path_factory.mktemp("server"), []
    for name in CAPTURED:
        with running_agent("--root", str(fixtures / name), "--interval", "1h", log=folder / name) as agent:
            pages.append(agent.get("/metrics", accept="text/plain")[1].encode())
    with serving(lambda request: replies(pages[int(request.path.strip("/")) % len(pages)])(request)) as url:
        targets = {f"node-{number:03}": int(url.rpartition(":")[2]) for number in range(NODES)}
        scraping = prometheus(tool("prometheus"), folder, targets, interval="10s", path=_path_of)
        with scraping as found:
            twice = "count(count_over_time(numaudit_build_info[10m]) >= 2)"
            assert eventually(lambda: list(found.query(twice).values()) == [NODES])
            yield found


def _path_of(name: str) -> str:
    """Where the page of `node-007` is."""
    return f"/{name.partition('-')[2]}"


def _seconds(database: Database, window: Window) -> float:
    """Of a query that touches each container once, over the same time range; the least of three."""
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        span = {"start": str(window.begin), "end": str(window.end), "step": str(window.step)}
        database.get("/api/v1/query_range", query="sum by (verdict) (numaudit_container_verdict)", **span)
        found.append(time.perf_counter() - begun)
    return min(found)


@pytest.mark.parametrize("uid", dashboards())
def test_a_dashboard_of_200_nodes_asks_for_few_series_and_takes_little_time(database: Database, uid: str) -> None:
    window = Window(time.time(), step=5, steps=STEPS)
    dashboard = dashboards()[uid]
    chosen = next(choices(dashboard, database, window))
    floor = _seconds(database, window)
    taken, series = math.inf, Counter[str]()
    for _ in range(3):
        begun = time.perf_counter()
        found = answers(dashboard, chosen, database, window)
        series = Counter({f"{one.panel} {one.ref}": len(one.series) for one in found})
        taken = min(taken, time.perf_counter() - begun)
    print(f"{uid}: {series.total()} series, {taken:.2f} s, {taken / floor:.1f} times {floor:.3f} s")
    assert {query: count for query, count in series.items() if count > MOST_SERIES} == {}
    assert series.total() <= MOST_OF_A_PAGE
    assert taken <= MOST_TIMES * floor
