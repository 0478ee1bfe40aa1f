"""`numaudit fleet` on real servers that scrape three agents: it says what the library and `numaudit report` say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from databases import Database, prometheus, victoria_metrics
from documentation.schemas import schema
from fleet_trees import copied, truth
from made_up.scenarios import pod
from numaudit.cli.main import call
from numaudit.evaluation.verdicts import MISALIGNED
from processes.agent_process import Agent, eventually, running_agent
from required import tool

SERVERS = ("prometheus", "victoria-metrics")
ONCE = ("--interval", "1h")
"""A captured host is always the same: one tick is enough."""
_WIDE = {"topologyManagerPolicy": "best-effort"}


@pytest.fixture(scope="module")
def trees(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Kubernetes node -> captured host."""
    source, folder = fixtures / "kubernetes-four-nodes", tmp_path_factory.mktemp("trees")
    return {
        "aligned": source,
        "misaligned": fixtures / "misaligned-node",
        "grouped": copied(source, folder / "grouped", _WIDE, times=4),
    }


@pytest.fixture(scope="module")
def agents(trees: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Agent]]:
    logs = tmp_path_factory.mktemp("agents")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(running_agent("--root", str(root), *ONCE, log=logs / name))
            for name, root in trees.items()
        }


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, agents: Mapping[str, Agent], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    ports = {name: agent.port for name, agent in agents.items()}
    start = victoria_metrics if request.param.startswith("victoria") else prometheus
    with start(tool(request.param), tmp_path_factory.mktemp("server"), ports) as database:
        assert eventually(lambda: len(database.query("numaudit_build_info")) == len(ports))
        yield database


