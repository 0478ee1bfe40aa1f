"""What a tick reads that is as it was is the very value of the tick before, and never an old one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.node_tree import MIB, NodeTree
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.snapshot import Resident, Snapshot

STEPS = st.lists(
    st.tuples(st.sampled_from(["hold", "hold others", "kill", "move", "start"]), st.integers(0, 3), st.integers(0, 2)),
    max_size=6,
)


def _tree(folder: str | Path) -> tuple[NodeTree, list[str]]:
    tree = NodeTree(Path(folder))
    tree.fill(4, per_pod=2)
    return tree, tree.containers()


def _move(tree: NodeTree, path: str, nodes: str) -> None:
    (tree.root / f"sys/fs/cgroup{path}/cpuset.mems.effective").write_text(f"{nodes}\n")


def _by_path(snapshot: Snapshot) -> dict[str, Resident | None]:
    return {one.path: snapshot.residency.get(one.id) for one in snapshot.containers}


def test_bytes_that_stay_are_the_same_value_and_those_that_move_are_not(tmp_path: Path) -> None:
    tree, paths = _tree(tmp_path)
    observer = Observer.of(Host.under(tmp_path))
    before = observer.observe()
    tree.hold(paths[0], (9 * MIB, 9 * MIB))
    now = observer.observe()
    same = {path for path, one in _by_path(now).items() if one is _by_path(before)[path]}
    assert same == _by_path(now).keys() - {paths[0]}
    assert now.unattributed == before.unattributed
    moved = _by_path(now)[paths[0]]
    assert moved is not None and moved.anon == {0: 9 * MIB, 1: 9 * MIB}


def test_a_cpuset_that_stays_is_the_same_value_and_one_that_moves_is_not(tmp_path: Path) -> None:
    tree, paths = _tree(tmp_path)
    observer = Observer.of(Host.under(tmp_path))
    before = observer.observe()
    _move(tree, paths[0], "1")
    now = observer.observe()
    moved = {one.path for one in now.containers if now.allowed[one.id] is not before.allowed[one.id]}
    assert moved == {paths[0]}
    assert {str(one.nodes) for one in now.allowed.values()} == {"0", "1", "0-1", ""}


def test_rows_that_nobody_wants_change_nothing(tmp_path: Path) -> None:
    _, paths = _tree(tmp_path)
    observer = Observer.of(Host.under(tmp_path))
    before = _by_path(observer.observe())
    file = tmp_path / f"sys/fs/cgroup{paths[0]}/memory.numa_stat"
    text = file.read_text(encoding="ascii")
    changed = text.replace("active_anon N0=4096", "active_anon N0=8192")
    assert changed != text
    file.write_text(changed, encoding="ascii")
    assert _by_path(observer.observe())[paths[0]] is before[paths[0]]


@settings(max_examples=25)
@given(STEPS)
def test_any_tick_reads_what_an_agent_reads_that_has_just_begun(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree, paths = _tree(folder)
        host = Host.under(Path(folder))
        observer = Observer.of(host)
        observer.observe()
        for step, which, size in steps:
            path = paths[which]
            if path not in tree.containers():
                continue
            if step == "kill":
                tree.kill(path)
            elif step == "move":
                _move(tree, path, str(size))
            elif step == "start":
                tree.container(tree.pod("prod", f"app-{which}"), "more", incarnation=size)
            else:
                tree.hold(path, (size * MIB, 0 if step == "hold" else 4096))
            now, fresh = observer.observe(), Observer.of(host).observe()
            assert now.residency == fresh.residency
            assert now.unattributed == fresh.unattributed
            assert now.allowed == fresh.allowed
            assert now.containers == fresh.containers
