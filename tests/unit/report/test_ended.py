"""What a container counted between the last tick of its life and its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hosts.node_tree import NodeTree
from made_up.probes import Counters, made_up_session
from made_up.reports import MACHINE, container
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.session import ProbeReadings
from numaudit.report.build import build, last_counts
from numaudit.report.counters import COUNTERS, NodeSeconds
from numaudit.report.values import ContainerReport
from numaudit.snapshot import Balancing, Container, Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, HintFault, Migrated, MigratedPages, Sampled, TaskMove

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """A made-up node with one container, its probes, and the agent that observes it."""

    tree: NodeTree
    probes: dict[str, Counters]
    daemon: Agent

    def inode(self, path: str) -> int:
        return (self.tree.root / f"sys/fs/cgroup{path}").stat().st_ino

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Pod and label values -> value in the newest exposition."""
        assert self.daemon.ticker.newest.published is not None
        families = {one.metric.name: one for one in self.daemon.ticker.newest.published.exposition.families}
        return {(key[1], *labels): value for key, labels, value in families[name].points if key is not None and key[1]}

    def of_host(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values -> value in the newest exposition."""
        assert self.daemon.ticker.newest.published is not None
        families = {one.metric.name: one for one in self.daemon.ticker.newest.published.exposition.families}
        return {labels: value for _, labels, value in families[name].points}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    tree = NodeTree(tmp_path / "node")
    (tree.root / "proc/sys/kernel/numa_balancing").write_text("1\n")
    probes, session = made_up_session()
    settings = Settings(listen=("127.0.0.1", 0))
    return Node(tree, probes, Agent.of(settings, Engine(Observer.of(Host.under(tree.root)), session), RateLimit()))


def test_the_counts_of_a_containers_last_interval_are_exported(node: Node) -> None:
    with node.daemon.server:
        path = node.tree.container(node.tree.pod("prod", "job"), "main", anon=(MIB, 0))
        cgroup = node.inode(path)
        node.probes["page_alloc"].by_cgroup[cgroup] = {(0, 0): MIB}
        node.daemon.ticker.tick()
        node.probes["page_alloc"].by_cgroup[cgroup] = {(0, 0): 3 * MIB, (0, 1): MIB}
        node.probes["cpu_time"].by_cgroup[cgroup] = {1: 2_500_000_000}
        node.probes["pmu"].by_cgroup[cgroup] = {(0, "local"): 70, (0, "remote"): 30}
        node.probes["hint_faults"].by_cgroup[cgroup] = {HintFault(0, 1, 0): 9}
        node.probes["migrations"].by_cgroup[cgroup] = {"compaction": 3}
        node.tree.kill(path)
        for _ in range(3):  # it stays until it was scraped twice
            node.daemon.ticker.tick()
            assert node.values("container_allocated_bytes_total") == {
                ("job", "0", "0", "local"): 3 * MIB, ("job", "0", "1", "remote"): MIB,
            }  # fmt: skip
            assert node.values("container_cpu_seconds_total") == {("job", "1"): 2.5}
            assert node.values("container_memory_accesses_total") == {
                ("job", "local", "pmu", "lines"): 70, ("job", "remote", "pmu", "lines"): 30,
            }  # fmt: skip
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
        node.daemon.ticker.tick()
        cpu_time[inner.stat().st_ino] = {0: 41_000_000_000}
        inner.rmdir()
        for _ in range(3):
            node.daemon.ticker.tick()
            assert node.values("container_cpu_seconds_total") == {("job", "0"): 42.0}


JOB = container()
BASIS = CountBasis("offcore_reads", "lines", includes_prefetch=True)


def _snapshot(count: int, *containers: Container) -> Snapshot:
    """Every probe has counted so much of the container, which runs or has ended."""
    moved = MigratedPages(count, count)
    return Snapshot(
        0.0, MACHINE, "v2", containers,
        cpu_time={JOB.id: {0: float(count)}},
        page_alloc={JOB.id: {(0, 1): count}},
        pmu={JOB.id: CountedAccesses(BASIS, {(0, "local"): count, (0, "remote"): count}, count, count)},
        hint_faults={JOB.id: Sampled({HintFault(0, 1, 0): count})},
        migrations={JOB.id: Migrated({"numa_misplaced": moved}, {TaskMove("moved", 0, 1): count}, {(0, 1): moved})},
        numa_balancing=Balancing({}, {JOB.id: {"numa_pages_migrated": count}}),
    )  # fmt: skip


def _ended(now: Snapshot) -> ContainerReport:
    (found,) = last_counts(build(_snapshot(1, JOB)), now)
    return found


def test_pages_moved_between_nodes_in_the_last_interval_are_kept() -> None:
    (moved,) = _ended(_snapshot(2)).migrated_between or ()
    assert (moved.from_numa_node, moved.to_numa_node, moved.bytes) == (0, 1, 2 * MACHINE.page_size)


@pytest.mark.parametrize("field", [counter.field for counter in COUNTERS])
def test_every_counter_of_the_last_interval_is_kept(field: str) -> None:
    (running,) = build(_snapshot(2, JOB)).containers
    assert getattr(_ended(_snapshot(2)), field) == getattr(running, field) != getattr(_ended(_snapshot(1)), field)


def test_a_counter_that_was_not_read_once_more_keeps_what_it_had() -> None:
    (before,) = build(_snapshot(1, JOB)).containers
    assert _ended(Snapshot(0.0, MACHINE, "v2")) == before


def test_cgroups_that_come_and_go_between_two_ticks_are_counted_for_the_host(node: Node) -> None:
    with node.daemon.server:
        node.tree.container(node.tree.pod("prod", "job"), "main", anon=(MIB, 0))
        node.daemon.ticker.tick()
        for tick, cgroup in enumerate(range(1 << 40, (1 << 40) + 3), start=1):
            node.probes["cpu_time"].by_cgroup[cgroup] = {1: 500_000_000}
            node.probes["page_alloc"].by_cgroup[cgroup] = {(0, 1): MIB}
            node.probes["hint_faults"].by_cgroup[cgroup] = {HintFault(0, 1, 0): 9}
            node.daemon.ticker.tick()
            assert node.of_host("node_ended_cpu_seconds_total") == {("1",): 0.5 * tick}
            assert node.of_host("node_ended_allocated_bytes_total") == {("0", "1", "remote"): tick * MIB}
            assert node.of_host("node_ended_hint_faults_total") == {("0", "1", "remote"): 9 * tick}
            assert not any(cgroup in probe.by_cgroup for probe in node.probes.values())


def test_a_report_has_all_that_was_counted_whoever_has_ended(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    pod = tree.pod("prod", "job")
    stays, ends = tree.container(pod, "stays", anon=(MIB, 0)), tree.container(pod, "ends", anon=(MIB, 0))
    ids = [(tree.root / f"sys/fs/cgroup{path}").stat().st_ino for path in (stays, ends)]
    probes, session = made_up_session()
    observer = Observer.of(Host.under(tree.root))
    observer.observe(readings=ProbeReadings(session))
    tree.kill(ends)
    probes["cpu_time"].by_cgroup |= {ids[0]: {0: 10**9}, ids[1]: {0: 2 * 10**9}, 1 << 40: {1: 4 * 10**9}}
    report = build(observer.observe(readings=ProbeReadings(session)))
    assert report.ended is not None
    assert report.ended.unseen is not None
    assert report.ended.seen.cpu_seconds == (NodeSeconds(0, 2.0),)
    assert report.ended.unseen.cpu_seconds == (NodeSeconds(1, 4.0),)
    listed = sum(on.seconds for one in report.containers for on in one.cpu_seconds or ())
    assert listed == 1.0


def test_without_probes_a_report_says_nothing_of_what_has_ended(tmp_path: Path) -> None:
    observer = Observer.of(Host.under(NodeTree(tmp_path / "node").root))
    assert build(observer.observe()).ended is None
