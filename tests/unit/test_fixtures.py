"""Fixtures are packed and written the same everywhere, and unpacked whole."""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fixture_trees
from processes.agent_process import PATIENCE

SOURCE = Path(__file__).parents[1] / "fixtures"
PACKED = sorted(path.name.removesuffix(".tar.xz") for path in SOURCE.glob("*.tar.xz"))


def _tree(folder: Path) -> dict[str, bytes | str | None]:
    """Path -> a file's content, a link's target, or None for a folder."""
    found: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def _unpack_in_processes(cache: Path, count: int, hash_seed: str = "random") -> list[Path]:
    program = "import pathlib, sys, fixture_trees; print(fixture_trees.unpack(pathlib.Path(sys.argv[1])))"
    path = os.pathsep.join([str(SOURCE.parent / "support"), *sys.path])
    started = [
        subprocess.Popen(
            [sys.executable, "-B", "-c", program, cache],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(count)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in started]
    assert [process.returncode for process in started] == [0] * count
    return [Path(output.strip()) for output in outputs]


@pytest.mark.parametrize("name", PACKED)
def test_a_tree_that_is_packed_again_gives_the_same_archive(fixtures: Path, name: str) -> None:
    again = io.BytesIO()
    fixture_trees.write_tar(fixtures / name, again)
    assert again.getvalue() == lzma.decompress((SOURCE / f"{name}.tar.xz").read_bytes()), (
        f"tests/fixtures/{name}.tar.xz was not packed by fixture_trees.py, or a test wrote to its unpacked tree"
    )


def test_made_up_hosts_are_the_same_in_every_process(fixtures: Path, tmp_path: Path) -> None:
    (written,) = _unpack_in_processes(tmp_path, 1, hash_seed="7")
    assert written.name == fixtures.name
    assert _tree(written) == _tree(fixtures)


def test_the_misaligned_node_is_the_captured_one_but_for_the_cpusets_of_two_containers(fixtures: Path) -> None:
    captured, changed = _tree(fixtures / "kubernetes-four-nodes"), _tree(fixtures / "misaligned-node")
    different = [Path(path).name for path in captured | changed if captured.get(path) != changed.get(path)]
    cpusets = ["cpuset.cpus", "cpuset.cpus.effective", "cpuset.mems", "cpuset.mems.effective"]
    assert sorted(different) == [*cpusets, "status", "status"]


def test_processes_that_unpack_at_the_same_time_get_one_whole_folder(fixtures: Path, tmp_path: Path) -> None:
    folders = _unpack_in_processes(tmp_path, 2)
    assert set(folders) == {tmp_path / fixtures.name}
    assert list(tmp_path.iterdir()) == [tmp_path / fixtures.name]
    assert _tree(folders[0]) == _tree(fixtures)


def test_links_empty_folders_and_odd_names_are_packed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree = tmp_path / "odd"
    (tree / "empty").mkdir(parents=True)
    (tree / "a name with é").write_text("1")
    (tree / "vs\\x2dcode.service").write_text("2")
    (tree / os.fsdecode(b"no-utf8-\xff")).write_text("3")
    (tree / "link").symlink_to("a name with é")
    source = tmp_path / "fixtures"
    source.mkdir()
    fixture_trees.pack(tree, source / "odd.tar.xz")
    monkeypatch.setattr(fixture_trees, "_SOURCE", source)
    monkeypatch.setattr(fixture_trees, "_digest", lambda: "unpacked")
    assert _tree(fixture_trees.unpack(tmp_path / "cache") / "odd") == _tree(tree)


def test_everything_checked_in_stays_small() -> None:
    sizes = [path.stat().st_size for path in SOURCE.rglob("*") if path.is_file()]
    assert len(sizes) < 60
    assert sum(sizes) < 1 << 20
