"""The observer: what one tick joins, and that it finds what a first tick would, whatever was read before."""

from __future__ import annotations

import gc
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hosts.node_tree import MIB, NodeTree
from made_up.probes import made_up_session
from numaudit.containermanager.memory.state import Block
from numaudit.engine.collectors import of_host
from numaudit.engine.collectors.base import SkippedItems, TickInputs
from numaudit.engine.collectors.containers.allowed import AllowedCollector
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.engine.collectors.containers.residency import without
from numaudit.engine.observer import Observer
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.kernel.host import Host
from numaudit.probes.session import ProbeReadings
from numaudit.report.build import build
from numaudit.snapshot import Resident, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet
from processes.cycles import no_kept_errors


def test_huge_pages_that_are_reserved_after_the_first_tick_are_seen(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "huge-pages", tree)
    pools = list(tree.glob("sys/devices/system/node/node*/hugepages/*/nr_hugepages"))
    totals = {pool: pool.read_text() for pool in pools}
    for pool in pools:
        pool.write_text("0\n")
    observer = Observer.of(Host.under(tree))
    before = observer.observe()
    for pool, total in totals.items():
        pool.write_text(total)
    after = observer.observe()
    assert not any(sum((one.hugetlb or {}).values()) for one in before.residency.values())
    assert any(sum((one.hugetlb or {}).values()) for one in after.residency.values())


