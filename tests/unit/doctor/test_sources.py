"""The sources for accesses: each is tried, and says why it does not work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from numaudit.doctor import sources
from numaudit.doctor.sources import SOURCE_CHECKS, SourceCheck, Trial, check_sources
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.probes.counters.reference_workload import reference_workload
from numaudit.probes.kinds import KINDS
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session

CapturedHost = Callable[[str], Host]


def _trial(host: Host) -> Trial:
    refusal = ProbeRefusal(Reason.NOT_LIVE, "a captured tree")
    return Trial(host, Session.refused(KINDS, refusal), under_load=True)


def test_what_is_measured_comes_before_what_is_only_expected() -> None:
    assert SOURCE_CHECKS[-1].source == "expected"
    assert len({one.source for one in SOURCE_CHECKS}) == len(SOURCE_CHECKS)


def test_a_captured_tree_has_no_source_and_says_so(captured: CapturedHost) -> None:
    checks = check_sources(_trial(captured("eight-nodes")))
    assert [check.name for check in checks] == [f"access {one.source}" for one in SOURCE_CHECKS]
    assert {check.state for check in checks} == {"n/a"}
    assert all("captured tree" in check.detail and check.hint for check in checks)


def test_a_source_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Trial) -> str:
        raise OSError(24, "Too many open files")

    def is_absent(_: Trial) -> str:
        raise Unavailable("it counted nothing of a test load")

    made_up = (
        SourceCheck("hint_faults", breaks),
        SourceCheck("hint_faults", is_absent),
        SourceCheck("expected", lambda _: "works"),
    )
    monkeypatch.setattr(sources, "SOURCE_CHECKS", made_up)
    checks = check_sources(_trial(Host()))
    assert [(check.state, check.detail) for check in checks] == [
        ("missing", "cannot read: Too many open files; raise the limit (LimitNOFILE of the service, or ulimit -n)"),
        ("missing", "it counted nothing of a test load"),
        ("ok", "works"),
    ]


def test_known_work_follows_its_orders_and_ends_with_its_block() -> None:
    with reference_workload(1 << 20, threads=2) as work:
        for word in ("touch", "rest", "refill", "touch"):
            work.order(word)
    assert work.process.returncode is not None


def test_known_work_that_is_killed_is_unavailable_and_says_how() -> None:
    with reference_workload(1 << 20, threads=1) as work:
        work.process.kill()
        work.process.wait()
        with pytest.raises(Unavailable, match="signal 9"):
            work.order("touch")
