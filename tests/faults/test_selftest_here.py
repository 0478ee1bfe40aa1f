"""The self-test on this host: what it can still check on one node, what makes it fail, and that it leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.cgroup_writer import own_tree
from numaudit.kernel.host import Host
from numaudit.probes.page_alloc import Allocations
from numaudit.probes.reasons import Reason, Refusal
from numaudit.probes.session import Session
from numaudit.workloads.selftest import CHECKS, selftest

pytestmark = pytest.mark.root


@pytest.fixture
def unified() -> Iterator[Path]:
    found = find_hierarchies(Host()).unified
    if found is None:
        pytest.skip("cgroup version 2 is not mounted")
    before = _groups(found)
    yield found
    assert _groups(found) == before


def _groups(unified: Path) -> set[Path]:
    return {path for path in unified.rglob("numaudit-*") if path.is_dir()}


def test_the_self_test_passes_what_it_can_try_and_says_why_it_cannot_try_the_rest(
    unified: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["selftest", "-o", "json"]) == 0
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert list(checks) == list(CHECKS)
    assert {checks[name]["state"] for name in ("page_alloc", "cpu_time", "first_touch")} == {"passed"}
    assert all(one["seen"] for one in checks.values())


def test_bytes_that_a_probe_does_not_see_fail_the_self_test(
    unified: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "read", lambda _, __: Allocations())
    assert call(["selftest"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("page_alloc")]
    assert "failed" in line and "near: nothing; far: nothing" in line


def test_a_host_where_nothing_can_be_tried_exits_with_3(
    unified: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Session, __: object) -> Allocations:
        raise Refusal(Reason.NO_BCC, "no bcc here")

    monkeypatch.setattr("numaudit.workloads.selftest.CHECKS", {"page_alloc": CHECKS["page_alloc"]})
    monkeypatch.setattr(Session, "read", refuse)
    assert call(["selftest"]) == 3
    out, err = capsys.readouterr()
    assert "no bcc here" in out
    assert "nothing could be tried" in err


def test_its_cgroups_are_removed_when_a_check_breaks(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("numaudit.workloads.selftest.CHECKS", {"broken": breaks})
    with pytest.raises(KeyError):
        selftest(Host())


def test_a_cgroup_that_the_kernel_does_not_give_is_unavailable_with_the_reason(unified: Path) -> None:
    with own_tree(unified, "numaudit-twice") as tree:
        assert tree.add("leaf").id == (unified / "numaudit-twice/leaf").stat().st_ino
        with (
            pytest.raises(Unavailable, match=r"cannot make .*numaudit-twice: File exists"),
            own_tree(unified, "numaudit-twice"),
        ):
            pass
        with pytest.raises(Unavailable, match=r"cannot write '0' to .*/cpuset\.none"):
            tree.add("other", cpuset_none="0")
