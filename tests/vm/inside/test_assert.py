"""`numaudit assert` on work whose accesses are known: it passes, it fails, and it says when it cannot tell."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from commands import Started, ending, started
from numaudit.cli import EXIT_INCONCLUSIVE
from numaudit.cli.main import call
from workload import CGROUPS, MIB, TOUCH, cgroup, eventually, worker

SIZE = 32 * MIB
HELD = 64 * MIB
ENOUGH = 8.0
"""Seconds of work in which each page is sampled several times: the guest's kernel scans every second."""


importlib.import_module("numaudit.cli.manager.assert_work")  # once here, and not by each child


def on_cpu_0() -> None:
    os.sched_setaffinity(0, {0})


def gate(*arguments: str) -> Started:
    return started(["assert", *arguments], before=on_cpu_0)


def work(one: Started) -> None:
    """Have a worker under the gate use its memory long enough, by the kernel's own account."""
    words = one.line().split()
    assert words[:1] == ["ready"], words
    one.say("touch")
    assert one.line() == "touch\n"
    path = Path(f"/proc/{words[2]}/cgroup").read_text().rpartition(":")[2].strip()

    def has_worked() -> None:
        assert int((CGROUPS / path.lstrip("/") / "cpu.stat").read_text().split()[1]) > ENOUGH * 1_000_000

    eventually(has_worked)
    one.close_input()


@pytest.mark.parametrize(
    "nodes", [pytest.param("0", marks=pytest.mark.one_kernel, id="aligned"), pytest.param("2", id="misaligned")]
)
def test_without_counters_the_gate_is_inconclusive_and_says_what_would_decide(nodes: str, tmp_path: Path) -> None:
    """Hint faults show which memory is used from another node, not how often."""
    junit = tmp_path / "gate.xml"
    one = gate("--max-remote=5%", "--junit", str(junit), "--", *TOUCH, str(HELD), "--threads", "2", "--nodes", nodes)
    with ending(one):
        work(one)
        code, text = one.end()
    assert code == EXIT_INCONCLUSIVE, text
    assert "it needs a processor whose counters tell local from remote" in text
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.get("skipped") == "1"


@pytest.mark.one_kernel
def test_an_idle_workload_is_inconclusive() -> None:
    with cgroup("numaudit-lab/idle", cpus="0") as group, worker(group, SIZE):
        assert call(["assert", "--max-remote", "5%", "--duration", "2s", "/numaudit-lab/idle"]) == 5


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("exit 0", 5)])
@pytest.mark.one_kernel
def test_the_status_of_a_failing_command_comes_first(command: str, code: int, tmp_path: Path) -> None:
    junit = tmp_path / "gate.xml"
    one = gate("--max-remote", "5%", "--max-spilled", "0", "--junit", str(junit), "--", "sh", "-c", command)
    with ending(one):
        found, text = one.end()
    assert found == code, text
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.get("errors") == ("0" if code == 5 else "1")
    assert not list(CGROUPS.glob("numaudit-assert-*"))


@pytest.mark.one_kernel
def test_migrations_have_a_limit_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    with cgroup("numaudit-lab/moved", cpus="0") as group, worker(group, SIZE):
        assert call(["assert", "--max-migrated", "0", "--duration", "2s", "/numaudit-lab/moved"]) == 0
    assert "0 were migrated" in capsys.readouterr().out
