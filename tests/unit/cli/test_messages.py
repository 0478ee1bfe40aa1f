"""No name in a message steers the terminal that shows it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.cli.main import call
from numaudit.cli.messages import Messages
from processes.agent_process import PATIENCE

RED = "\x1b[31m"
CLEAR = "\x9b2J"


@pytest.fixture
def checkpoint(fixtures: Path, tmp_path: Path) -> Path:
    """A checkpoint of another machine with a wrong checksum, under a hostile name."""
    file = tmp_path / f"{RED}state\r{CLEAR}"
    file.write_bytes((fixtures / "memory-manager-state/groups-overlap/memory_manager_state").read_bytes()[:-5] + b"00}")
    return file


@pytest.mark.parametrize("verb", ["show", "verify", "diff"])
def test_the_name_of_a_checkpoint_reaches_stderr_escaped(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, verb: str
) -> None:
    call(["state", verb, str(checkpoint), *([str(checkpoint)] if verb == "diff" else [])])
    captured = capsys.readouterr()
    assert "\\x1b[31mstate" in captured.out + captured.err
    assert captured.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", f"{RED}no-such-container"],
        ["report", "--root", f"/none/{RED}{CLEAR}"],
        [f"{RED}verb"],
        ["report", f"--{RED}"],
        ["report", "--fail-below", RED],
        ["config", "show", "--set", f"{RED}=1"],
        ["config", "show", "--config", f"/none/{RED}"],
        ["capture", "--duration", "0", f"/none/{RED}.tar.xz"],
        ["state", "diff", f"/none/{RED}", "/none/b"],
    ],
)
def test_what_was_typed_comes_back_escaped(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert call(arguments) != 0
    err = capsys.readouterr().err
    assert "\\x1b" in err
    assert err.replace("\n", "").isprintable()


def test_a_mount_point_reaches_stderr_escaped(
    capsys: pytest.CaptureFixture[str], fixtures: Path, tmp_path: Path
) -> None:
    tree = shutil.copytree(fixtures / "huge-pages", tmp_path / "tree")
    mount = tree / "x\x1b[31m\x9b"
    mount.mkdir()
    (mount / "cgroup.controllers").write_text("pids\n")  # no memory
    (tree / "proc/mounts").write_text("cgroup2 /x\x1b[31m\x9b cgroup2 rw 0 0\n")
    assert call(["report", "--root", str(tree)]) == 3
    err = capsys.readouterr().err
    assert "\\x1b[31m\\x9b" in err
    assert err.replace("\n", "").isprintable()


def test_a_terminal_gets_escapes_too_but_may_be_steered_on_purpose(fixtures: Path) -> None:
    """click drops escapes only where they do no harm: in front of a pipe."""
    terminal, user = os.openpty()
    program = (
        "import sys; from numaudit.cli import main; "
        f"code = main.call(['report', '\\x1b[31mnone', '--root', {str(fixtures / 'huge-pages')!r}]); "
        "from numaudit.cli import messages; from numaudit.cli.observe import topology; "
        "topology.command.callback = lambda **_: messages.wait(0.01, 'x'); "
        "main.call(['topology']); sys.exit(code)"
    )
    with os.fdopen(terminal, "rb", buffering=0) as reader:
        with os.fdopen(user, "wb") as output:
            done = subprocess.run(
                [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=output, timeout=PATIENCE, check=False
            )
        shown = reader.read(65536)
    assert done.returncode == 2
    first, rest = shown.split(b"\r\n", 1)
    assert b"\\x1b[31mnone" in first
    assert b"\x1b" not in first
    assert rest.endswith(b"\r\x1b[K")


@given(st.text())
def test_any_message_is_harmless_and_keeps_its_lines(text: str) -> None:
    shown = io.StringIO()
    assert cast("TextIO", Messages(shown)).write(text) == len(text)
    assert shown.getvalue().replace("\n", "").isprintable()
    assert shown.getvalue().count("\n") == text.count("\n")
