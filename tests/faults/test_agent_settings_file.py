"""A running agent takes over its changed settings file by itself, as in a pod whose ConfigMap was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.config_map import ConfigMap
from hosts.node_tree import MIB, NodeTree
from processes.agent_process import eventually, running_agent


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    tree = NodeTree(tmp_path / "node")
    tree.container(tree.pod("prod", "db-0"), "db", anon=(5 * MIB, 2 * MIB))
    return tree


def test_a_changed_config_map_is_taken_over_without_a_signal(tree: NodeTree, tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "volume", "agent.yaml", "interval: 1s\n")
    with running_agent("--root", str(tree.root), "--config", str(volume.path), log=tmp_path / "log") as agent:
        begun = agent.value("numaudit_config_reload_success_timestamp_seconds") or 0

        volume.swap("interval: 2s\nmetrics: {labels: [namespace]}\nprobes: []\n")
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="") is not None)
        assert "the settings were read again; changed: interval, metrics.labels" in agent.log()
        assert agent.log().count("these changed settings take effect at the next start: probes") == 1
        assert (agent.value("numaudit_config_reload_success_timestamp_seconds") or 0) > begun

        volume.swap("interval: never\n")
        assert eventually(lambda: agent.value("numaudit_config_reload_success") == 0)
        ticks = agent.value("numaudit_ticks_total") or 0
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) > ticks + 3)
        assert agent.log().count("the changed settings are invalid") == 1
        assert f"{volume.path}:1: interval must be" in agent.log()
        assert agent.value("numaudit_container_judged_bytes", container="") is not None  # those before stay

        volume.swap("interval: 1s\n")
        assert eventually(lambda: agent.value("numaudit_config_reload_success") == 1)
        assert eventually(lambda: agent.value("numaudit_container_judged_bytes", container="db") is not None)
        assert agent.stop()[0] == 0


def test_a_changed_file_is_taken_over_long_before_the_next_tick(tree: NodeTree, tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "volume", "agent.yaml", "interval: 1h\n")
    with running_agent("--root", str(tree.root), "--config", str(volume.path), log=tmp_path / "log") as agent:
        volume.swap("interval: 1s\n")
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) > 2)
        assert agent.stop()[0] == 0
