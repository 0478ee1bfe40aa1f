"""One fresh clone with which all journeys begin, and one journey for each test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.journey import Begun, Journey, commands, section
from screens.pages import TOP

MOST_COMMANDS = 6


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    clone = tmp_path_factory.mktemp("fresh") / "numaudit"
    own = ["-c", "user.name=journey", "-c", "user.email=journey@localhost"]

    def git(*words: str | Path) -> str:
        return subprocess.run(["git", *own, *words], capture_output=True, text=True, check=True).stdout.strip()

    # With what is not committed yet, if anything is.
    commit = git("-C", TOP, "stash", "create") or git("-C", TOP, "rev-parse", "HEAD")
    git("clone", "--quiet", "--shared", "--no-checkout", TOP, clone)
    git("-C", clone, "checkout", "--quiet", "--detach", commit)
    journey = Journey(clone, [])
    command = commands(section(journey.document("README.md"), "Start"))[0]
    printed = journey.run(command)
    return Begun(clone, command, journey.taken[0][1], printed)


@pytest.fixture
def journey(begun: Begun, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Journey]:
    path = f"{begun.clone}/.venv/bin:{os.environ['PATH']}"  # as the README says; the documents' commands have no folder
    found = Journey(begun.clone, [(begun.command, begun.seconds)], {"PATH": path})
    yield found
    with capsys.disabled():
        print(f"\n{request.node.name}: {len(found.taken)} commands, {sum(one for _, one in found.taken):.0f} s")
        for command, seconds in found.taken:
            print(f"  {seconds:6.1f} s  {command}")
    assert len(found.taken) <= MOST_COMMANDS
