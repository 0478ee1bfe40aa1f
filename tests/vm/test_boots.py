"""Which guest runs which tests, and what becomes of those of a guest that died. No guest boots here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

import background
import boots
import durations
import inside_tests
import kernels
from background import Background
from boots import Kernel, Plan
from guest import Completed, Guest, GuestDied, Job
from inside_tests import INSIDE, Inside
from results import FILE_VARIABLE
from shares import CLAIMS_VARIABLE

TESTS = ("test_a.py::test_one", "test_a.py::test_other", "test_b.py::test_one", "test_c.py::test_one")
MARKED = (
    Inside("test_every.py::test_x", frozenset()),
    Inside("test_pmu.py::test_x", frozenset({"pmu"})),
    Inside("test_run.py::test_x", frozenset({"one_kernel"})),
    Inside("test_doctor.py::test_x", frozenset({"arm64"})),
    Inside("test_walk.py::test_x", frozenset({"page_size"})),
)
NewKernel = Callable[[Callable[[Job], None]], Kernel]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewKernel:
    """A kernel whose guests are a function of their job."""

    def with_guests(guest: Callable[[Job], None]) -> Kernel:
        def run(_: Guest, job: Job) -> Completed:
            guest(job)
            return Completed(0, "", "", 1.0)

        (tmp_path / "lib/modules/6.12.0-1-cloud").mkdir(parents=True)
        monkeypatch.setattr("boots.run", run)
        monkeypatch.setattr("kernels.find", lambda name: kernels.Kernel(name, tmp_path))
        plan = Plan("6.12", tmp_path / "6.12", TESTS)
        plan.claims.mkdir(parents=True)
        return Kernel(plan, None)

    return with_guests


def report(job: Job, *tests: str, ends: bool = True, outcome: str = "passed") -> None:
    """As the plugin `results` in the guest does."""
    whens = ("start", "setup", "call", "teardown") if ends else ("start", "setup")
    with Path(job.environment[FILE_VARIABLE]).open("a") as file:
        for test in tests:
            for when in whens:
                step = {"id": f"{INSIDE}/{test}", "when": when, "outcome": outcome, "seconds": 1, "text": ""}
                file.write(json.dumps(step) + "\n")


def claim(job: Job, *modules: str) -> None:
    for module in modules:
        Path(job.environment[CLAIMS_VARIABLE], module).mkdir()


def wanted(job: Job) -> Sequence[str]:
    return [word.removeprefix(f"{INSIDE}/") for word in job.command if "::" in word]


def test_a_second_guest_boots_only_for_what_the_first_has_not_claimed(kernel: NewKernel) -> None:
    jobs: list[Job] = []

    def guest(job: Job) -> None:
        jobs.append(job)
        claim(job, "test_a", "test_b", "test_c")
        report(job, *TESTS)
        one.boot()

    one = kernel(guest)
    one.boot()
    one.boot()
    assert [wanted(job) for job in jobs] == [[*TESTS]]
    assert {result.outcome for result in one.plan.results().values()} == {"passed"}


def test_a_kernel_has_ended_when_its_last_guest_has(kernel: NewKernel) -> None:
    def guest(job: Job) -> None:
        if job.folder.name == "boot-1":
            claim(job, "test_a")
            report(job, *TESTS[:2])
            one.boot()
            assert not one.plan.ended.exists()
        else:
            claim(job, "test_b", "test_c")
            report(job, *TESTS[2:])

    one = kernel(guest)
    one.boot()
    assert set(one.plan.results()) == set(TESTS)
    assert [ending.partition(":")[0][-6:] for ending in one.plan.endings()] == ["boot-2", "boot-1"]


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durations.SECONDS", {"test_a": 200, "test_b": 50, "test_c": 40, "test_d": 35})


@pytest.mark.usefixtures("seconds")
def test_a_place_that_is_free_goes_to_the_kernel_that_leaves_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6.1 has more that nobody has claimed, but the guest that runs will claim most of it."""
    of = {"6.1": ["a", "b"], "6.12": ["b", "c", "d"]}
    booted: list[str] = []
    monkeypatch.setattr(Kernel, "boot", lambda kernel: booted.append(kernel.plan.kernel))
    plans = [Plan(name, tmp_path / name, [f"test_{one}.py::test_x" for one in modules]) for name, modules in of.items()]
    for plan in plans:
        plan.claims.mkdir(parents=True)
    under_way = [Kernel(plan, None, _boots=1, _under_way=1) for plan in plans]
    boots.share(under_way)
    assert booted == ["6.12"]
    (plans[1].claims / "test_b").mkdir()
    boots.share(under_way)
    assert booted == ["6.12"]  # 50 seconds at most are left, by either


