"""The ladder of sources for accesses: each rung is tried, and says why it does not carry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from numaudit.doctor import sources as access
from numaudit.doctor.sources import LADDER, Ground, Rung, climb
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.probes.known_work import known_work
from numaudit.probes.reasons import Reason, Refusal
from numaudit.probes.session import Session

CapturedHost = Callable[[str], Host]


def _ground(host: Host) -> Ground:
    refusal = Refusal(Reason.NOT_LIVE, "a captured tree")
    return Ground(host, Session(refusal, refusal, refusal, refusal, refusal), under_load=True)


def test_what_is_measured_comes_before_what_is_only_expected() -> None:
    assert LADDER[-1].source == "expected"
    assert len({rung.source for rung in LADDER}) == len(LADDER)


def test_a_captured_tree_has_no_rung_and_says_so(captured: CapturedHost) -> None:
    checks = climb(_ground(captured("eight-nodes")))
    assert [check.name for check in checks] == [f"access {rung.source}" for rung in LADDER]
    assert {check.state for check in checks} == {"missing"}
    assert all("captured tree" in check.detail and check.hint for check in checks)


def test_a_rung_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Ground) -> str:
        raise OSError(24, "Too many open files")

    def is_absent(_: Ground) -> str:
        raise Unavailable("it counted nothing of a load of our own")

    rungs = (Rung("hint_faults", breaks), Rung("hint_faults", is_absent), Rung("expected", lambda _: "carries"))
    monkeypatch.setattr(access, "LADDER", rungs)
    checks = climb(_ground(Host()))
    assert [(check.state, check.detail) for check in checks] == [
        ("missing", "cannot read: Too many open files"),
        ("missing", "it counted nothing of a load of our own"),
        ("ok", "carries"),
    ]


def test_known_work_follows_its_orders_and_ends_with_its_block() -> None:
    with known_work(1 << 20, threads=2) as work:
        for word in ("touch", "rest", "refill", "touch"):
            work.order(word)
    assert work.process.returncode is not None


def test_known_work_that_is_killed_is_unavailable_and_says_how() -> None:
    with known_work(1 << 20, threads=1) as work:
        work.process.kill()
        work.process.wait()
        with pytest.raises(Unavailable, match="signal 9"):
            work.order("touch")
