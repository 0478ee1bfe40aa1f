"""Which cgroups there are: every group, its id, and what comes and goes between two walks."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import Unavailable
from numaudit.kernel import cgroup_tree, files
from numaudit.kernel.cgroup import Cgroup, escape, find_hierarchies
from numaudit.kernel.cgroup_tree import CgroupTree, read_inodes
from numaudit.kernel.host import Host

CapturedHost = Callable[[str], Host]


def _groups(host: Host) -> list[Cgroup]:
    return CgroupTree(find_hierarchies(host).memory, read_inodes(host)).groups()


@pytest.fixture
def v2(tmp_path: Path) -> Host:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return Host(tmp_path)


def test_the_walk_takes_ids_from_the_captured_list_because_a_copy_has_other_inodes(captured: CapturedHost) -> None:
    host = captured("kubernetes-four-nodes")
    lines = (host.root / "cgroup-inodes.txt").read_text().splitlines()
    listed = {line.partition(" /sys/fs/cgroup")[2] or "/": int(line.split()[0]) for line in lines}
    assert {group.path: group.id for group in _groups(host)} == listed


def test_on_a_live_host_the_id_is_the_inode(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert [(group.path, group.id) for group in CgroupTree(tmp_path).groups()] == [
        ("/", tmp_path.stat().st_ino),
        ("/a", (tmp_path / "a").stat().st_ino),
        ("/a/b", (tmp_path / "a/b").stat().st_ino),
    ]


def test_parents_come_before_their_children_and_siblings_by_name(captured: CapturedHost) -> None:
    paths = [group.path for group in _groups(captured("systemd-crio"))]
    assert paths[0] == "/"
    assert all(paths.index(path.rpartition("/")[0] or "/") < index for index, path in enumerate(paths) if index)
    top = [path for path in paths[1:] if path.count("/") == 1]
    assert top == sorted(top)


def test_a_group_with_any_name_is_found_with_its_id(v2: Host) -> None:
    names = ["with space", "line\nend", "tab\t", "back\\slash", "\\040", "ümläut", "\udcff broken"]
    lines = []
    for number, name in enumerate(names, 10):
        (v2.root / "sys/fs/cgroup" / name).mkdir()
        lines.append(f"{number} /sys/fs/cgroup/{escape(name)}")
    v2.cgroup_inodes.write_text("\n".join(lines), errors="surrogateescape")
    found = {group.path: group.id for group in _groups(v2)}
    assert [found[f"/{name}"] for name in names] == list(range(10, 10 + len(names)))


def test_a_list_of_ids_with_broken_lines_keeps_the_others(v2: Host) -> None:
    v2.cgroup_inodes.write_text("7 /sys/fs/cgroup/a\nx /sys\n8\n\n" + "9" * 30 + " /b\n٣ /c\n")
    assert read_inodes(v2) == {str(v2.root / "sys/fs/cgroup/a"): 7}


def test_a_group_that_vanishes_during_the_walk_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gone/inner", "stays"):
        (tmp_path / name).mkdir(parents=True)
    children = cgroup_tree._children

    def vanish(folder: str, links: int, known: list[str] | None) -> list[tuple[str, os.stat_result]]:
        if folder.endswith("/gone") and (tmp_path / "gone").exists():
            (tmp_path / "gone/inner").rmdir()
            (tmp_path / "gone").rmdir()
        return children(folder, links, known)

    monkeypatch.setattr(cgroup_tree, "_children", vanish)
    tree = CgroupTree(tmp_path)
    assert [group.path for group in tree.groups()] == ["/", "/gone", "/stays"]
    assert [group.path for group in tree.groups()] == ["/", "/stays"]


@st.composite
def _histories(draw: st.DrawFn) -> list[frozenset[str]]:
    """The leaf folders of a tree at several moments."""
    names = st.sampled_from("abc")
    leaf = st.lists(names, min_size=1, max_size=3).map("/".join)
    return draw(st.lists(st.frozensets(leaf, max_size=5), min_size=2, max_size=4))


@given(_histories())
def test_any_change_between_two_walks_is_seen(history: list[frozenset[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        tree = CgroupTree(root)
        for leaves in history:
            wanted = {str(path) for leaf in leaves for path in (Path(leaf), *Path(leaf).parents)} - {"."}
            for gone in sorted(root.rglob("*"), reverse=True):
                if str(gone.relative_to(root)) not in wanted:
                    gone.rmdir()
            for leaf in leaves:
                (root / leaf).mkdir(parents=True, exist_ok=True)
            found = tree.groups()
            assert found == CgroupTree(root).groups()
            assert {group.path[1:] for group in found} == {"", *wanted}
            assert tree.groups() is found


def test_a_group_that_ended_and_came_again_between_two_walks_is_another(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    (tmp_path / "a").mkdir()
    before = tree.groups()
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").rmdir()
    after = tree.groups()
    assert [group.path for group in after] == [group.path for group in before]
    assert after[1].id != before[1].id


def test_a_second_walk_lists_only_folders_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "a/y", "b/x"):
        (tmp_path / name).mkdir(parents=True)
    tree = CgroupTree(tmp_path)
    first = tree.groups()
    listed: list[str] = []
    folders = files.folders

    def counted(folder: str) -> list[tuple[str, os.stat_result]]:
        listed.append(folder.removeprefix(str(tmp_path)))
        return folders(folder)

    monkeypatch.setattr(files, "folders", counted)
    assert tree.groups() is first
    assert listed == []
    (tmp_path / "a/y").rename(tmp_path / "a/z")
    assert [group.path for group in tree.groups()] == ["/", "/a", "/b", "/b/x", "/a/x", "/a/z"]
    assert listed == ["/a"]


def test_a_walk_that_broke_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what it had seen by then would pass for all there is."""
    (tmp_path / "a/x").mkdir(parents=True)
    tree = CgroupTree(tmp_path)
    folders = files.folders

    def too_many(folder: str) -> list[tuple[str, os.stat_result]]:
        if folder.endswith("/a"):
            raise OSError(errno.EMFILE, "Too many open files")
        return folders(folder)

    monkeypatch.setattr(files, "folders", too_many)
    with pytest.raises(OSError, match="Too many open files"):
        tree.groups()
    monkeypatch.undo()
    assert [group.path for group in tree.groups()] == ["/", "/a", "/a/x"]


def test_a_hierarchy_that_is_not_there_cannot_answer(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path / "later")
    with pytest.raises(Unavailable, match="is the cgroup file system mounted"):
        tree.groups()
    (tmp_path / "later/a").mkdir(parents=True)
    assert [group.path for group in tree.groups()] == ["/", "/a"]
