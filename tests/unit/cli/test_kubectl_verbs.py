"""Names of verbs that `kubectl numaudit` does not have."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numaudit.cli.cluster import plugin


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["repot"], "there is no verb 'repot'; did you mean report?"),
        (["-n", "prod", "xyz"], "there is no verb 'xyz'; `kubectl numaudit --help` lists the verbs"),
        (["state", "verfy"], "there is no verb 'verfy'; did you mean verify?"),
    ],
)
def test_a_verb_that_is_not_there_is_named_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert plugin.call(words) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that knows a context, and no more."""
    path = tmp_path / "kubectl"
    path.write_text("#!/bin/sh\necho '{}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


def test_a_pod_without_end_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert plugin.call(["fit", "-f", "/dev/zero"]) == 2
    assert "/dev/zero" in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe")
    assert plugin.call(["fit", "-f", str(tmp_path / "pipe")]) == 2
    assert "pipe" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "code"), [(4 << 20, 3), ((4 << 20) + 1, 2)])
def test_standard_input_has_a_limit(
    kubectl: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: int, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" " * size)))
    assert plugin.call(["fit", "-f", "-"]) == code
    assert ("more than 4194304 bytes" in capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize("words", [["report", "\udcff"], ["report", "--node", "\udcff"], ["report", "-n", "\udcff"]])
def test_a_name_that_is_no_text_is_refused(kubectl: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert plugin.call(words) == 2
    assert r"'\xff'" in capsys.readouterr().err


def test_without_a_temporary_folder_the_plugin_says_so(kubectl: Path) -> None:
    program = 'ulimit -f 0; exec "$@"'
    command = [sys.executable, "-c", "from numaudit.cli.cluster.plugin import run; run()", "headroom"]
    done = subprocess.run(["/bin/sh", "-c", program, "sh", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no temporary folder can be written; set TMPDIR" in done.stderr
