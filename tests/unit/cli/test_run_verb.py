"""`numaudit run`: what it refuses before a command begins, with one exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaudit.cli.main import call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "true"], "Missing option '--memory'"),
        (["--memory", "1Gi"], "Missing argument 'COMMAND"),
        (["--memory", "much", "--", "true"], "'much' is not a size such as 512Mi"),
        (["--memory", "0", "--", "true"], "'0' is not a size"),
        (["--memory", "-1Gi", "--", "true"], "'-1Gi' is not a size"),
        (["--memory", "1Gi", "--cpus", "1.5", "--", "true"], "'1.5' is not a valid integer"),
        (["--memory", "1Gi", "--cpu", "1", "--", "true"], "--cpus"),
    ],
)
def test_a_wrong_command_line_is_125_as_every_failure_before_the_command(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["run", *arguments]) == 125
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("reservedMemory: &a [*a]\n", "a reference (*) to another value: write that out"),
        ("a: [\n", "not YAML"),
        ("[" * 30 + "]" * 30, "nested deeper than"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_named_and_nothing_is_started(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(content)
    files = ["--config", str(tmp_path / "run.yaml"), "--state-dir", str(tmp_path / "state")]
    assert call(["run", "--memory", "1Gi", "--beside-kubelet", *files, "--", "touch", str(tmp_path / "ran")]) == 125
    err = capsys.readouterr().err
    assert said in err and "run.yaml" in err
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "state").exists()


def test_options_end_with_the_command_and_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["run", "--help"]) == 0
    assert "125 if numaudit" in capsys.readouterr().out
