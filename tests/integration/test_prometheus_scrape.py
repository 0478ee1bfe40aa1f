"""Real Prometheus servers scrape the agent, and their queries return the report's numbers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from agent_process import Agent, eventually, running_agent
from databases import Database, prometheus
from required import tool

SERVERS = [name for name in tools.TOOLS if name.startswith("prometheus")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """The agent on this host."""
    with running_agent("--interval", "1s", log=tmp_path_factory.mktemp("agent") / "log") as agent:
        yield agent


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Iterator[Agent]:
    """The agent on a captured four-node Kubernetes host."""
    root = str(fixtures / "kubernetes-four-nodes")
    with running_agent("--root", root, "--interval", "1s", log=tmp_path_factory.mktemp("agent") / "log") as agent:
        yield agent


@pytest.mark.parametrize("server", SERVERS)
def test_queries_return_the_numbers_of_the_report(captured: Agent, tmp_path: Path, server: str) -> None:
    with prometheus(tool(server), tmp_path, captured.port) as database:
        assert eventually(lambda: database.query("up") != {} and set(database.query("up").values()) == {1.0}, 30)
        report = captured.report()
        expected = {
            (one["namespace"] or "", one["pod"] or "", one["container"] or "", on["numa_node"], kind): on[kind]
            for one in report["containers"]
            if one["container"] is not None and one["pod"] is not None
            for on in one["resident"] or ()
            for kind in ("anon", "shmem", "file", "hugetlb", "kernel")
            if on[kind] is not None
        }
        assert len(expected) > 20
        found = {}
        for labels, value in database.query('numaudit_container_resident_bytes{pod!="",container!="POD"}').items():
            have = dict(labels)
            if have.get("container"):
                key = (have["namespace"], have["pod"], have["container"], int(have["numa_node"]), have["type"])
                found[key] = value
        assert found == expected
        assert len(database.query("numaudit_container_info")) == len(report["containers"])
        total = sum(on["total_bytes"] for on in report["nodes"])
        assert database.query('sum(numaudit_node_memory_bytes{type="total"})') == {frozenset(): total}
        _nothing_was_refused(database)


@pytest.mark.parametrize("server", SERVERS)
def test_this_host_can_be_scraped(here: Agent, tmp_path: Path, server: str) -> None:
    with prometheus(tool(server), tmp_path, here.port) as database:
        assert eventually(lambda: set(database.query("count_over_time(up[1m]) >= 3").values()) != set(), 30)
        nodes = here.report()["nodes"]
        found = database.query('sum(numaudit_node_memory_bytes{type="total"})')
        assert found == {frozenset(): sum(on["total_bytes"] for on in nodes)}
        (age,) = database.query("numaudit_snapshot_age_seconds").values()
        assert 0 <= age < 5
        assert database.query("rate(numaudit_ticks_total[30s]) > 0")
        _nothing_was_refused(database)


def _nothing_was_refused(database: Database) -> None:
    (target,) = database.get("/api/v1/targets")["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.parametrize("which", ["here", "captured"])
def test_promtool_finds_nothing_to_complain_about(request: pytest.FixtureRequest, which: str) -> None:
    agent: Agent = request.getfixturevalue(which)
    promtool = tool("prometheus").with_name("promtool")
    text = agent.get("/metrics", accept="text/plain")[1]
    assert "numaudit_container_resident_bytes{" in text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
