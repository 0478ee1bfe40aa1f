"""Every query of the dashboards on real Prometheus servers: with the real agent on a tree where all is aligned and on
one where it is not, and with what an agent with BPF programs exported in a guest.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import recorded_scrapes
import tools
from agent_process import eventually, running_agent
from databases import Database, fill, prometheus
from grafana import Window, answers, choices, dashboards
from required import tool

SERVERS = [name for name in tools.TOOLS if name.startswith("prometheus")]
TREES = {"aligned": "kubernetes-four-nodes", "misaligned": "misaligned-node"}
SCRAPES = 6

_BY_PROBES = {
    "numaudit-fleet": ["Worst containers C"],
    "numaudit-node": ["Containers by bytes D", "CPU time by NUMA node A", "Migrated memory A"],
    "numaudit-container": [
        "Used from A",
        "Given from where to where A",
        "Migrated A",
        "Remote share by source A",
        "Hint faults from where to where A",
        "First uses of pages A",
        "Mean distance to its memory A",
    ],
    "numaudit-agent": ["CPU time by probe A", "Events by probe A", "Lost events A"],
}
_BYTES_ELSEWHERE = {
    "numaudit-fleet": ["Misplaced memory by node A", "Worst containers B"],
    "numaudit-node": ["Containers by bytes C"],
    "numaudit-container": ["Misplaced by NUMA node A"],
}
_REFUSALS = {"numaudit-fleet": ["Workloads refused most A"]}
_NOWHERE = {
    "no rules are loaded": {"numaudit-fleet": ["Alerts A"]},
    "no processor here counts accesses": {"numaudit-container": ["Counted accesses A", "Waiting for remote memory A"]},
    "too few samples for a share": {
        "numaudit-container": ["Lower end of the remote share A", "Samples of the share A"]
    },
    "nothing is pushed": {"numaudit-agent": ["OTLP batches A", "Time since the last OTLP delivery A"]},
}
_CAPTURED = {
    **_NOWHERE,
    "a captured tree has no BPF programs": _BY_PROBES,
    "no probe is over the budget": {"numaudit-agent": ["Steps taken A"]},
    "all bytes are where they were promised": _BYTES_ELSEWHERE,
    "there are no findings": {"numaudit-container": ["Findings A"]},
}
EMPTY = {
    "aligned": {
        **_CAPTURED,
        "all containers are aligned": {"numaudit-fleet": ["Verdicts over time A", "Worst containers A"]},
        "no pod is refused": _REFUSALS,
    },
    "misaligned": _CAPTURED,
    "guest": {
        **_NOWHERE,
        "no pod is refused": _REFUSALS,
        "no kubelet runs": {"numaudit-node": ["Pods a restart would refuse A", "Pods a restart would refuse B"]},
    },
}
"""Which queries find nothing where, and why: panel and letter of the query by dashboard."""
REFUSED = ("gu-toobig-numanode", "gu-cross-numanode")
"""Pods that the kubelet of both trees refused."""


@dataclass(frozen=True, slots=True)
class Source:
    """A database, and the time at which to ask it."""

    database: Database
    window: Window


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Iterator[dict[tuple[str, str], Source]]:
    """By server and by what filled it."""
    with ExitStack() as stack:
        ports, trees = {}, {}
        for name, tree in TREES.items():
            folder = tmp_path_factory.mktemp(name)
            trees[name] = Path(shutil.copytree(fixtures / tree, folder / tree, symlinks=True))
            refusals = _hold_back_refusals(trees[name])
            options = ("--root", str(trees[name]), "--interval", "1s")
            ports[name] = stack.enter_context(running_agent(*options, log=folder / "log")).port
        live = {}
        for server in SERVERS:
            live[server] = stack.enter_context(prometheus(tool(server), tmp_path_factory.mktemp(server), ports))
        _wait(live.values(), "numaudit_build_info", len(TREES))
        _refuse(trees["misaligned"], refusals)
        _wait(live.values(), "numaudit_admission_workload_rejections_total", len(REFUSED))
        window = Window.now()
        found = {(server, name): Source(database, window) for server, database in live.items() for name in TREES}
        for server in SERVERS:
            folder = tmp_path_factory.mktemp(f"{server}-guest")
            end = fill(folder, recorded_scrapes.read())
            database = stack.enter_context(prometheus(tool(server), folder, {}))
            found[server, "guest"] = Source(database, Window(end, step=10, steps=44))
        yield found


def _hold_back_refusals(tree: Path) -> list[str]:
    """The lines of the kubelet's log from its first refusal on; tree and pods are as they were before."""
    pods = json.loads((tree / "numaudit/pods.json").read_text())
    pods["items"] = [pod for pod in pods["items"] if pod["metadata"]["name"] not in REFUSED]
    (tree / "numaudit/pods.json").write_text(json.dumps(pods))
    log = (tree / "numaudit/kubelet.log").read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(log) if any(name in line for name in REFUSED))
    (tree / "numaudit/kubelet.log").write_text("".join(log[:first]))
    return log[first:]


