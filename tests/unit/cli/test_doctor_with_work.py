"""`numaudit doctor --selftest` and `--calibrate`: other verbs' work, in the doctor's answer."""

from __future__ import annotations

import json

import pytest

from documentation.schemas import validate
from numaudit.api.selftest_document import CheckState, SelfTestCheck
from numaudit.cli.main import call
from numaudit.pmu.calibration import Calibration, Figure, Fingerprint, PairSpeed
from numaudit.snapshot import Check
from numaudit.value import Timestamp

_WORKS = Check("residency", "ok", "memory.numa_stat shows bytes by node", None)
_LACKS = Check("access pmu", "missing", "no PMU", "use a machine with one")
_SPEED = Calibration(
    Fingerprint("made up", {0: {0: 10}}), 128 << 20, (PairSpeed(0, 0, Figure(81.0, 3, 0.01, True)),), Timestamp(1.0)
)


@pytest.fixture(autouse=True)
def _done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The work that was done, in its order."""
    done: list[str] = []
    monkeypatch.setattr("numaudit.doctor.checks.examine", lambda _: _did(done, "examine", (_WORKS,)))
    monkeypatch.setattr("numaudit.selftest.calibrate.calibrate", lambda *_: _did(done, "calibrate", _SPEED))
    monkeypatch.setattr("numaudit.cli.observe.calibrate.store", lambda *_: done.append("store"))
    return done


def _did(done: list[str], what: str, result: object) -> object:
    done.append(what)
    return result


def _tests_say(monkeypatch: pytest.MonkeyPatch, *states: CheckState) -> None:
    checks = tuple(SelfTestCheck(f"check-{number}", state, "", "") for number, state in enumerate(states))
    monkeypatch.setattr("numaudit.selftest.selftest.selftest", lambda _: checks)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("passed", "not tried"), 0),
        (("not tried",), 0),
        (("failed", "inconclusive"), 1),
        (("passed", "inconclusive"), 5),
    ],
)
def test_a_failed_or_inconclusive_self_test_decides_where_all_sources_work(
    states: tuple[CheckState, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _tests_say(monkeypatch, *states)
    assert call(["doctor", "--selftest"]) == code
    out = capsys.readouterr().out
    assert "self-test with known work" in out
    assert all(f"check-{number}" in out for number in range(len(states)))
    assert call(["doctor", "--selftest", "--require", "residency"]) == code


def test_a_source_that_does_not_work_decides_before_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numaudit.doctor.checks.examine", lambda _: (_WORKS, _LACKS))
    _tests_say(monkeypatch, "inconclusive")
    assert call(["doctor", "--selftest"]) == 1


def test_a_calibration_is_stored_before_the_doctor_looks_at_it(
    _done: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", "--calibrate"]) == 0
    assert _done == ["calibrate", "store", "examine"]
    out = capsys.readouterr().out
    assert "speed of this machine's memory" in out and "81" in out


def test_the_document_has_both_results_and_nothing_of_what_was_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _tests_say(monkeypatch, "passed")
    assert call(["doctor", "--selftest", "--calibrate", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate(found, "Doctor")
    assert [one["name"] for one in found["selfTest"]["checks"]] == ["check-0"]
    assert found["calibration"]["pairs"][0]["latencyNanoseconds"]["value"] == 81.0
    assert call(["doctor", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["selfTest"], found["calibration"]) == (None, None)


@pytest.mark.parametrize("option", ["--selftest", "--calibrate"])
def test_a_capture_cannot_be_worked_on(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["doctor", option, "--root", "/"]) == 2
    assert "work on a running host" in capsys.readouterr().err
