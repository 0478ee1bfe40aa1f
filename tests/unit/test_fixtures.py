"""The made-up hosts are what their generator writes, and nothing in a captured tree is left over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MADE_UP = ("eight-nodes", "memory-only-node", "huge-pages", "systemd-crio", "cgroup-v1")


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def written(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, "-B", fixtures / "make.py", target], check=True)
    return target


def test_the_generator_writes_every_made_up_host(written: Path) -> None:
    assert sorted(folder.name for folder in written.iterdir()) == sorted(MADE_UP)


@pytest.mark.parametrize("name", MADE_UP)
def test_a_made_up_host_is_what_the_generator_writes(fixtures: Path, written: Path, name: str) -> None:
    assert _tree(fixtures / name) == _tree(written / name)


def test_all_captured_trees_together_stay_small(fixtures: Path) -> None:
    assert sum(len(content) for content in _tree(fixtures).values()) < 6 << 20
