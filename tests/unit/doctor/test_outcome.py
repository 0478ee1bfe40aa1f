"""The exit code of `numaudit doctor`: all sources, some, none, or those that somebody requires."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.doctor.checks import examine, names
from numaudit.doctor.outcome import failed, outcome
from numaudit.kernel.host import Host
from numaudit.pmu.choose import CannotCount, Word
from numaudit.probes.session import Session
from numaudit.snapshot import Check

WORKS = tuple(Check(name, "ok", "") for name in names())
ACCESSES = [name for name in names() if name.startswith("access ") and name != "access expected"]
OF_ACCESSES = [
    "access expected",
    *ACCESSES,
    *(name for name in names() if name.startswith(("bpf ", "calibration", "numa balancing"))),
]
Capture = pytest.CaptureFixture[str]


def _with(*missing: str) -> tuple[Check, ...]:
    return tuple(Check(one.name, "missing", "") if one.name in missing else one for one in WORKS)


def test_sources_that_all_work_are_fine_also_reduced_and_without_kubernetes() -> None:
    assert outcome(WORKS) == "all"
    assert outcome((*WORKS, Check("rights", "reduced", ""))) == "all"
    assert outcome((*WORKS, Check("kubelet", "n/a", "no checkpoint"))) == "all"


def test_hardware_that_the_machine_does_not_have_is_nothing_to_mend() -> None:
    def accesses(word: Word) -> list[Check]:
        return [failed(name, CannotCount("why", "what to do", word)) for name in ("access expected", *ACCESSES)]

    others = [one for one in WORKS if one.name not in OF_ACCESSES]
    for reason in ("one-node", "no-pmu", "cpu-unknown", "mixed-cpus", "no-events"):
        assert {one.state for one in accesses(reason)} == {"n/a"}
        assert outcome((*others, *accesses(reason))) == "all"
    assert outcome((*others, *accesses("no-permission"))) == "some"


def test_a_host_with_one_node_misses_no_source_that_tells_where_memory_is_used(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> tuple[Check, ...]:
        return (Check("bpf hint_faults", "missing", "no kprobes"), Check("bpf cpu_time", "ok", "runs"))

    monkeypatch.setattr("numaudit.doctor.checks.probe_checks", denied)
    monkeypatch.setattr(Host, "is_live", True)
    states = {one.name: one.state for one in examine(Host.under(fixtures / "single-node-hybrid"), Session({}))}
    assert (states["bpf hint_faults"], states["bpf cpu_time"]) == ("n/a", "ok")
    states = {one.name: one.state for one in examine(Host.under(fixtures / "misaligned-node"), Session({}))}
    assert states["bpf hint_faults"] == "missing"


@pytest.mark.parametrize("name", OF_ACCESSES)
def test_of_accesses_one_source_is_enough(name: str) -> None:
    """Such as on a node where perf_event_open(2) may not be used by some: all questions can be answered."""
    assert outcome(_with(name)) == "all"
    assert outcome(_with(*OF_ACCESSES)) == "some"


@pytest.mark.parametrize("name", [name for name in names() if name not in ("numa nodes", "cgroup", *OF_ACCESSES)])
def test_one_source_that_does_not_work_is_told(name: str) -> None:
    assert outcome(_with(name)) == "some"


@pytest.mark.parametrize("name", ["numa nodes", "cgroup"])
def test_without_nodes_or_cgroups_nothing_can_be_measured(name: str) -> None:
    assert outcome(_with(name)) == "none"


def test_where_no_source_measures_the_rest_is_of_no_use() -> None:
    measuring = [name for name in names() if name.startswith(("residency", "numa_maps", "bpf", "access"))]
    assert outcome(_with(*measuring)) == "none"
    assert outcome(_with(*measuring[1:])) == "some"


def test_a_captured_tree_without_numa_maps_lacks_a_source_and_a_host_without_nodes_all(
    capsys: Capture, fixtures: Path, tmp_path: Path
) -> None:
    assert call(["doctor", "--root", str(fixtures / "eight-nodes")]) == 1
    tree = shutil.copytree(fixtures / "eight-nodes", tmp_path / "tree")
    shutil.rmtree(tree / "sys/devices/system/node")
    assert call(["doctor", "--root", str(tree)]) == 3
    out, err = capsys.readouterr()
    assert "residency" in out
    assert err == ""


def test_required_sources_alone_decide(capsys: Capture, fixtures: Path) -> None:
    root = ("--root", str(fixtures / "kubernetes-four-nodes"))
    assert call(["doctor", *root, "--require", "residency, numa_maps,memory_manager_state"]) == 0
    assert capsys.readouterr().err == ""
    assert call(["doctor", *root, "--require", "residency,access  hint_faults,kubelet_internal_checkpoint"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "numaudit: --require: access hint_faults does not work here; its line says why",
        "numaudit: --require: kubelet_internal_checkpoint does not work here; its line says why",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hint_fault", "there is no source 'hint_fault'; did you mean bpf hint_faults or access hint_faults?"),
        ("Residency", "there is no source 'Residency'; did you mean residency?"),
        ("xyz", "there is no source 'xyz'; `numaudit doctor` lists them"),
        ("", "there is no source ''; `numaudit doctor` lists them"),
    ],
)
def test_a_source_that_does_not_exist_is_refused_with_those_that_are_near(
    capsys: Capture, name: str, message: str
) -> None:
    assert call(["doctor", "--require", name]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"numaudit: --require: {message}\n")
