"""deploy/setup.sh and .ci/run do what they are asked and nothing when they do not understand it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
TOOLS = ("apt-get", "dpkg-query", "make")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The scripts alone, with tools beside them that only write down that they were called."""
    for name in ("deploy/setup.sh", ".ci/run"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(TOP / name, tmp_path / name)
    for name in TOOLS:
        tool = tmp_path / "tools" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/called"\nexit 1\n')
        tool.chmod(0o755)
    return tmp_path


def _run(checkout: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """The finished script, and which tools it called."""
    environment = {**os.environ, "PATH": f"{checkout / 'tools'}:/usr/bin:/bin"}
    done = subprocess.run(
        [checkout / command[0], *command[1:]], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    called = checkout / "called"
    return done, called.read_text() if called.exists() else ""


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["run", "extra"], ["test", "--force"], ["lab", "6.1"], ["--help"], [""]]
)
def test_the_set_up_refuses_what_it_does_not_know_before_it_does_anything(checkout: Path, arguments: list[str]) -> None:
    done, called = _run(checkout, "deploy/setup.sh", *arguments)
    assert (done.returncode, done.stdout, called) == (2, "", "")
    assert done.stderr == "setup: usage: deploy/setup.sh [run|lab|test]\n"
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("arguments", [["test"], ["--fast"], [""]])
def test_the_ci_script_refuses_every_argument_before_it_does_anything(checkout: Path, arguments: list[str]) -> None:
    done, called = _run(checkout, ".ci/run", *arguments)
    assert (done.returncode, done.stdout, called) == (2, "", "")
    assert done.stderr == "usage: .ci/run (it takes no arguments)\n"


def test_without_arguments_both_scripts_go_to_work(checkout: Path) -> None:
    assert "dpkg-query" in _run(checkout, "deploy/setup.sh")[1]
    assert "make test" in _run(checkout, ".ci/run")[1]
