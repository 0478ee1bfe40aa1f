"""`numaudit doctor --selftest` and `--calibrate`: what is printed, what is stored, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numaudit.api.document import CheckState, SelfTestCheck
from numaudit.cli.main import call
from numaudit.encoding.value import Timestamp
from numaudit.engine.collectors.probes.calibration import read_calibration
from numaudit.errors import Absent, Unavailable
from numaudit.kernel.host import Host
from numaudit.pmu.calibration import Calibration, Figure, Fingerprint, PairSpeed, PlacementEvidence
from numaudit.topology.machine import Machine, Node

_GOOD = Figure(81.25, 3, 0.01, True)
_WAVERING = Figure(140.0, 25, 0.2, False)
_SPEED = Figure(2.05e11, 4, 0.01, True)
_THERE = PlacementEvidence({0: 512}, 0, (0,), 2 << 20)
_DISTANCES = {0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}}
FOUND = Calibration(
    Fingerprint("GenuineIntel family 0x6 model 0x8f stepping 8", _DISTANCES),
    128 << 20,
    (
        PairSpeed(0, 0, _GOOD, _SPEED, _THERE),
        PairSpeed(0, 1, _WAVERING, _SPEED, _THERE),
        PairSpeed(1, 0, reason="this process may run on CPUs 0-3 only"),
        PairSpeed(1, 1, _GOOD, _SPEED, _THERE),
    ),
    Timestamp(1.0),
    ("1 of 6 figures did not repeat: the machine is busy; calibrate when it is idle",),
)
_MACHINE = Machine(tuple(Node(node, distances=row) for node, row in _DISTANCES.items()))


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numaudit.doctor.calibrate.calibrate", lambda *_: FOUND)


def _host(folder: Path, cpu: str = "6 143") -> Host:
    family, model = cpu.split()
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "proc/cpuinfo").write_text(
        f"processor : 0\nvendor_id : GenuineIntel\ncpu family : {family}\nmodel : {model}\nstepping : 8\n"
    )
    return Host(folder)


def _store(folder: Path) -> Host:
    host = _host(folder)
    host.calibration.parent.mkdir(parents=True)
    assert call(["doctor", "--calibrate", "--store", str(host.calibration)]) == 0
    return host


def test_the_table_marks_what_did_not_repeat_and_says_what_was_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", "--calibrate", "--store", str(tmp_path / "figures.json")]) == 0
    out = capsys.readouterr().out
    assert "81.2  ~140.0" in out
    assert "205.0" in out
    assert "not measured: CPUs of node 1, memory of node 0: this process may run on CPUs 0-3 only" in out
    assert "note: 1 of 6 figures did not repeat" in out


def test_what_was_stored_is_read_back_whole(tmp_path: Path) -> None:
    host = _store(tmp_path)
    assert read_calibration(host, _MACHINE) == FOUND
    assert FOUND.latencies() == {(0, 0): 81.25, (0, 1): 140.0, (1, 1): 81.25}
    assert host.calibration.stat().st_mode & 0o777 == 0o644


def test_figures_that_cannot_be_stored_are_printed_before_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", "--calibrate", "-o", "json", "--store", str(tmp_path / "no/such/folder/x.json")]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["kind"] == "Calibration"
    assert "the figures were not stored: cannot write" in err
    assert "choose another file with --store" in err


def test_without_a_file_there_is_no_calibration(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="numaudit doctor --calibrate"):
        read_calibration(_host(tmp_path), _MACHINE)


def test_a_calibration_of_another_cpu_is_not_used(tmp_path: Path) -> None:
    host = _store(tmp_path)
    _host(tmp_path, cpu="6 106")
    with pytest.raises(Unavailable, match=r"of another kind of machine: its CPU is .*--calibrate` again"):
        read_calibration(host, _MACHINE)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pairs": 1}', '{"machine": {"cpu": 3}}', "\0" * 64])
def test_a_file_of_another_form_is_not_used(text: str, tmp_path: Path) -> None:
    host = _store(tmp_path)
    host.calibration.write_text(text)
    with pytest.raises(Unavailable, match=r"calibration\.json is not a calibration: "):
        read_calibration(host, _MACHINE)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["passed", "not tried"], 0),
        (["failed", "inconclusive", "passed"], 1),
        (["passed", "inconclusive", "not tried"], 5),
        (["inconclusive", "not tried"], 5),
        (["not tried", "not tried"], 3),
    ],
)
def test_a_failure_comes_before_what_is_inconclusive_and_that_before_a_pass(
    states: list[CheckState], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = tuple(SelfTestCheck(f"check-{number}", state, "", "") for number, state in enumerate(states))
    monkeypatch.setattr("numaudit.doctor.selftest.selftest", lambda _: checks)
    assert call(["doctor", "--selftest"]) == code
    out = capsys.readouterr().out
    for number, state in enumerate(states):
        assert f"check-{number}" in out and state in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--selftest", "--root", "/"), "work on a running host"),
        (("--calibrate", "--root", "/"), "work on a running host"),
        (("--selftest", "--calibrate"), "run them one by one"),
        (("--selftest", "--require", "residency"), "run them one by one"),
        (("--store", "x"), "add --calibrate"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_fit_each_other_are_refused(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", *words]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
