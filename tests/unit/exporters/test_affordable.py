"""What series a host costs, and that families can be added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from hosts.node_tree import NodeTree
from made_up.probes import made_up_session
from made_up.reports import container, report
from numaudit.config.settings import MetricsSettings, Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.ticks.publisher import Published
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.catalogue.values import misplaced
from numaudit.exporters.exposition import MetricFamily
from numaudit.exporters.series import ContainerName
from numaudit.kernel.host import Host
from numaudit.report.values import Intended
from numaudit.snapshot.counted import HintFault
from numaudit.topology.nodeset import NodeSet

WITH_PROMISES = ("kubernetes-four-nodes", "misaligned-node")


def _busy(root: Path) -> Published:
    """The second tick of a host on which every container uses all of its nodes from all of its nodes."""
    observer = Observer.of(Host.under(root))
    nodes = [node.id for node in observer.machine.read().nodes]
    probes, session = made_up_session()
    for groups in observer.inventory.take().groups.values():
        id_ = groups[0].id
        pairs = [(cpu, node) for cpu in nodes for node in nodes]
        probes["cpu_time"].by_cgroup[id_] = dict.fromkeys(nodes, 10**9)
        probes["page_alloc"].by_cgroup[id_] = {(cpu, node): (cpu + node + 1) * 4096 for cpu, node in pairs}
        probes["hint_faults"].by_cgroup[id_] = {HintFault(*pair, flags): 5 for pair in pairs for flags in (0, 1)}
    daemon = Agent.of(Settings(listen=("127.0.0.1", 0)), Engine(observer, session), RateLimit())
    with daemon.server:
        daemon.ticker.tick()
        daemon.ticker.tick()
    assert daemon.ticker.newest.published is not None
    return daemon.ticker.newest.published


def _families(published: Published) -> dict[str, MetricFamily]:
    return {family.metric.name: family for family in published.exposition.families}


def _series_of(published: Published, keys: set[ContainerName]) -> float:
    """Mean number of series of some containers."""
    counts: Counter[ContainerName] = Counter()
    for family in published.exposition.families:
        for block in family.blocks:
            if block.key in keys:
                counts[block.key] += len(block.numbers)
    return sum(counts.values()) / len(keys)


@pytest.mark.parametrize("host", WITH_PROMISES)
def test_a_promised_container_on_four_nodes_stays_within_its_budget(fixtures: Path, host: str) -> None:
    published = _busy(fixtures / host)
    promised = {
        (one.namespace or "", one.pod or "", one.container or "")
        for one in published.ticked.report.containers
        if one.intended is not None and one.intended.memory_nodes
    }
    assert len(promised) >= 8
    assert 20 < _series_of(published, promised) <= 45


@pytest.mark.parametrize(("nodes", "budget"), [(2, 35), (8, 60)])
def test_a_container_stays_within_its_budget_on_any_machine(tmp_path: Path, nodes: int, budget: int) -> None:
    """It uses every node from every node, and has bytes of every type on all of them but one."""
    tree = NodeTree(tmp_path / "node", nodes=nodes)
    (tree.root / "proc/sys/kernel/numa_balancing").write_text("1\n")
    tree.fill(8)
    published = _busy(tree.root)
    blocks = [block for family in published.exposition.families for block in family.blocks]
    keys = {block.key for block in blocks if block.key is not None}
    named = {key for key in keys if key[1]}
    assert len(named) == 8
    assert 15 < _series_of(published, named) <= budget


def _sums(family: MetricFamily, *, without: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """Label values but one -> the sum over it."""
    place = family.metric.labels.index(without)
    sums: dict[tuple[str, ...], float] = {}
    for _, labels, number in family.points:
        rest = (*labels[:place], *labels[place + 1 :])
        sums[rest] = sums.get(rest, 0) + number
    yield from sums.items()


def test_the_parts_of_the_memory_map_add_up_to_what_is_allocatable(fixtures: Path) -> None:
    families = _families(_busy(fixtures / "kubernetes-four-nodes"))
    parts = dict(_sums(families["memory_manager_bytes"], without="state"))
    allocatable = {labels: number for _, labels, number in families["memory_manager_allocatable_bytes"].points}
    reserved = {labels: number for _, labels, number in families["memory_manager_system_reserved_bytes"].points}
    total = {labels: number for _, labels, number in families["memory_manager_total_bytes"].points}
    assert parts == allocatable != {}
    for (node, kind), size in total.items():
        if kind == "memory":  # huge pages are a part of the node's memory and have rows of their own
            huge = sum(other for (on, name), other in total.items() if on == node and name != "memory")
            assert allocatable[node, kind] + reserved[node, kind] + huge == size
    assert set(dict(_sums(families["memory_manager_assignments"], without="numa_node"))) == {()}


def test_a_nodes_types_never_add_up_to_more_than_it_has(fixtures: Path) -> None:
    families = _families(_busy(fixtures / "kubernetes-four-nodes"))
    parts = dict(_sums(families["node_memory_bytes"], without="type"))
    total = {labels: number for _, labels, number in families["node_memory_total_bytes"].points}
    assert parts.keys() == total.keys() != set()
    for node, size in total.items():
        assert 0.85 * size < parts[node] <= size


def test_both_ways_to_divide_a_nodes_pages_give_the_same_sum(fixtures: Path) -> None:
    families = _families(_busy(fixtures / "kubernetes-four-nodes"))
    by_wish = dict(_sums(families["node_numastat_bytes_total"], without="event"))
    by_place = dict(_sums(families["node_numastat_locality_bytes_total"], without="event"))
    assert by_wish.keys() == by_place.keys() != set()
    for node, pages in by_wish.items():
        assert by_place[node] == pytest.approx(pages, rel=0.01)


def test_misplaced_and_aligned_bytes_add_up_to_the_judged_ones() -> None:
    (one,) = report(container(), anon={0: 4096, 1: 8192, 2: 100}).containers
    promise = Intended(NodeSet.parse("0"), {"memory": 1 << 30}, None, None, None)
    promised = structs.replace(one, intended=promise, aligned_bytes=4096)
    assert one.judged_bytes is not None
    assert misplaced(promised) == [(("1",), 8192), (("2",), 100)]
    assert sum(size for _, size in misplaced(promised)) + 4096 == one.judged_bytes
    assert misplaced(one) == ()


def test_allocated_bytes_say_whether_they_are_local(fixtures: Path) -> None:
    family = _families(_busy(fixtures / "kubernetes-four-nodes"))["container_allocated_bytes_total"]
    for _, (cpu_node, node, locality), _ in family.points:
        assert locality == ("local" if cpu_node == node else "remote") or cpu_node == "other"


def test_what_a_pods_own_cgroup_holds_looks_like_no_total_of_the_pod(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    tree.fill(4)
    everything = Settings(listen=("127.0.0.1", 0), metrics=MetricsSettings(exclude=()))
    daemon = Agent.of(everything, Engine(Observer.of(Host.under(tree.root))), RateLimit())
    with daemon.server:
        daemon.ticker.tick()
    assert daemon.ticker.newest.published is not None
    keys = {
        key
        for key, *_ in _families(daemon.ticker.newest.published)["container_info"].points
        if key is not None and key[1]
    }
    assert {key[2] for key in keys} == {"c0", "c1", "c2", "c3", "(rest)"}
