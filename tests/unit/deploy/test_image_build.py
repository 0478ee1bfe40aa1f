"""deploy/image/build.sh does nothing when it does not understand, or lacks a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agent_process import PATIENCE

BUILD = Path(__file__).parents[3] / "deploy/image/build.sh"


def _run(*arguments: str, commands: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(commands)}
    return subprocess.run(
        ["/bin/bash", BUILD, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The few that every machine has."""
    for name in ("dirname", "dpkg", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return tmp_path


@pytest.mark.parametrize("arguments", [["frobnicate"], ["amd64", "arm64"], ["--help"], [""]])
def test_it_refuses_what_it_does_not_understand(arguments: list[str], commands: Path) -> None:
    done = _run(*arguments, commands=commands)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: deploy/image/build.sh" in done.stderr


def test_it_names_the_command_that_is_missing_and_its_package(commands: Path) -> None:
    (commands / "mmdebstrap").symlink_to("/bin/true")
    done = _run(commands=commands)
    assert (done.returncode, done.stdout) == (3, "")
    assert "the command buildah is missing: install the package buildah" in done.stderr
