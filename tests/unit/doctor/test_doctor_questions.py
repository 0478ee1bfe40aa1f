"""The checks of the doctor as answers to four questions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from numaudit.cli.main import call
from numaudit.doctor.checks import names
from numaudit.doctor.outcome import HOST, doctor, link_of
from numaudit.snapshot import Check
from numaudit.views.terminal.machine_tables import print_doctor

ALL = tuple(Check(name, "ok", f"detail of {name}") for name in names())
LINKS = ("promised", "allowed", "resident", "accessed")


def missing(*lacking: str) -> list[Check]:
    return [Check(one.name, "missing", "gone") if one.name.startswith(lacking) else one for one in ALL]


def answers(checks: list[Check]) -> dict[str, bool]:
    return {one.link: one.answered for one in doctor(checks).questions}


def lines(checks: list[Check], *, is_capture: bool = False) -> list[str]:
    out = io.StringIO()
    print_doctor(doctor(checks), Console(file=out, width=200), is_capture=is_capture)
    return out.getvalue().splitlines()


def test_every_check_is_about_a_link_of_the_chain_or_about_the_host() -> None:
    assert {name for name in names() if link_of(name) == HOST} == {"kernel", "numa nodes", "rights", "cgroup"}
    found = doctor(ALL)
    assert [one.link for one in found.questions] == list(LINKS)
    assert sum(len(one.checks) for one in found.questions) + 4 == len(ALL)


def test_a_question_is_answered_while_its_evidence_is_there() -> None:
    assert answers(list(ALL)) == dict.fromkeys(LINKS, True)
    assert answers(missing("memory_manager_state"))["promised"] is False
    assert answers(missing("cpuset")) == {"promised": True, "allowed": False, "resident": True, "accessed": True}
    assert answers(missing("residency"))["resident"] is False
    assert answers(missing("numa_maps", "huge pages", "bpf"))["resident"] is True


def test_one_source_of_accesses_is_enough() -> None:
    sources = [name for name in names() if name.startswith("access ")]
    assert answers(missing(*sources[1:]))["accessed"] is True
    assert answers(missing("access "))["accessed"] is False


def test_the_last_line_counts_the_questions_and_names_the_others() -> None:
    assert lines(list(ALL))[-1] == "This host can answer 4 of 4 questions."
    assert lines(missing("cpuset", "access "))[-1] == (
        "This host can answer 2 of 4 questions, but not where memory may be, nor from where memory is used."
    )


def test_checks_that_lack_the_same_thing_are_one_line() -> None:
    shown = lines(missing("access pmu", "access hint_faults"))
    where = next(number for number, line in enumerate(shown) if "access pmu" in line)
    assert shown[where].split() == ["access", "pmu", "missing", "gone"]
    assert shown[where + 1].split() == ["the", "same", "for", "access", "hint_faults"]
    assert "access expected" in shown[where + 2]


def test_a_check_that_works_has_a_line_of_its_own() -> None:
    same = [Check(one.name, "ok", "runs") for one in ALL]
    assert sum(line.split()[-1:] == ["runs"] for line in lines(same)) == len(ALL)


def test_what_a_capture_does_not_show_is_not_ok(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(["doctor", "--root", str(fixtures / "kubernetes-cluster")])
    states = {line[:22].strip(): line[24:].split(" ")[0] for line in capsys.readouterr().out.splitlines()}
    assert (states["memory tiers"], states["calibration"], states["kubelet"]) == ("n/a", "n/a", "ok")


def test_a_capture_is_not_asked_for_what_only_a_running_kernel_could_answer(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", "--root", str(fixtures / "misaligned-node")]) == 1  # it lacks the kubelet's /configz
    assert "n/a" in capsys.readouterr().out
    assert call(["doctor", "--root", str(fixtures / "kubernetes-cluster")]) == 0
    text = capsys.readouterr().out
    assert "captured tree is" not in text
    assert not any(line.split()[:1] in (["bpf"], ["access"], ["rights"]) for line in text.splitlines())
    assert text.splitlines()[-3] == ("This capture can answer 3 of 4 questions, but not from where memory is used.")
