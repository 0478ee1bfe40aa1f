"""A copy of a captured host is what its source is, whatever a test did to it before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hosts import tree_copies
from hosts.tree_copies import lent


def _tree(folder: Path) -> dict[str, tuple[int, str | bytes | None]]:
    """Path -> mode, and a link's target or a file's content."""
    found: dict[str, tuple[int, str | bytes | None]] = {}
    for path in (folder, *folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = path.lstat().st_mode, content
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "folder/inner").mkdir(parents=True)
    (source / "file").write_text("one")
    (source / "folder/inner/file").write_text("two")
    (source / "link").symlink_to("file")
    return source


def _link_elsewhere(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").symlink_to("fil2")


def _replace_by_a_pipe(tree: Path) -> None:
    (tree / "file").unlink()
    os.mkfifo(tree / "file")


def _turn_round(tree: Path) -> None:
    """A file where a folder was, and a folder where a link was."""
    shutil.rmtree(tree / "folder")
    (tree / "folder").write_text("")
    (tree / "link").unlink()
    (tree / "link/more").mkdir(parents=True)


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "as many bytes": lambda tree: (tree / "file").write_text("eno"),
    "fewer bytes": lambda tree: (tree / "folder/inner/file").write_text(""),
    "a mode": lambda tree: (tree / "file").chmod(0),
    "a folder's mode": lambda tree: (tree / "folder").chmod(0),
    "the tree's mode": lambda tree: tree.chmod(0o700),
    "a file that is gone": lambda tree: (tree / "file").unlink(),
    "a folder that is gone": lambda tree: shutil.rmtree(tree / "folder"),
    "one more file": lambda tree: (tree / "folder/more").write_text(""),
    "one more folder": lambda tree: (tree / "folder/more/inner").mkdir(parents=True),
    "another target": _link_elsewhere,
    "a name": lambda tree: (tree / "folder").rename(tree / "renamed"),
    "a pipe": _replace_by_a_pipe,
    "kinds": _turn_round,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_copy_is_put_right_after_any_change(source: Path, change: Callable[[Path], object]) -> None:
    whole = _tree(source)
    with lent(source) as copy:
        assert _tree(copy) == whole
        change(copy)
        changed = copy
    with lent(source) as copy:
        assert copy == changed
        assert _tree(copy) == whole
    assert _tree(source) == whole


def test_two_copies_at_the_same_time_are_two(source: Path) -> None:
    with lent(source) as one, lent(source) as other:
        (one / "file").write_text("changed")
        assert (other / "file").read_text() == "one"


def test_copies_are_gone_when_their_process_has_ended(source: Path) -> None:
    program = "import pathlib, sys, tree_copies\nwith tree_copies.lent(pathlib.Path(sys.argv[1])) as copy: print(copy)"
    environment = {**os.environ, "PYTHONPATH": str(Path(tree_copies.__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", program, source], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert not Path(done.stdout.strip()).parent.exists()
