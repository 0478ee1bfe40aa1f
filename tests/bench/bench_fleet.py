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
import time
from contextlib import redirect_stdout
from pathlib import Path

import yaml

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "integration")]

import tools
from databases import Database, prometheus
from goals import at_most
from made_up.scenarios import pod
from monitoring.many_nodes import page_of, path_of, served
from numaudit.cli.main import call
from processes.agent_process import eventually
from short import pick, repetitions, run

NODES, CONTAINERS = pick((200, 30), short=(5, 3))
TIMES = repetitions(5)
ALLOWED_S = 2.0


def main() -> None:
    binary = tools.find("prometheus")
    pages = [page_of(number, CONTAINERS).encode() for number in range(NODES)]
    interval = pick("20s", short="1s")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(pages) as targets,
        prometheus(binary, Path(folder), targets, interval=interval, path=path_of) as database,
    ):
        assert eventually(lambda: len(database.query("numaudit_build_info")) == NODES)
        series = sum(database.query('count({__name__=~"numaudit_.*"})').values())
        taken = [_best(one) for one in _commands(database, Path(folder))]
    print(f"{NODES} nodes, {NODES * CONTAINERS} containers, {series:.0f} series, wall-clock s at best of {TIMES}:")
    print(f"  report   {taken[0]:6.2f}")
    print(f"  fits     {taken[1]:6.2f}")
    print(f"  refused  {taken[2]:6.2f}")
    print(f"  allowed  {ALLOWED_S:6.2f}")
    at_most("the slowest question to 200 nodes", max(taken), ALLOWED_S, "s", short=5 * ALLOWED_S)


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


if __name__ == "__main__":
    run(main)
