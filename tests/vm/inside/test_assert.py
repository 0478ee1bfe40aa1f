"""`numaudit assert` on work whose accesses are known: it passes, it fails, and it says when it cannot tell."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from commands import Started, ending, started
from numaudit.cli.exits import EXIT_INCONCLUSIVE
from numaudit.cli.main import call
from workload import CGROUPS, MIB, cgroup, eventually, worker

TOUCH = str(Path(__file__).with_name("touch.py"))
SIZE = 32 * MIB
ENOUGH = 12.0
"""Seconds of work in which each page is sampled several times: the guest's kernel scans every second."""


importlib.import_module("numaudit.cli.assert")  # once here, and not by each child


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


@pytest.mark.parametrize(("nodes", "limit", "code", "state"), [("0", "60%", 0, "passed"), ("2", "30%", 1, "failed")])
def test_an_aligned_command_passes_and_a_misaligned_one_fails(
    nodes: str, limit: str, code: int, state: str, tmp_path: Path
) -> None:
    """Both run on CPU 0, which is on node 0, and hold 32 MiB beside some 15 of Python, which the kernel may not sample.

    The kernel may sample a process only when it is new.
    """
    touch = (sys.executable, "-I", "-S", TOUCH, str(SIZE), "--threads", "2", "--policy", "bind-sampled")
    junit = tmp_path / "gate.xml"
    one = gate("--max-remote-pages", limit, "--junit", str(junit), "--", *touch, "--nodes", nodes)
    with ending(one):
        work(one)
        found, text = one.end()
    assert found == code, text
    assert f"{state}: " in text and f": at most {limit} of the memory used from other nodes: hint_faults: " in text
    (suite,) = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == str(code)


def test_without_counters_a_share_of_accesses_is_inconclusive_and_says_how_to_judge_pages() -> None:
    touch = (sys.executable, "-I", "-S", TOUCH, str(SIZE), "--threads", "2", "--policy", "bind-sampled", "--nodes", "2")
    one = gate("--max-remote", "20%", "--", *touch)
    with ending(one):
        work(one)
        found, text = one.end()
    assert found == EXIT_INCONCLUSIVE, text
    assert "the accesses were not counted" in text and "--max-remote-pages" in text


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
