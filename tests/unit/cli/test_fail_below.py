"""`report --fail-below`: the exit code for scripts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from numaudit.cli.main import call
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.report.gates import Shortfalls, shortfalls

Capture = pytest.CaptureFixture[str]
POD = "default/gu-two-numanode"
INIT = "ec1e8143aeaf997479388c72fd53049e"
"""UID of default/gu-init-numanode."""


@pytest.fixture
def half_astray(fixtures: Path, tmp_path: Path) -> Path:
    """A node on which every promised container is aligned but one, half of whose memory lies on node 0."""
    root = shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "host")
    uid = "d3e03ed6e8ea78355e1d1b3a6bdbf5f3"
    moved = 0
    for file in (root / "sys/fs/cgroup").glob(f"**/pod{uid}/*/memory.numa_stat"):
        text = file.read_text()
        anon = re.search(r"^anon N0=0 N1=(\d{8,}) N2=0 N3=0$", text, re.MULTILINE)
        if anon is not None and moved == 0:
            half = int(anon[1]) // 2
            file.write_text(text.replace(anon[0], f"anon N0={half} N1={half} N2=0 N3=0"))
            moved += 1
    assert moved == 1
    return root


def test_a_report_judges_by_the_limits_that_the_agent_is_given(
    half_astray: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    judged = []
    for limit in ("1", "99"):
        monkeypatch.setenv("NUMAUDIT_VERDICTS_SPILLED_PERCENT", limit)
        assert call(["report", "--root", str(half_astray), "-o", "json"]) == 0
        report = msgspec.json.decode(capsys.readouterr().out)
        judged.append({one["verdict"]["name"] for one in report["containers"] if one["verdict"]})
    assert "spilled" in judged[0]
    assert "spilled" not in judged[1]


def test_a_limit_that_is_no_limit_is_an_error_of_a_report_too(
    half_astray: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("NUMAUDIT_VERDICTS_SPILLED_PERCENT", "many")
    assert call(["report", "--root", str(half_astray)]) == 2
    assert "NUMAUDIT_VERDICTS_SPILLED_PERCENT" in capsys.readouterr().err


def test_a_container_below_the_ratio_is_named_and_ends_with_1(half_astray: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(half_astray), "--fail-below", "90%"]) == 1
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"numaudit: '{POD}/[ab]': 0\.50\d of its bytes are on nodes it was promised\n", err)
    assert re.search(rf"^{POD}/[ab] .* spilled  ", out, re.MULTILINE)


def test_a_container_above_the_ratio_is_fine(half_astray: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(half_astray), "--fail-below", "40%"]) == 0
    assert call(["report", "default/gu-init-numanode", "--root", str(half_astray), "--fail-below", "1"]) == 0
    assert call(["report", POD, "--root", str(half_astray)]) == 0
    assert capsys.readouterr().err == ""


def test_a_misaligned_container_fails_at_any_ratio_but_for_its_bytes(fixtures: Path, capsys: Capture) -> None:
    root = str(fixtures / "misaligned-node")
    assert call(["report", "--root", root, "--fail-below", "0.95"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("2 of 8 promised containers are misaligned")
    assert [line.split(": ")[1:3] for line in err.splitlines()] == [
        ["'default/gu-small-numanode/app'", "cpu-remote"],
        ["'default/gu-init-numanode/app'", "drifted"],
    ]
    assert call(["report", POD, "--root", root, "--fail-below", "1"]) == 0


def test_a_container_whose_verdict_is_not_known_does_not_pass(captured: Callable[[str], Host]) -> None:
    found = build(Observer.of(captured("kubernetes-four-nodes")).observe())
    assert shortfalls(found, 0.95) == Shortfalls()
    one, *others = found.containers
    assert one.verdict is not None and one.aligned_ratio == 1
    unknown = replace(one.verdict, name="unknown", reason="its allowed CPUs are unknown")
    changed = replace(found, containers=(replace(one, verdict=unknown), *others))
    below = shortfalls(changed, 0.95)
    assert (below.failed, below.unknown) == (False, 1)
    assert below.messages[0].endswith(": its allowed CPUs are unknown")
    with pytest.raises(Unavailable, match="a container cannot be compared"):
        below.require_an_answer()


def test_a_ratio_to_hold_where_no_promise_is_known_cannot_be_answered(fixtures: Path, capsys: Capture) -> None:
    assert call(["report", "--root", str(fixtures / "systemd-crio"), "--fail-below", "0.5"]) == 3
    out, err = capsys.readouterr()
    assert "\nCONTAINER " in out
    assert "numaudit: --fail-below: its promise is unknown: no kubelet" in err


def test_a_container_whose_bytes_are_not_known_does_not_pass(
    fixtures: Path, tmp_path: Path, half_astray: Path, capsys: Capture
) -> None:
    root = shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "unreadable")
    for tree in (root, half_astray):
        for file in (tree / "sys/fs/cgroup").glob(f"**/pod{INIT}/*/memory.numa_stat"):
            file.unlink()
    assert call(["report", "--root", str(root), "--fail-below", "0.5"]) == 3
    _, err = capsys.readouterr()
    assert "numaudit: 'default/gu-init-numanode/app': the nodes of its memory are not known" in err
    assert "numaudit: --fail-below: a container cannot be compared" in err
    assert call(["report", "--root", str(root), "--fail-below", "0.5", "default/gu-two-numanode"]) == 0
    assert call(["report", "--root", str(half_astray), "--fail-below", "0.9"]) == 1
    assert "the nodes of its memory are not known" in capsys.readouterr().err


def test_a_container_of_which_no_promise_is_known_does_not_pass(
    fixtures: Path, tmp_path: Path, capsys: Capture
) -> None:
    root = shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "no-promise")
    (root / "var/lib/kubelet/memory_manager_state").unlink()
    for file in (root / "numaudit").glob("podresources*"):
        file.unlink()
    assert call(["report", POD, "--root", str(root), "--fail-below", "0.5"]) == 3
    assert f"numaudit: '{POD}/a': what it was promised is not known" in capsys.readouterr().err
    for pod in ("bu-numanode", "be-numanode"):  # to which nothing is ever promised
        assert call(["report", pod, "--root", str(root), "--fail-below", "0.5"]) == 0
        assert capsys.readouterr().err == ""
