"""What a tick finds in the groups' files is what a first tick would find, whatever was read before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hosts.node_tree import MIB, NodeTree
from numaudit.containermanager.memory.state import Block
from numaudit.engine.collectors.base import SkippedItems, TickInputs
from numaudit.engine.collectors.containers.allowed import AllowedCollector
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.engine.collectors.containers.residency import without
from numaudit.engine.observer import Observer
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.kernel.host import Host
from numaudit.snapshot import Resident, Snapshot
from numaudit.topology.nodeset import NodeSet


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


@pytest.mark.parametrize("seed", range(12))
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
