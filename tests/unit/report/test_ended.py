"""What a container counted between the last tick of its life and its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from made_up_probes import Counters, made_up_session
from node_tree import NodeTree
from numaudit.config.settings import Settings
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.loop import Daemon
from numaudit.kernel.host import Host
from numaudit.observer import Observer
from numaudit.snapshot import HintFault

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """A made-up node with one container, its probes, and the agent that looks at it."""

    tree: NodeTree
    probes: dict[str, Counters]
    daemon: Daemon

    def inode(self, path: str) -> int:
        return (self.tree.root / f"sys/fs/cgroup{path}").stat().st_ino

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Pod and label values -> value in the newest exposition."""
        assert self.daemon.published is not None
        families = {one.metric.name: one for one in self.daemon.published.exposition.families}
        return {(key[1], *labels): value for key, labels, value in families[name].points if key is not None and key[1]}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    tree = NodeTree(tmp_path / "node")
    (tree.root / "proc/sys/kernel/numa_balancing").write_text("1\n")
    probes, session = made_up_session()
    settings = Settings(listen=("127.0.0.1", 0))
    return Node(tree, probes, Daemon(settings, Observer.of(Host.under(tree.root)), session, (), RateLimit()))


def test_the_counts_of_a_containers_last_interval_are_exported(node: Node) -> None:
    with node.daemon.server:
        path = node.tree.container(node.tree.pod("prod", "job"), "main", anon=(MIB, 0))
        cgroup = node.inode(path)
        node.probes["page_alloc"].by_cgroup[cgroup] = {(0, 0): MIB}
        node.daemon.tick()
        node.probes["page_alloc"].by_cgroup[cgroup] = {(0, 0): 3 * MIB, (0, 1): MIB}
        node.probes["cpu_time"].by_cgroup[cgroup] = {1: 2_500_000_000}
        node.probes["hint_faults"].by_cgroup[cgroup] = {HintFault(0, 1, 0): 9}
        node.probes["migrations"].by_cgroup[cgroup] = {"compaction": 3}
        node.tree.kill(path)
        for _ in range(3):  # it stays until it was scraped twice
            node.daemon.tick()
            assert node.values("container_allocated_bytes_total") == {
                ("job", "0", "0"): 3 * MIB, ("job", "0", "1"): MIB,
            }  # fmt: skip
            assert node.values("container_cpu_seconds_total") == {("job", "1"): 2.5}
            assert node.values("container_hint_faults_total") == {("job", "0", "1", "remote"): 9}
            assert node.values("container_migrated_bytes_total") == {("job", "compaction"): 3 * 4096}
        assert cgroup not in node.probes["page_alloc"].by_cgroup


def test_a_counter_does_not_grow_because_a_cgroup_in_the_container_ended(node: Node) -> None:
    with node.daemon.server:
        path = node.tree.container(node.tree.pod("prod", "job"), "main", anon=(MIB, 0))
        inner = node.tree.root / f"sys/fs/cgroup{path}/inner"
        inner.mkdir()
        cpu_time = node.probes["cpu_time"].by_cgroup
        cpu_time[node.inode(path)] = {0: 1_000_000_000}
        cpu_time[inner.stat().st_ino] = {0: 40_000_000_000}
        node.daemon.tick()
        cpu_time[inner.stat().st_ino] = {0: 41_000_000_000}
        inner.rmdir()
        for _ in range(3):
            node.daemon.tick()
            assert node.values("container_cpu_seconds_total") == {("job", "0"): 42.0}
