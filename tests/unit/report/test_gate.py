"""A gate passes or fails only on a whole interval; in between it is inconclusive."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from made_up.accesses import counted, expected, sampled, with_accesses
from numaudit.cli.main import call
from numaudit.cli.manager.assert_work import junit_xml
from numaudit.engine.observer import Observer
from numaudit.evaluation.access import Access
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.report.counters import MigratedReport
from numaudit.report.gates import GateCheck, GateLimits, judge_gate, worst_state
from numaudit.report.values import ContainerReport

EXPECTED = expected(0.0)


@pytest.fixture(scope="module")
def measured(captured: Callable[[str], Host]) -> ContainerReport:
    """A promised container of a captured host, all of whose bytes are in place."""
    report = build(Observer.of(captured("kubernetes-four-nodes")).observe())
    return next(one for one in report.containers if one.aligned_bytes and one.aligned_bytes == one.judged_bytes)


def state(container: ContainerReport, limits: GateLimits, doubt: str | None = None) -> tuple[str, str]:
    (check,) = judge_gate(container, limits, doubt)
    return check.state, check.evidence


@pytest.mark.parametrize(("ratio", "expected_state"), [(0.05, "passed"), (0.0501, "failed")])
def test_counted_accesses_decide(ratio: float, expected_state: str, measured: ContainerReport) -> None:
    found, evidence = state(with_accesses(measured, counted(ratio), EXPECTED), GateLimits(remote=0.05))
    assert found == expected_state
    assert evidence.startswith("pmu: 5.0") and evidence.endswith("% of the accesses were remote")


@pytest.mark.parametrize("limit", [0.0, 0.5, 1.0])
def test_pages_do_not_tell_how_often_they_are_used(limit: float, measured: ContainerReport) -> None:
    found, evidence = state(with_accesses(measured, sampled(remote=15, memory=16), EXPECTED), GateLimits(remote=limit))
    assert found == "inconclusive"
    assert evidence == (
        "the accesses were not counted; it needs a processor whose counters tell local from remote: "
        "see `numaudit doctor`"
    )


def test_an_inconclusive_gate_says_why_the_processor_did_not_count(measured: ContainerReport) -> None:
    uncounted = Access("pmu", "accesses", None, reason="it hardly ran")
    _, evidence = state(with_accesses(measured, uncounted), GateLimits(remote=0.5))
    assert evidence.startswith("the accesses were not counted (it hardly ran); it needs a processor")


def test_what_is_only_to_be_expected_judges_nothing(measured: ContainerReport) -> None:
    found, _ = state(with_accesses(measured, EXPECTED), GateLimits(remote=0.05))
    assert found == "inconclusive"
    assert state(with_accesses(measured), GateLimits(remote=0.05))[0] == "inconclusive"


def test_spilled_bytes_are_those_outside_the_promised_nodes(measured: ContainerReport) -> None:
    assert measured.judged_bytes is not None
    assert state(measured, GateLimits(spilled=0))[0] == "passed"
    spilled = replace(measured, aligned_bytes=measured.judged_bytes - 4096)
    assert state(spilled, GateLimits(spilled=0))[0] == "failed"
    assert state(spilled, GateLimits(spilled=4096))[0] == "passed"
    assert state(replace(measured, aligned_bytes=None), GateLimits(spilled=0))[0] == "inconclusive"
    assert state(replace(measured, judged_bytes=None), GateLimits(spilled=0))[0] == "inconclusive"


def test_migrations_that_were_not_all_counted_can_fail_but_not_pass(measured: ContainerReport) -> None:
    moved = replace(
        measured, migrated=(MigratedReport("numa_misplaced", 8192, 0), MigratedReport("compaction", 4096, 0))
    )
    assert state(moved, GateLimits(migrated=12288))[0] == "passed"
    assert state(moved, GateLimits(migrated=12287))[0] == "failed"
    assert state(moved, GateLimits(migrated=12288), "5 were not counted")[0] == "inconclusive"
    assert state(moved, GateLimits(migrated=4096), "5 were not counted")[0] == "failed"
    assert state(replace(measured, migrated=None), GateLimits(migrated=1))[0] == "inconclusive"


def test_a_failure_comes_before_what_is_inconclusive_and_nothing_is_no_pass() -> None:
    passed, failed, unclear = (GateCheck("a", "b", one, "c") for one in ("passed", "failed", "inconclusive"))
    assert worst_state((passed, unclear, failed)) == "failed"
    assert worst_state((passed, unclear)) == "inconclusive"
    assert worst_state((passed,)) == "passed"
    assert worst_state(()) == "inconclusive"


def test_the_junit_file_has_a_case_for_each_check_and_is_xml_whatever_a_container_is_called() -> None:
    checks = [
        GateCheck("pod/<a>&\x1b", "at most 5%", "failed", 'it is "6%"'),
        GateCheck("pod/b", "at most 5%", "inconclusive", "no samples"),
        GateCheck("pod/c", "at most 5%", "passed", "hint_faults"),
    ]
    (suite,) = ElementTree.fromstring(junit_xml(checks))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped"), suite.get("errors")) == (
        "3",
        "1",
        "1",
        "0",
    )
    assert [[part.tag for part in case] for case in suite] == [
        ["failure", "system-out"],
        ["skipped", "system-out"],
        ["system-out"],
    ]
    assert suite[0].get("classname") == "pod/<a>&\\x1b"
    (suite,) = ElementTree.fromstring(junit_xml((), "the command ended with status 3"))
    assert (suite.get("errors"), suite[0][0].get("message")) == ("1", "the command ended with status 3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-remote", "5%"], "either a container to measure, or a command"),
        (["--max-remote", "5%", "pod", "--", "true"], "either a container to measure, or a command"),
        (["--max-remote", "5%", "--"], "either a container to measure, or a command"),
        (["pod"], "nothing to judge"),
        (["--max-remote", "5%", "--duration", "3s", "--", "true"], "--duration is for containers"),
        (["--max-remote", "500%", "pod"], "is not a share such as 5%"),
        (["--max-remote", "nan", "pod"], "is not a share such as 5%"),
        (["--max-spilled", "-1", "pod"], "is not a size"),
        (["--max-remote", "5%", "--junit", "/no/such/folder/x.xml", "pod"], "--junit /no/such/folder/x.xml"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_measured(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["assert", *arguments]) == 2
    assert said in capsys.readouterr().err
