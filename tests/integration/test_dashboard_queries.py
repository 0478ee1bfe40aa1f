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
from typing import Any

import pytest

import tools
from databases import Database, fill, prometheus
from monitoring import recorded_scrapes
from monitoring.grafana import Window, answers, choices, dashboards
from processes.agent_process import eventually, running_agent
from required import tool

SERVERS = [name for name in tools.TOOLS if name.startswith("prometheus")]
TREES = {"aligned": "kubernetes-four-nodes", "misaligned": "misaligned-node"}
UNSAFE = "unsafe"
"""A third one, whose kubelet would not start again."""
REFUSED = ("gu-toobig-numanode", "gu-cross-numanode")
"""Pods that the kubelet of kubernetes-four-nodes, and so of misaligned-node, refused."""
SCRAPES = 6
RULE = {
    "alert": "NumauditContainerDrifted",
    "expr": 'numaudit_container_verdict{verdict="drifted"}',
    "labels": {"severity": "warning"},
}
LOOKBACK = "30s"
"""Of recorded scrapes, which do not say where a series ends: as long as a scrape was late at most."""

_BY_PROBES = {
    "numaudit-fleet": ["Worst containers C"],
    "numaudit-node": ["Containers by bytes D", "CPU time by NUMA node A", "Migrated memory A"],
    "numaudit-container": [
        "Used from A",
        "Given from where to where A",
        "Migrated A",
        "Remote share by source A",
        "Hint faults from where to where A",
        "Mean distance to its memory A",
    ],
}
_BYTES_ELSEWHERE = {
    "numaudit-fleet": ["Misplaced memory by node A", "Worst containers B"],
    "numaudit-node": ["Containers by bytes C"],
    "numaudit-container": ["Misplaced by NUMA node A"],
}
_ALERTS = {"numaudit-fleet": ["Alerts A"]}
_SAFE = {
    "every kubelet would start again": {"numaudit-fleet": ["Nodes unsafe to restart A"]},
    "no source of a kubelet is silent": {"numaudit-agent": ["Collectors that fail B"]},
}
_REFUSALS = {"numaudit-fleet": ["Workloads refused most A"]}
_NOWHERE = {
    "no processor here counts accesses": {"numaudit-container": ["Counted accesses A", "Waiting for remote memory A"]},
    "no page was seen used remotely": {"numaudit-container": ["Memory used remotely, at least A"]},
    "the watch over ranks is off": {"numaudit-container": ["Ranks by verdict A"]},
}
_CAPTURED = {
    **_NOWHERE,
    **_SAFE,
    "a captured tree has no BPF programs": _BY_PROBES,
    "all bytes are where they were promised": _BYTES_ELSEWHERE,
    "there are no findings": {
        "numaudit-container": ["Findings A"],
        "numaudit-fleet": ["Containers by finding A", "Containers with findings A"],
    },
}
EMPTY = {
    "aligned": {
        **_CAPTURED,
        "all containers are aligned": {"numaudit-fleet": ["Verdicts over time A", "Worst containers A"]},
        "no pod is refused": _REFUSALS,
        "no alert fires": _ALERTS,
    },
    "misaligned": _CAPTURED,
    "guest": {
        **_NOWHERE,
        **_SAFE,
        "no pod is refused": _REFUSALS,
        "no rules are loaded": _ALERTS,
        "it was scraped before the agent judged setup": {
            "numaudit-fleet": ["Nodes by setup A", "Rules of setup that do not hold A"]
        },
        "no kubelet runs": {
            "numaudit-fleet": ["Nodes F"],
            "numaudit-node": ["Pods a restart would refuse A", "Pods a restart would refuse B"],
        },
    },
}
"""Which queries find nothing where, and why: panel and letter of the query by dashboard."""


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
            refusals = _hold_back(trees[name])
            options = ("--root", str(trees[name]), "--interval", "1s")
            ports[name] = stack.enter_context(running_agent(*options, log=folder / "log")).port
        trees[UNSAFE] = Path(shutil.copytree(trees["aligned"], tmp_path_factory.mktemp(UNSAFE) / UNSAFE, symlinks=True))
        checkpoint = trees[UNSAFE] / "var/lib/kubelet/memory_manager_state"
        checkpoint.write_text(checkpoint.read_text().replace('"checksum":', '"checksum":1'))
        options = ("--root", str(trees[UNSAFE]), "--interval", "1s")
        ports[UNSAFE] = stack.enter_context(running_agent(*options, log=checkpoint.with_name("log"))).port
        live = {}
        for server in SERVERS:
            folder = tmp_path_factory.mktemp(server)
            (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "of the test", "rules": [RULE]}]}))
            scraping = prometheus(tool(server), folder, ports, rules=folder / "rules.json")
            live[server] = stack.enter_context(scraping)
        _wait(live.values(), "numaudit_build_info", len(ports))
        _refuse(trees["misaligned"], refusals)
        _wait(live.values(), "numaudit_admission_workload_rejections_total", len(REFUSED))
        _wait(live.values(), 'ALERTS{alertstate="firing"}', 1)
        window = Window.now()
        found = {(server, name): Source(database, window) for server, database in live.items() for name in TREES}
        for server in SERVERS:
            folder = tmp_path_factory.mktemp(f"{server}-guest")
            end = fill(folder, recorded_scrapes.read())
            database = stack.enter_context(prometheus(tool(server), folder, lookback=LOOKBACK))
            found[server, "guest"] = Source(database, Window(end, step=10, steps=44))
        yield found


