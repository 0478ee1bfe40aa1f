"""`numaudit report`: which rows it shows, what it says on standard error, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numaudit.cli.main import call

Capture = pytest.CaptureFixture[str]


def _run(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert call(["report", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def _document(capsys: Capture, *arguments: object, code: int = 0) -> dict[str, Any]:
    found = json.loads(_run(capsys, *arguments, "-o", "json", code=code)[0])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def node(fixtures: Path) -> tuple[str, str]:
    return ("--root", str(fixtures / "kubernetes-four-nodes"))


# The worst rows


def test_the_top_rows_are_the_first_ones_and_the_rest_is_counted(capsys: Capture, node: tuple[str, str]) -> None:
    everything = _document(capsys, *node)
    out, err = _run(capsys, *node, "--top", 3, "-o", "json")
    top = json.loads(out)
    assert top["containers"] == everything["containers"][:3]
    more = len(everything["containers"])
    assert err == f"numaudit: --top 3 leaves out {more - 3} of {more} containers\n"
    shown = {one["id"] for one in top["containers"]}
    assert {one["container_id"] for one in top["findings"]} <= {*shown, None}
    out, err = _run(capsys, *node, "--top", 3, "-o", "wide")
    assert out.split("\n\n")[0].splitlines()[-1].startswith(f"left out: {more - 3} other containers")
    assert len(out.split("\n\n")[0].splitlines()) == 5
    assert err == ""


def test_more_top_rows_than_there_are_leave_out_nothing(capsys: Capture, node: tuple[str, str]) -> None:
    assert _run(capsys, *node, "--top", 9999, "-o", "wide")[0].count("left out") == 0


def test_a_threshold_is_for_all_rows_whatever_is_shown(capsys: Capture, node: tuple[str, str]) -> None:
    codes = [call(["report", *node, "--fail-below", "1", *top]) for top in ([], ["--top", "1"])]
    messages = capsys.readouterr().err
    assert codes == [codes[0]] * 2
    half = len(messages) // 2
    assert messages[:half] == messages[half:]