def test_a_cpu_that_goes_offline_between_two_ticks_is_not_listed_for_its_node(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    observer = Observer.of(Host.under(tree))
    before = observer.observe().machine
    assert observer.observe().machine is before  # not read again without need
    assert before.by_id[3].cpus == CpuSet.of(6, 7)
    (tree / "sys/devices/system/cpu/online").write_text("0-6\n")
    (tree / "sys/devices/system/node/node3/cpulist").write_text("6\n")
    after = observer.observe().machine
    assert after.by_id[3].cpus == CpuSet.of(6)
    assert [one.id for one in after.cpus] == [*range(7)]


def test_a_machine_that_shows_no_nodes_any_more_stays_as_it_was(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    observer = Observer.of(Host.under(tree))
    before = observer.observe().machine
    shutil.rmtree(tree / "sys/devices/system/node")
    assert observer.observe().machine is before


def _balancing_node(root: Path, containers: int) -> NodeTree:
    """A node whose kernel has counters in memory.stat."""
    tree = NodeTree(root)
    tree.fill(containers)
    (tree.root / "proc/sys/kernel/numa_balancing").write_text("1\n")
    (tree.root / "proc/vmstat").write_text("numa_hint_faults 900\n")
    for number, path in enumerate(["", *tree.containers()]):
        (tree.root / f"sys/fs/cgroup{path}/memory.stat").write_text(f"anon 4096\nnuma_hint_faults {number}\n")
    return tree


def test_the_kernels_counters_of_containers_come_out_of_an_agent_with_all_probes(tmp_path: Path) -> None:
    tree = _balancing_node(tmp_path / "node", 8)
    _, session = made_up_session()
    found = Observer.of(Host.under(tree.root)).observe(readings=ProbeReadings(session))
    counted = [one.numa_balancing for one in build(found).containers if one.container is not None]
    assert sorted(one["numa_hint_faults"] for one in counted if one is not None) == [*range(1, 9)]


def test_a_tick_reads_a_bounded_number_of_containers_and_the_next_ones_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_host, "AT_ONCE", 3)
    tree = _balancing_node(tmp_path / "node", 8)
    observer = Observer.of(Host.under(tree.root))
    _, session = made_up_session()

    def counted() -> list[int]:
        snapshot = observer.observe(readings=ProbeReadings(session))
        assert snapshot.numa_balancing is not None
        return sorted(one["numa_hint_faults"] for one in snapshot.numa_balancing.by_container.values())

    assert [len(counted()) for _ in range(3)] == [3, 6, 8]
    (tree.root / f"sys/fs/cgroup{tree.containers()[0]}/memory.stat").write_text("numa_hint_faults 100\n")
    assert max([max(counted()) for _ in range(3)]) == 100
    tree.kill(tree.containers()[0])
    assert len(counted()) == 7


def test_a_capture_without_the_kernels_counters_of_balancing_is_no_failure(fixtures: Path, tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", tree)
    (tree / "proc/sys/kernel").mkdir(parents=True, exist_ok=True)
    (tree / "proc/sys/kernel/numa_balancing").write_text("1\n")
    (tree / "sys/fs/cgroup/memory.stat").unlink(missing_ok=True)
    states = {one.source: one.state for one in Observer.of(Host.under(tree)).observe().outcomes}
    assert states["numa_balancing"] == "ok"


def test_a_container_that_ends_while_its_counters_are_read_keeps_no_tick_alive(tmp_path: Path) -> None:
    tree = _balancing_node(tmp_path / "node", 8)
    for ended in tree.containers()[:3]:
        (tree.root / f"sys/fs/cgroup{ended}/memory.stat").unlink()
    observer = Observer.of(Host.under(tree.root))
    with no_kept_errors():
        balancing = observer.observe().numa_balancing
    assert balancing is not None and len(balancing.by_container) == 5


def test_files_close_with_the_observer_although_the_kubelet_did_not_answer(fixtures: Path) -> None:
    """An error that is kept with its traceback would keep all that the tick had open."""
    gc.collect()
    gc.disable()
    try:
        before = _open_files()
        observer = Observer.of(Host.under(fixtures / "kubernetes-cluster"))
        intent = observer.observe().intent
        assert intent is not None and "missing" in {one.state for one in intent.sources}
        assert len(_open_files()) > len(before)
        del observer, intent
        assert _open_files() <= before
    finally:
        gc.enable()


def _open_files() -> set[str]:
    return {one.name for one in Path("/proc/self/fd").iterdir()}


def _seen(snapshot: Snapshot) -> dict[str, object]:
    """What it says of containers, and what was skipped."""
    return {
        "containers": snapshot.containers,
        "residency": snapshot.residency,
        "unattributed": snapshot.unattributed,
        "not_resident": snapshot.not_resident,
        "allowed": snapshot.allowed,
        "outcomes": [(one.source, one.state, one.skipped, one.reason) for one in snapshot.outcomes],
    }


def _change(tree: NodeTree, chance: random.Random) -> None:
    """One thing that may happen to groups between two ticks."""
    running = tree.containers()
    path = chance.choice([*running, *[one.rpartition("/")[0] for one in running], "/kubepods.slice", ""])
    folder = tree.root / f"sys/fs/cgroup{path}"
    what = chance.choice(["memory", "memory", "memory", "cpuset", "foreign", "new", "end"])
    if what == "memory":
        tree.hold(path, (chance.randrange(64) * MIB, chance.randrange(64) * MIB))
    elif what == "cpuset":
        (folder / "cpuset.mems.effective").write_text(chance.choice(["0\n", "1\n", "0-1\n"]))
    elif what == "foreign":
        (folder / "memory.numa_stat").write_text("foreign\n")
    elif what == "new":
        tree.container(tree.pod("prod", f"more-{chance.random()}"), "c0")
    elif what == "end" and path in running:
        tree.kill(path)


@pytest.mark.parametrize("seed", range(4))
def test_any_tick_sees_of_the_groups_what_a_first_tick_would(tmp_path: Path, seed: int) -> None:
    chance, tree = random.Random(seed), NodeTree(tmp_path / "node")
    tree.fill(8)
    observer = Observer.of(Host.under(tree.root))
    for _ in range(25):
        assert _seen(observer.observe()) == _seen(Observer.of(Host.under(tree.root)).observe())
        for _ in range(chance.choice([0, 1, 1, 2])):
            _change(tree, chance)
    observer.files.close()


SIZES = st.none() | st.dictionaries(st.integers(0, 2), st.integers(0, 9), max_size=3)


@given(SIZES, st.lists(SIZES, max_size=3))
@example({0: 4, 1: 2}, [{0: 1}, {0: 1, 1: 3}])
def test_any_group_has_what_its_children_do_not_and_never_less_than_nothing(
    whole: Mapping[int, int] | None, parts: list[Mapping[int, int] | None]
) -> None:
    left = without(Resident(shmem=whole), [Resident(shmem=part) for part in parts]).shmem
    if whole is None:
        assert left is None
    else:
        below = [part or {} for part in parts]
        assert left == {node: max(0, size - sum(part.get(node, 0) for part in below)) for node, size in whole.items()}


def test_a_promise_that_is_new_or_is_broken_is_seen_although_no_cpuset_changed(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    tree.fill(4)
    observer = Observer.of(Host.under(tree.root))
    collector, census = AllowedCollector(), observer.inventory.take()
    tick = TickInputs(observer.host, observer.machine.read(), observer.reader, census, Owners())
    id_ = next(one.id for one in census.containers if one.path == tree.containers()[0])
    (tree.root / f"sys/fs/cgroup{tree.containers()[0]}/cpuset.mems").write_text("0\n")
    own_nodes = []
    for nodes in (None, None, NodeSet.of(1), NodeSet.of(1), NodeSet.of(0)):
        promise = Promise(memory=None if nodes is None else (Block.of("memory", 4096, nodes),))
        intent = Intent(containers=(ContainerIntent("uid", "c0", cgroups=(id_,), promise=promise),))
        snapshot = Snapshot(taken_at=1.0, machine=tick.machine, cgroup_mode="v2", intent=intent)
        own_nodes.append(collector.collect(tick, snapshot, SkippedItems()).allowed[id_].own_nodes)
    assert own_nodes == [None, None, NodeSet.of(0), NodeSet.of(0), None]
    observer.files.close()
