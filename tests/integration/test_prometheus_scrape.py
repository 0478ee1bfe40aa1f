"""Real Prometheus servers scrape the agent, and their queries return the report's numbers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from databases import Database, prometheus
from processes.agent_process import Agent, eventually, running_agent
from required import tool

SERVERS = [name for name in tools.TOOLS if name.startswith("prometheus")]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Iterator[Agent]:
    """The agent on a captured four-node Kubernetes host."""
    root = str(fixtures / "kubernetes-four-nodes")
    everything = ("--interval", "1s", "--set", "metrics.exclude=")
    with running_agent("--root", root, *everything, log=tmp_path_factory.mktemp("agent") / "log") as agent:
        yield agent


@pytest.mark.parametrize("server", SERVERS)
def test_queries_return_the_numbers_of_the_report(captured: Agent, tmp_path: Path, server: str) -> None:
    with prometheus(tool(server), tmp_path, captured.port) as database:
        assert eventually(lambda: database.query("up") != {} and set(database.query("up").values()) == {1.0})
        report = captured.report()
        expected = {
            (one["namespace"] or "", one["pod"] or "", one["container"] or "", on["numaNode"], kind): on[f"{kind}Bytes"]
            for one in report["containers"]
            if one["container"] is not None and one["pod"] is not None
            for on in one["resident"] or ()
            for kind in ("anon", "shmem", "file", "hugetlb", "kernel")
            if on[f"{kind}Bytes"] >= (4096 if kind == "kernel" else 1)
        }
        assert len(expected) > 20

        def found() -> dict[tuple[str, str, str, int, str], float]:
            rows = database.query('numaudit_container_resident_bytes{pod!="",container!~"POD|.rest."}').items()
            named = ((dict(labels), value) for labels, value in rows)
            return {
                (have["namespace"], have["pod"], have["container"], int(have["numa_node"]), have["type"]): value
                for have, value in named
                if have.get("container")
            }

        # A scrape that a busy machine answered late leaves no sample, and the next one brings it.
        assert eventually(lambda: found() == expected) or found() == expected
        assert eventually(lambda: len(database.query("numaudit_container_info")) == len(report["containers"]))
        _total_is_found(database, report)
        _nothing_was_refused(database)
        types = {name: one["type"] for name, (one, *_) in database.get("/api/v1/metadata")["data"].items()}
        assert {types[name] for name in ("numaudit_build", "numaudit_container", "numaudit_node_policy")} == {"info"}


def _total_is_found(database: Database, report: dict[str, Any]) -> None:
    total = {frozenset[tuple[str, str]](): sum(on["totalBytes"] for on in report["nodes"])}
    assert eventually(lambda: database.query("sum(numaudit_node_memory_total_bytes)") == total)


def _nothing_was_refused(database: Database) -> None:
    """Its newest scrape went well; on a busy machine one before may have been answered late."""

    def states() -> list[tuple[str, str]]:
        targets = database.get("/api/v1/targets")["data"]["activeTargets"]
        return [(target["health"], target["lastError"]) for target in targets]

    assert eventually(lambda: states() == [("up", "")]) or states() == [("up", "")]


def test_promtool_finds_nothing_to_complain_about(captured: Agent) -> None:
    promtool = tool("prometheus").with_name("promtool")
    text = captured.get("/metrics", accept="text/plain")[1]
    assert "numaudit_container_resident_bytes{" in text
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
