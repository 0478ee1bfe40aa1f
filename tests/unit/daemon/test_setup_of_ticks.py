"""What becomes of `numaudit setup` in an agent's ticks: judged now and then, findings, series, and parts of reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from numaudit.api.selection import narrow
from numaudit.engine.collectors import of_host
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import SETUP_AGAIN, judge
from numaudit.evaluation.findings import find
from numaudit.evaluation.setup import SetupResult
from numaudit.exporters.catalogue.own_values import setup_problems
from numaudit.exporters.facts import ExportedTick
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.snapshot.host_settings import HostSettings


@pytest.fixture(scope="module")
def tick(fixtures: Path) -> Ticked:
    return Engine(Observer.of(Host.under(fixtures / "kubernetes-cluster"))).tick()


def in_state(state: str, id_: str = "panic-oom") -> SetupResult:
    return SetupResult(id_, "kernel", state, ("it is so",), "why.", "do.", "https://x", None)  # type: ignore[arg-type]


def test_only_errors_and_memory_that_nothing_covers_are_findings(tick: Ticked) -> None:
    rules = ("error", "warning", "info", "accepted", "not-judged", "pass")
    judged = replace(tick.judgements, setup=tuple(in_state(state, f"of-{state}") for state in rules))
    found = [one for one in find(tick.snapshot, judged) if one.name in ("setup-error", "reserved-uncovered")]
    assert [(one.name, one.severity, one.message, one.remedy) for one in found] == [
        ("setup-error", "critical", "of-error: it is so", "do.")
    ]
    (uncovered,) = (one for one in find(tick.snapshot, tick.judgements) if one.name == "reserved-uncovered")
    assert uncovered.message.startswith("node 2: ")


def test_errors_and_warnings_are_series_and_nothing_else_is(tick: Ticked) -> None:
    rules = tuple(in_state(state, f"of-{state}") for state in ("error", "warning", "info", "accepted"))
    report = replace(tick.report, setup=rules)
    values = dict(setup_problems(ExportedTick(report, "0", "3", 1.0)))
    assert values == {("of-error", "error"): 1, ("of-warning", "warning"): 1}


def test_a_report_has_the_rules_that_do_not_hold_and_one_of_a_single_pod_has_none(tick: Ticked) -> None:
    assert {one.state for one in tick.report.setup} == {"warning", "info"}
    assert narrow(tick.report, "work/g-huge").setup == ()
    assert build(tick.snapshot, replace(tick.judgements, setup=(in_state("accepted"),))).setup != ()


@pytest.mark.parametrize(("seconds", "again"), [(SETUP_AGAIN - 1, False), (SETUP_AGAIN, True), (-SETUP_AGAIN, True)])
def test_setup_is_judged_again_after_five_minutes_also_of_a_clock_that_was_set(
    tick: Ticked, seconds: float, again: bool
) -> None:
    later = replace(tick.snapshot, taken_at=tick.snapshot.taken_at + seconds)
    accepted = {"reserved-uncovered": "by design"}
    found = judge(later, tick.snapshot, tick.judgements, accepted=accepted)
    states = {one.id: one.state for one in found.setup}
    assert states["reserved-uncovered"] == ("accepted" if again else "warning")
    assert found.setup_at == (later.taken_at if again else tick.judgements.setup_at)


def test_settings_are_read_again_after_an_hour(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, reads = [1000.0], []

    def read(host: Host) -> HostSettings:
        reads.append(host)
        return HostSettings()

    monkeypatch.setattr(of_host, "read_host_settings", read)
    monkeypatch.setattr("numaudit.engine.collectors.of_host.time.monotonic", lambda: now[0])
    engine = Engine(Observer.of(Host.under(fixtures / "eight-nodes")))
    for second, times in ((0.0, 1), (of_host.SETTINGS_AGAIN - 1, 1), (of_host.SETTINGS_AGAIN, 2)):
        now[0] = 1000.0 + second
        assert engine.tick().snapshot.settings == HostSettings()
        assert len(reads) == times