@pytest.mark.usefixtures("seconds")
def test_a_kernel_that_was_given_up_gets_no_other_guest(kernel: NewKernel) -> None:
    def guest(_: Job) -> None:
        raise GuestDied("the guest died before the command began")

    one = kernel(guest)
    assert one.for_another() == 290
    one.boot()
    assert one.for_another() == 0


def test_a_guest_that_dies_fails_the_test_that_it_was_at_and_the_others_run_in_another(kernel: NewKernel) -> None:
    def guest(job: Job) -> None:
        if job.folder.name == "boot-1":
            report(job, TESTS[0])
            report(job, TESTS[1], ends=False)
            raise GuestDied("the guest died during the command\nKernel panic")
        if job.folder.name == "boot-2":
            assert wanted(job) == [*TESTS[2:]]
            claim(job, "test_b")
            report(job, *TESTS[2:])
        else:
            assert wanted(job) == [TESTS[1]]
            raise GuestDied("the guest died before the command began")

    one = kernel(guest)
    one.boot()
    assert {name: result.outcome for name, result in one.plan.results().items()} == {
        name: "unfinished" if name == TESTS[1] else "passed" for name in TESTS
    }
    assert "Kernel panic" in one.plan.endings()[0]


def test_a_test_that_failed_runs_once_more_in_a_fresh_guest_and_both_are_shown(kernel: NewKernel) -> None:
    def guest(job: Job) -> None:
        if job.folder.name == "boot-1":
            report(job, *TESTS[2:])
            report(job, *TESTS[:2], outcome="failed")
        else:
            assert wanted(job) == [*TESTS[:2]]
            report(job, TESTS[0], outcome="failed")
            report(job, TESTS[1])

    one = kernel(guest)
    one.boot()
    assert {name for name, result in one.plan.results().items() if result.outcome == "failed"} == {TESTS[0]}
    again = [ending for ending in one.plan.endings() if ending.startswith("passed only when it ran once more: ")]
    assert [ending.partition("\n")[0].partition(": ")[2] for ending in again] == [f"6.12-{TESTS[1]}"]


def test_what_is_skipped_when_it_runs_once_more_has_failed(kernel: NewKernel) -> None:
    def guest(job: Job) -> None:
        report(job, *TESTS, outcome="failed" if job.folder.name == "boot-1" else "skipped")

    one = kernel(guest)
    one.boot()
    assert {result.outcome for result in one.plan.results().values()} == {"failed"}


