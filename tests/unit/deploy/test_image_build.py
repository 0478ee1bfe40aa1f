"""deploy/image/build.sh does nothing when it does not understand, or lacks a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from processes.agent_process import PATIENCE

BUILD = Path(__file__).parents[3] / "deploy/image/build.sh"
SNAPSHOT = BUILD.with_name("snapshot.sh")


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


def _sources(tmp_path: Path, moment: str) -> tuple[int, str]:
    """Exit code, and apt's sources afterwards."""
    etc = tmp_path / "apt"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list.d/debian.sources").write_text("newest\n")
    done = subprocess.run(["/bin/sh", SNAPSHOT, moment, etc], capture_output=True, text=True, check=False)
    return done.returncode, "".join(one.read_text() for one in sorted(etc.rglob("*")) if one.is_file())


def test_a_snapshot_replaces_all_sources_by_those_of_one_moment(tmp_path: Path) -> None:
    code, sources = _sources(tmp_path, "20261101T120000Z")
    assert code == 0
    assert sources.splitlines() == [
        f"deb [check-valid-until=no] http://snapshot.debian.org/archive/{archive}/20261101T120000Z {suite} main"
        for archive, suite in (
            ("debian", "bookworm"),
            ("debian", "bookworm-updates"),
            ("debian-security", "bookworm-security"),
        )
    ]


@pytest.mark.parametrize(("moment", "code"), [("", 0), ("2026-11-01", 2), ("20261101T120000Z main", 2)])
def test_without_a_moment_the_sources_stay(tmp_path: Path, moment: str, code: int) -> None:
    assert _sources(tmp_path, moment) == (code, "newest\n")
