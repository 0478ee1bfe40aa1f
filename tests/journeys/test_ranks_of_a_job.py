"""Ranks of MPI or of inference on a host without Kubernetes: which one is elsewhere, and the command that moves it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.journey import Journey
from fixture_trees import FIXTURES
from processes.agent_process import eventually

CAPTURED = "tests/fixtures/ranks.tar.xz"


@pytest.fixture
def astray() -> Iterator[tuple[int, int]]:
    """A process that taskset bound to one CPU, and that was then allowed all: its id and that CPU."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one CPU: no process can be on another one")
    cpu = min(allowed)
    job = subprocess.Popen(["/bin/sh", "-c", f"taskset -c {cpu} sleep 7200; true"], start_new_session=True)
    try:
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
        assert eventually(lambda: [_name(pid) for pid in children.read_text().split()] == ["sleep"])
        pid = int(children.read_text())
        assert os.sched_getaffinity(pid) == {cpu}
        os.sched_setaffinity(pid, allowed)
        yield pid, cpu
    finally:
        os.killpg(job.pid, 9)
        job.wait()


def _name(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def commands_of_the_captured() -> set[str]:
    """What brings its ranks to where they were bound: pages that are elsewhere, and threads that may run elsewhere."""
    found = set()
    for process in FIXTURES.glob("ranks/proc/[0-9]*"):
        pid = process.name
        for bound, pages in re.findall(r"bind:(\d+) anon=\S+ (.*)", (process / "numa_maps").read_text()):
            others = {node for node in re.findall(r"N(\d+)=", pages) if node != bound}
            found |= {f"migratepages {pid} {node} {bound}" for node in others}
        own, *_ = may_run = [_cpus(process / "status"), *map(_cpus, process.glob("task/*/status"))]
        if set(may_run) != {own}:
            found.add(f"taskset -a -p -c {own} {pid}")
    return found


def _cpus(status: Path) -> str:
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_rank_that_is_elsewhere_is_found_moved_and_proven_to_be_back(
    journey: Journey, astray: tuple[int, int]
) -> None:
    page = journey.document("docs/ranks.md")
    (ranks,) = re.findall(r"`(numaudit ranks)`", page)
    (of_one,) = re.findall(r"`(numaudit ranks )\d+`", page)
    (check,) = re.findall(r"`(--fail-on misaligned)` makes it a check", page)

    captured = journey.run(f"{ranks} --root {CAPTURED}").partition("\n\n")[0].splitlines()
    assert {line.strip() for line in captured[1:]} == commands_of_the_captured() != set()
    assert len(captured) == 3

    pid, cpu = astray
    printed = journey.run(ranks)
    (command,) = [line.strip() for line in printed.splitlines() if re.fullmatch(rf" +\S.* {pid}", line)]
    assert f"sleep ({pid}): taskset declares CPU {cpu}, but it may run on" in printed
    journey.run(f"{of_one}{pid} {check}", code=1)
    journey.run(command)
    assert os.sched_getaffinity(pid) == {cpu}
    assert "where it was bound" in journey.run(f"{of_one}{pid} {check}").splitlines()[0]
