"""deploy/setup.sh and .ci/run do what they are asked and nothing when they do not understand it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from processes.agent_process import PATIENCE

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
        [checkout / command[0], *command[1:]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    called = checkout / "called"
    return done, called.read_text() if called.exists() else ""


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["run", "extra"], ["check", "guest"], ["lab", "6.1"], ["--help"], [""]]
)
def test_the_set_up_refuses_what_it_does_not_know_before_it_does_anything(checkout: Path, arguments: list[str]) -> None:
    done, called = _run(checkout, "deploy/setup.sh", *arguments)
    assert (done.returncode, done.stdout, called) == (2, "", "")
    assert done.stderr == "setup: usage: deploy/setup.sh [run|lab|check|test [PART]]\n"
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("part", ["--force", "vm", "unit", ""])
def test_the_set_up_names_the_parts_to_whoever_asks_for_another(checkout: Path, part: str) -> None:
    done, called = _run(checkout, "deploy/setup.sh", "test", part)
    assert (done.returncode, done.stdout, called) == (2, "", "")
    assert done.stderr.startswith(f"setup: no part '{part}' of the tests; the parts are attack bench browser ")


@pytest.fixture
def python(checkout: Path) -> Path:
    """The virtual environment's, which only writes down that it was called."""
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "python $*" >> "{checkout}/called"\n')
    python.chmod(0o755)
    (checkout / "pyproject.toml").touch()
    return python


@pytest.mark.usefixtures("python")
def test_who_runs_it_gets_packages_by_their_hashes_alone(checkout: Path) -> None:
    (checkout / "tools/dpkg-query").write_text("#!/bin/sh\necho install ok installed\n")
    done, called = _run(checkout, "deploy/setup.sh")
    assert done.returncode == 0, done.stderr
    packages, own = [line.split(" install ")[1] for line in called.splitlines()]
    assert "--require-hashes --only-binary=:all: -r deploy/image/requirements.txt" in packages
    assert own.endswith("--no-index --no-deps --no-build-isolation --editable .")


@pytest.mark.parametrize(("busy", "code"), [(0, 0), (2, 0), (2, 3)])
def test_the_set_up_waits_for_another_apt_and_says_so_once(checkout: Path, busy: int, code: int) -> None:
    """apt-get finds a lock taken so many times; `code` 3: then it fails for another reason."""
    lock = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
    for name, text in {
        "id": "echo 0",
        "apt-get": f"""
            echo "apt-get $*" >> "{checkout}/called"
            [ $(wc -l < "{checkout}/called") -gt {busy} ] || {{ echo '{lock}' >&2; exit 100; }}
            [ {code} = 0 ] || {{ echo 'E: Unable to locate package' >&2; exit 100; }}
        """,
        "dpkg-query": "exit 1",
        "sleep": "",
    }.items():
        (checkout / "tools" / name).write_text(f"#!/bin/sh\n{text}\n")
        (checkout / "tools" / name).chmod(0o755)
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/true")
    (checkout / "pyproject.toml").touch()
    done, called = _run(checkout, "deploy/setup.sh")
    asked = [line.split()[1] for line in called.splitlines()]
    assert done.returncode == code, done.stderr
    assert asked == ["update"] * busy + (["update", "install"] if code == 0 else ["update"])
    assert done.stderr.count("another program uses apt") == (busy > 0)
    assert ("E: Unable to locate package" in done.stderr) == (code == 3)
    assert "Could not get lock" not in done.stderr