class Fleet:
    """The verb on one server, when it has the newest scrape of every agent that answers."""

    def __init__(self, capsys: pytest.CaptureFixture[str], database: Database, nodes: int) -> None:
        self._capsys, self._database, self._nodes = capsys, database, nodes

    def __call__(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 (a JSON document)
        """A busy machine may be late for a scrape, and then a node is down until the next."""
        assert eventually(self._is_whole)
        found = json.loads(self.text(*arguments, "-o", "json", code=code))
        jsonschema.validate(found, schema(found["kind"]))
        return found

    def text(self, *arguments: str, code: int = 0) -> str:
        got = call(["fleet", "--prometheus", self._database.url, *arguments])
        captured = self._capsys.readouterr()
        assert got == code, captured.err
        return captured.out

    def _is_whole(self) -> bool:
        return list(self._database.query("sum(up)").values()) == [self._nodes]


@pytest.fixture
def fleet(capsys: pytest.CaptureFixture[str], server: Database) -> Fleet:
    return Fleet(capsys, server, 3)


def _report(capsys: pytest.CaptureFixture[str], root: Path) -> Any:  # noqa: ANN401 (a JSON document)
    assert call(["report", "--root", str(root), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_says_what_the_report_says_of_each_node(
    fleet: Fleet, trees: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = fleet()
    assert found["agents"] | {"versions": 0} == {
        "reporting": 3,
        "stale": 0,
        "down": 0,
        "gone": 0,
        "none": 0,
        "versions": 0,
    }
    worst = Counter[tuple[str, str, str]]()
    for node in found["nodes"]:
        report = _report(capsys, trees[node["node"]])
        judged = [one for one in report["containers"] if one["verdict"] is not None]
        assert node["verdicts"] == Counter(one["verdict"]["name"] for one in judged)
        promised = [one for one in judged if one["alignedBytes"] is not None]
        assert node["misplacedBytes"] == sum(one["judgedBytes"] - one["alignedBytes"] for one in promised)
        tables = [one for one in report["memoryManager"]["tables"] if one["type"] == "memory"]
        assert node["freeBytes"] == sum(one["freeBytes"] for one in tables)
        assert node["allocatableBytes"] == sum(one["allocatableBytes"] for one in tables)
        assert node["strandedBytes"] == sum(one["strandedBytes"] for one in report["memoryManager"]["nodes"])
        admissible = {str(one["nodeCount"]): one["bytes"] for one in report["memoryManager"]["admissible"]}
        assert node["admissibleBytes"] == admissible
        for one in judged:
            if one["verdict"]["name"] in MISALIGNED:
                worst[node["node"], f"{one['pod']}/{one['container']}", one["verdict"]["name"]] += 1
    assert worst
    named = [(one["node"], f"{one['pod']}/{one['container']}", one["verdict"]) for one in found["worst"]]
    assert Counter(named) == worst
    verdicts = [one["verdict"] for one in found["worst"]]
    assert verdicts == sorted(verdicts, key=list(found["verdicts"]).index)


_LITTLE = "20m"
"""CPU that is left on each node; whole CPUs are taken."""
_PODS = {
    "small": pod("small", "20Mi", _LITTLE),
    "half a node": pod("half", "400Mi", _LITTLE),
    "most of a node": pod("most", "750Mi", _LITTLE),
    "more than a node": pod("wide", "900Mi", _LITTLE),
    "three nodes": pod("three", "2500Mi", _LITTLE),
    "more than there is": pod("all", "64Gi", _LITTLE),
    "huge pages": pod("huge", "10Mi", _LITTLE, **{"hugepages-2Mi": "20Mi"}),
    "whole CPUs": pod("cpus", "20Mi", "1"),
    "two containers": {
        "metadata": {"name": "two"},
        "spec": {
            "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "1", "memory": "500Mi"}}}],
            "containers": [
                {"name": name, "resources": {"limits": {"cpu": "1", "memory": "350Mi"}}} for name in ("a", "b")
            ],
        },
    },
}


@pytest.mark.parametrize("size", _PODS)
def test_a_pod_fits_where_and_as_often_as_the_library_says(
    fleet: Fleet, trees: Mapping[str, Path], tmp_path: Path, size: str
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(_PODS[size]))
    found = fleet("--fits", str(file))
    assert {one["node"] for one in found["nodes"]} == trees.keys()
    for one in found["nodes"]:
        expected = truth(trees[one["node"]], _PODS[size])
        assert (one["fits"], one["outcome"], one["memoryNodes"]) == (
            expected.fits,
            expected.outcome,
            expected.memory_nodes,
        ), one
        assert (one["state"] == "fits") == (expected.fits > 0)
    assert found["fits"] == sum(one["fits"] for one in found["nodes"])


def test_the_exit_code_says_whether_all_fit(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(_PODS["half a node"]))
    fits = fleet("--fits", str(file))["fits"]
    assert fits > 1
    fleet("--fits", str(file), "--fail-on-reject", "--count", str(fits))
    fleet("--fits", str(file), "--fail-on-reject", "--count", str(fits + 1), code=1)
    fleet("--fail-on", "drifted", code=1)
    fleet("--fail-on", "remote-access")


def test_a_namespace_and_a_selector_narrow_what_counts(fleet: Fleet) -> None:
    everything = fleet()
    assert sum(fleet("-n", "default")["verdicts"].values()) < sum(everything["verdicts"].values())
    with pytest.raises(AssertionError, match="no container is in namespace"):
        fleet("-n", 'no"such\\space')
    one = fleet("--selector", 'nodename=~"mis.*"')
    assert [node["node"] for node in one["nodes"]] == ["misaligned"]
    assert one["worst"] == [each for each in everything["worst"] if each["node"] == "misaligned"]
    by_instance = fleet("--node-label", "instance")
    assert {node["node"] for node in by_instance["nodes"]} == {node["instance"] for node in everything["nodes"]}


def test_the_table_begins_with_the_sentence(fleet: Fleet) -> None:
    lines = fleet.text().splitlines()
    assert lines[0].startswith("All 3 nodes report: ")
    assert lines[2].split() == ["NODE", "STATE", "MISALIGNED", "MISPLACED", "PROBLEMS"]
    containers = ["CONTAINER", "NODE", "VERDICT", "MISPLACED", "PROMISED", "REMOTE", "FINDINGS"]
    assert containers in [line.split() for line in lines]


def test_an_agent_that_ends_is_down_and_its_node_unknown(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(fixtures / "kubernetes-four-nodes")
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(_PODS["small"]))
    with ExitStack() as stack:
        both = {
            name: stack.enter_context(running_agent("--root", root, *ONCE, log=tmp_path / name))
            for name in ("stays", "ends")
        }
        ports = {name: agent.port for name, agent in both.items()}
        database = stack.enter_context(prometheus(tool("prometheus"), tmp_path, ports))
        assert eventually(lambda: len(database.query("numaudit_build_info")) == 2)
        both["ends"].stop()
        assert eventually(lambda: list(database.query('up{nodename="ends"}').values()) == [0])
        fleet = Fleet(capsys, database, 1)
        found = fleet()
        assert found["summary"].startswith("1 of 2 nodes report (1 down): ")
        assert [(one["node"], one["state"]) for one in found["nodes"]] == [("ends", "down"), ("stays", "reporting")]
        fleet("--fail-on", "spilled", code=3)
        fits = fleet("--fits", str(file))
        assert [(one["node"], one["state"]) for one in fits["nodes"]] == [("stays", "fits"), ("ends", "unknown")]