def _hold_back(tree: Path) -> list[str]:
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


def _wait(databases: Collection[Database], selector: str, series: int) -> None:
    """Until so many series of this selector have been scraped some times."""
    wanted = f"count_over_time({selector}[10m]) >= {SCRAPES}"
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
            if name in TREES and chosen["nodename"] not in (name, [name], ".*"):
                continue
            for answer in answers(dashboard, chosen, source.database, source.window):
                query = (uid, f"{answer.panel} {answer.ref}")
                if name not in TREES or chosen["nodename"] != ".*":
                    found[query] = found.get(query, False) or bool(answer.series)
                assert len(set(answer.legends)) == len(answer.legends), (chosen, answer)
    empty = {query for query, some in found.items() if not some}
    listed = {(uid, query) for one in EMPTY[name].values() for uid, queries in one.items() for query in queries}
    assert (empty - listed, listed - empty) == (set(), set())


@pytest.mark.parametrize("server", SERVERS)
def test_a_node_is_known_by_its_name_or_else_by_its_address(
    sources: dict[tuple[str, str], Source], server: str
) -> None:
    expected = {"aligned": ("nodename", [".*", ["aligned"], ["misaligned"], [UNSAFE]])}
    expected["guest"] = ("instance", [".*", ["10.0.0.7:9746"]])
    for name, (label, values) in expected.items():
        source = sources[server, name]
        found = list(choices(dashboards()["numaudit-agent"], source.database, source.window))
        assert {one["nodelabel"] for one in found} == {label}
        assert [one["nodename"] for one in found] == values


NUMBERS = ("Nodes unsafe", "Misaligned containers", "Verdict unknown", "Pods refused")


def _of_node(source: Source, name: str) -> dict[str, list[dict[str, Any]]]:
    """The series that the panels of Fleet have of one node."""
    fleet = dashboards()["numaudit-fleet"]
    chosen = next(one for one in choices(fleet, source.database, source.window) if one["nodename"] == [name])
    return {
        f"{answer.panel} {answer.ref}": answer.series
        for answer in answers(fleet, chosen, source.database, source.window)
    }


@pytest.mark.parametrize("server", SERVERS)
def test_the_first_screen_says_whether_something_is_wrong(sources: dict[tuple[str, str], Source], server: str) -> None:
    found = {}
    for name in (*TREES, UNSAFE):
        panels_of = _of_node(sources[server, "aligned"], name)
        found[name] = {title: float(panels_of[f"{title} A"][0]["value"][1]) for title in NUMBERS}
    nothing = dict.fromkeys(NUMBERS, 0)
    assert found["aligned"] == nothing
    assert found["misaligned"] == {**nothing, "Misaligned containers": 2, "Pods refused": len(REFUSED)}
    assert found[UNSAFE] | {"Verdict unknown": 0} == {**nothing, "Nodes unsafe": 1}


@pytest.mark.parametrize("server", SERVERS)
def test_a_node_whose_kubelet_would_not_start_is_named_and_is_the_worst_of_all(
    sources: dict[tuple[str, str], Source], server: str
) -> None:
    source = sources[server, "aligned"]
    (named,) = _of_node(source, UNSAFE)["Nodes unsafe to restart A"]
    assert named["metric"] == {"nodename": UNSAFE, "file": "memory_manager_state", "reason": "checksum-mismatch"}
    fleet = dashboards()["numaudit-fleet"]
    everything = next(one for one in choices(fleet, source.database, source.window) if one["nodename"] == ".*")
    states = next(
        answer.series
        for answer in answers(fleet, everything, source.database, source.window)
        if (answer.panel, answer.ref) == ("Nodes", "A")
    )
    ranked = sorted(states, key=lambda one: -float(one["value"][1]))
    assert [one["metric"]["nodename"] for one in ranked] == [UNSAFE, "misaligned", "aligned"]
    assert [one["value"][1] for one in ranked] == ["5", "2", "0"]


@pytest.mark.parametrize("server", SERVERS)
def test_a_remote_share_says_that_it_is_only_expected(sources: dict[tuple[str, str], Source], server: str) -> None:
    source = sources[server, "guest"]
    dashboard = dashboards()["numaudit-fleet"]
    chosen = next(choices(dashboard, source.database, source.window))
    shares = next(
        answer.series
        for answer in answers(dashboard, chosen, source.database, source.window)
        if (answer.panel, answer.ref) == ("Worst containers", "C")
    )
    assert {one["metric"]["remote"] for one in shares} == {"expected"}
