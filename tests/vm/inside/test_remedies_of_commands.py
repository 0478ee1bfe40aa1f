"""Remedies about `numaudit run`, carried out as docs/verdicts.md says: promised is what it really gave.

A new remedy is a row of ROWS.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from numaudit.probes.session import Session
from remedies import Row, Stage, carry_out, opened, parameters

pytestmark = pytest.mark.one_kernel


def start_with_cpus(stage: Stage) -> None:
    stage.command("--cpus", "1")


def start_without_cpus(stage: Stage) -> None:
    """It may run anywhere; by luck it would stay on its own node."""
    started = stage.command()
    for pid in stage.pids():
        os.sched_setaffinity(int(pid), {3})
    started.say("touch")


def drift(stage: Stage) -> None:
    start_with_cpus(stage)
    stage.group.write("cpuset.mems", "3")


def spill(stage: Stage) -> None:
    """Root may migrate pages out of the cpuset."""
    start_with_cpus(stage)
    for pid in stage.pids():
        subprocess.run(["migratepages", pid, "all", "3"], check=True)


def work_in_a_cgroup(stage: Stage) -> None:
    stage.mems = ""
    stage.create()
    stage.worker()


def choose_cpus_and_memory_apart(stage: Stage) -> None:
    stage.command("--cpus", "1", topologyManagerPolicy="none")


def choose_them_together(stage: Stage) -> None:
    stage.command("--cpus", "1", topologyManagerPolicy="restricted")


AGAIN = "end the command and start it again"
ROWS = (
    Row("drifted", AGAIN, drift, start_with_cpus),
    Row("spilled", AGAIN, spill, start_with_cpus),
    Row("cpu-remote", "Start it with `--cpus N`", start_without_cpus, start_with_cpus, ticks=1),
    Row("unmanaged", "start it with `numaudit run`", work_in_a_cgroup, start_with_cpus),
    Row(
        "cpu-memory-disagree",
        "Use the Topology Manager policy restricted or single-numa-node",
        choose_cpus_and_memory_apart,
        choose_them_together,
        said="Set `topologyManagerPolicy` to restricted or single-numa-node",
    ),
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as session:
        yield session


@pytest.mark.parametrize("row", parameters(ROWS))
def test_a_remedy_does_what_it_says(row: Row, session: Session) -> None:
    carry_out(row, session)
