"""A kubelet falls silent: the agent says so, its values end, and an alert fires."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from databases import Database, prometheus
from monitoring import alert_cases
from processes.agent_process import Agent, eventually, running_agent
from required import tool

TAKEN = ("pods.json", "podresources-list.pb", "podresources-allocatable.pb", "kubelet.log")
SOURCES = ("pods", "podresources", "kubelet-log", "memory-checkpoint")
HURRIED = (
    "from numaudit.kubelet.sources import polled, poller; poller.SELDOM = polled.RETRY_AFTER = 1.0; "
    "use = poller.KubeletPoller.use; "
    "poller.KubeletPoller.use = lambda self, interval, max_age: use(self, interval, 8.0); "
)
"""Sources are asked in every tick, and kubelet.max_age is 8 seconds: the setting's least is a minute."""
_SILENT = {("silent", source) for source in SOURCES}
_ALERT = "NumauditAgentIncomplete"


def test_a_silent_kubelet_is_noticed_and_its_node_no_longer_said_to_have_room(fixtures: Path, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    shutil.copytree(fixtures / "kubernetes-four-nodes", root, symlinks=True)
    with _watched(root, fixtures / "kubernetes-four-nodes", tmp_path) as (agent, database):
        assert eventually(lambda: _success(agent) == dict.fromkeys(SOURCES, 1.0))
        assert eventually(lambda: _nodes_with_room(database) == {"silent", "healthy"})
        _fall_silent(root)
        assert eventually(lambda: _success(agent) == dict.fromkeys(SOURCES, 0.0))
        assert eventually(lambda: _ages_have_grown(database))
        assert eventually(lambda: "numaudit_memory_manager_bytes" not in agent.samples())
        assert "numaudit_node_memory_total_bytes" in agent.samples()
        assert eventually(lambda: _nodes_with_room(database) == {"healthy"})
        assert eventually(lambda: _lost(database) == _SILENT), database.query("ALERTS")


@contextmanager
def _watched(root: Path, healthy: Path, folder: Path) -> Iterator[tuple[Agent, Database]]:
    """The agent on a tree, another one on a healthy tree, and a Prometheus with the rules that scrapes both."""
    rules = folder / "rules.json"
    rules.write_text(json.dumps(_hurried()))
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(
                running_agent("--root", str(tree), "--interval", "1s", log=folder / f"{name}.log", program=HURRIED)
            )
            for name, tree in (("silent", root), ("healthy", healthy))
        )
        ports = {"silent": one.port, "healthy": other.port}
        yield one, stack.enter_context(prometheus(tool("prometheus"), folder, ports, rules=rules))


def _hurried() -> dict[str, Any]:
    """The rules, with seconds in place of minutes."""
    text = alert_cases.RULES.read_text(encoding="utf-8").replace("[1d:15m]", "[1d:1s]")
    rules: dict[str, Any] = yaml.safe_load(text)
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        if rule.get("alert") == _ALERT:
            rule["for"] = "2s"
    return rules


def _fall_silent(root: Path) -> None:
    for name in TAKEN:
        (root / "numaudit" / name).unlink()
    state = root / "var/lib/kubelet/memory_manager_state"
    state.unlink()
    state.mkdir()  # user 0 reads whatever is a file


def _success(agent: Agent) -> dict[str, float | None]:
    return {source: agent.value("numaudit_collector_success", collector=source) for source in SOURCES}


def _ages_have_grown(database: Database) -> bool:
    grown = database.query(f'delta(numaudit_collector_age_seconds{{collector=~"{"|".join(SOURCES)}"}}[10s]) > 2')
    return {(dict(labels)["nodename"], dict(labels)["collector"]) for labels in grown} == _SILENT


def _lost(database: Database) -> set[tuple[str, str]]:
    firing = database.query(f'ALERTS{{alertname="{_ALERT}",alertstate="firing"}}')
    return {(dict(labels)["nodename"], dict(labels)["missing"]) for labels in firing}


def _nodes_with_room(database: Database) -> set[str]:
    room = database.query("numaudit_memory_manager_admissible_bytes > 0")
    return {dict(labels)["nodename"] for labels in room}
