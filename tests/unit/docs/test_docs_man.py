"""The manual pages that a build makes are what man(1) shows without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from command_tree import described_options, examples
from manual_pages import PAGES, PLUGIN, write

pytestmark = pytest.mark.skipif(shutil.which("man") is None, reason="needs man-db")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share") / "man1"
    write(folder)
    return folder


def test_man_shows_each_page_without_a_warning(folder: Path) -> None:
    assert {file.stem for file in folder.iterdir()} == {*PAGES, PLUGIN}
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", *sorted(folder.iterdir())],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_shows_every_option_as_it_is_typed(folder: Path) -> None:
    shown = subprocess.run(
        ["man", "-E", "UTF-8", "-l", folder / "numaudit-report.1"],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "GROFF_NO_SGR": "1"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    shown = re.sub(".\b", "", shown)
    path, command = PAGES["numaudit-report"]
    for flags, _ in described_options(path, command):
        assert flags in shown
    for example in examples(command):
        assert example in shown