def test_many_failures_are_not_the_hosts_and_stay(kernel: NewKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boots.AGAIN_AT_MOST", len(TESTS) - 1)
    folders: list[str] = []

    def guest(job: Job) -> None:
        folders.append(job.folder.name)
        report(job, *TESTS, outcome="failed")

    one = kernel(guest)
    one.boot()
    assert folders == ["boot-1"]


def test_a_kernel_whose_guests_all_die_is_given_up(kernel: NewKernel) -> None:
    def guest(_: Job) -> None:
        raise GuestDied("the guest died before the command began")

    one = kernel(guest)
    one.boot()
    assert len(one.plan.endings()) == boots.BOOTS
    assert one.plan.results() == {}


def test_a_bug_of_the_runner_is_told_and_ends_the_kernel(kernel: NewKernel) -> None:
    def guest(_: Job) -> None:
        raise ZeroDivisionError

    one = kernel(guest)
    one.boot()
    assert "ZeroDivisionError" in one.plan.endings()[0]


@pytest.fixture
def under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of the one that boots guests; it waits for the end of its input."""
    plan = Plan("6.12", tmp_path / "6.12", [*TESTS])
    plan.folder.mkdir()
    boots.write([plan], tmp_path / "plan.json")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        monkeypatch.setenv(background.UNDER_WAY, f"{process.pid} {tmp_path}")
        yield process


def test_guests_that_are_under_way_are_waited_for_and_not_stopped(under_way: subprocess.Popen[bytes]) -> None:
    found = Background.under_way({"6.12": TESTS[1:]})
    assert found is not None
    plan = found.plans["6.12"]
    plan.ended.write_text('["guest 6.12: 4 tests"]')
    assert found.ended("6.12").endings() == ["guest 6.12: 4 tests"]
    found.stop()
    assert under_way.poll() is None and plan.folder.exists()


def test_guests_whose_process_has_ended_fail_the_tests_that_wait_for_them(under_way: subprocess.Popen[bytes]) -> None:
    found = Background.under_way({"6.12": TESTS})
    assert found is not None
    under_way.kill()
    for _ in range(2):  # as it ends, and when nothing is left of it
        with pytest.raises(pytest.fail.Exception, match=r"boots\.py ended before the guests of 6\.12"):
            found.ended("6.12")
        under_way.wait()


@pytest.mark.parametrize("tests", [{"6.1": TESTS[:1]}, {"6.12": ["test_d.py::test_one"]}])
def test_guests_under_way_without_a_wanted_test_are_not_waited_for(
    under_way: subprocess.Popen[bytes], tests: Mapping[str, Sequence[str]]
) -> None:
    assert under_way.poll() is None
    assert Background.under_way(tests) is None


def test_where_nobody_has_started_guests_none_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(background.UNDER_WAY, raising=False)
    assert Background.under_way({"6.12": TESTS}) is None


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plans = [Plan("6.1", tmp_path / "6.1", [*TESTS])]
    boots.write(plans, tmp_path / "plan.json")
    assert boots.read(tmp_path / "plan.json") == plans


@pytest.mark.parametrize(
    ("everything", "name", "modules"),
    [
        ("", "6.12", "every run doctor walk"),
        ("", "6.1", "every doctor walk"),
        ("", "arm64-6.12", "pmu doctor"),
        ("all", "6.1", "every run doctor walk"),
        ("all", "arm64-6.12", "every pmu run doctor walk"),
        ("all", "arm64-16k-6.12", "walk"),
    ],
)
def test_marks_say_which_kernel_runs_a_test(
    everything: str, name: str, modules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUESTS", everything)
    monkeypatch.setattr("inside_tests._listed", lambda: MARKED)
    found = [test.removeprefix("test_").partition(".py")[0] for test in inside_tests.by_kernel()[name]]
    assert found == modules.split()


def test_each_module_is_run_by_the_guest_that_claimed_it(tmp_path: Path) -> None:
    for name in ("test_ours.py", "test_theirs.py"):
        (tmp_path / name).write_text("import pytest\n@pytest.mark.parametrize('x', [1, 2])\ndef test(x): pass\n")
    claims = tmp_path / "claims"
    (claims / "test_theirs").mkdir(parents=True)
    environment = {**os.environ, CLAIMS_VARIABLE: str(claims), "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "pytest", "-p", "shares", "-v", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout
    assert "test_theirs.py::" not in done.stdout
    assert sorted(path.name for path in claims.iterdir()) == ["test_ours", "test_theirs"]


def test_modules_that_take_longest_come_first_and_each_in_one_piece() -> None:
    fresh = [one.name for one in inside_tests._listed() if "fresh_root" in one.marks]
    names = [one.name for one in inside_tests._listed()]
    assert names[: len(fresh)] == fresh
    modules = [name.partition(".py::")[0] for name in names[len(fresh) :]]
    assert len(list(groupby(modules))) == len(set(modules))
    seconds = [durations.of_module(one) for one in modules]
    assert seconds == sorted(seconds, reverse=True)


def test_no_module_that_has_gone_is_listed_with_its_seconds() -> None:
    assert durations.SECONDS.keys() <= {one.name.partition(".py::")[0] for one in inside_tests._listed()}