def _refuse(tree: Path, lines: Iterable[str]) -> None:
    """The lines are written now: what was refused before an agent began is no increase to it."""
    now = datetime.now(UTC).strftime("%m%d %H:%M:%S.%f")
    with (tree / "numaudit/kubelet.log").open("a") as log:
        log.writelines(re.sub(r"^(\w)\d{4} [\d:.]+", rf"\g<1>{now}", line) for line in lines)


def _wait(databases: Collection[Database], name: str, series: int) -> None:
    """Until so many series of this name have been scraped some times."""
    wanted = f"count_over_time({name}[10m]) >= {SCRAPES}"
    assert eventually(lambda: all(len(one.query(wanted)) == series for one in databases))


@pytest.mark.parametrize("name", [*TREES, "guest"])
@pytest.mark.parametrize("server", SERVERS)
def test_every_query_finds_series_with_names_of_their_own(
    sources: dict[tuple[str, str], Source], server: str, name: str
) -> None:
    source = sources[server, name]
    found: dict[tuple[str, str], bool] = {}
    for uid, dashboard in dashboards().items():
        for chosen in choices(dashboard, source.database, source.window):
            if name in TREES and chosen["nodename"] not in (name, [name]):
                continue
            for answer in answers(dashboard, chosen, source.database, source.window):
                query = (uid, f"{answer.panel} {answer.ref}")
                found[query] = found.get(query, False) or bool(answer.series)
                assert len(set(answer.legends)) == len(answer.legends), (chosen, answer)
    empty = {query for query, some in found.items() if not some}
    listed = {(uid, query) for one in EMPTY[name].values() for uid, queries in one.items() for query in queries}
    assert (empty - listed, listed - empty) == (set(), set())


@pytest.mark.parametrize("server", SERVERS)
def test_the_first_screen_says_whether_something_is_wrong(sources: dict[tuple[str, str], Source], server: str) -> None:
    source = sources[server, "aligned"]
    fleet = dashboards()["numaudit-fleet"]
    found: dict[str, dict[str, float]] = {}
    for name in TREES:
        chosen = next(one for one in choices(fleet, source.database, source.window) if one["nodename"] == [name])
        found[name] = {
            answer.panel: float(answer.series[0]["value"][1])
            for answer in answers(fleet, chosen, source.database, source.window)
            if answer.panel in {"Misaligned containers", "Verdict unknown", "Pods refused", "Nodes unsafe to restart"}
        }
    nothing = {"Misaligned containers": 0, "Verdict unknown": 0, "Pods refused": 0, "Nodes unsafe to restart": 0}
    assert found["aligned"] == nothing
    assert found["misaligned"] == {**nothing, "Misaligned containers": 2, "Pods refused": len(REFUSED)}
