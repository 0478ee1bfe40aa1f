"""Real launchers that bind CPUs: what they show of it is read, and a process that left its CPUs is found."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

import pytest

from launched import (
    AS_ROOT,
    DEBIAN,
    FROM_DEBIAN,
    PROGRAMS,
    cpus_of,
    launched,
    named_host,  # noqa: F401
    programs,  # noqa: F401
    ranks,
    tried_with,
)
from workload import cgroup

pytestmark = [pytest.mark.one_kernel, pytest.mark.usefixtures("named_host")]
SLEEP = (shutil.which("sleep") or "sleep", "600")


class Row(NamedTuple):
    launcher: str
    software: str
    version: tuple[str, ...]
    command: tuple[str, ...]
    """Starts two programs, or one."""
    environment: dict[str, str]
    cpus: tuple[str, ...]
    """Of the processes, in any order."""
    source: str


_OPEN_MPI_4 = shutil.which("mpirun.openmpi", path=FROM_DEBIAN["PATH"]) or "mpirun.openmpi"
_OPEN_MPI_5 = str(PROGRAMS / "openmpi/bin/mpirun")
_MPICH = str(PROGRAMS / "mpich/bin/mpirun")
_FOUR = {**FROM_DEBIAN, **AS_ROOT}
_LIKWID = (f"{DEBIAN}/usr/bin/lua5.3", f"{DEBIAN}/usr/bin/likwid-pin")
ROWS = (
    Row(
        "open-mpi",
        "Open MPI",
        (_OPEN_MPI_4, "--version"),
        (_OPEN_MPI_4, "-n", "2", "--bind-to", "core"),
        _FOUR,
        ("0", "1"),
        "--bind-to",
    ),
    Row(
        "open-mpi",
        "Open MPI",
        (_OPEN_MPI_5, "--version"),
        (_OPEN_MPI_5, "-n", "2", "--bind-to", "numa"),
        AS_ROOT,
        ("0", "1"),
        "--bind-to",
    ),
    Row(
        "mpich",
        "MPICH",
        (str(PROGRAMS / "mpich/bin/mpichversion"), "-v"),
        (_MPICH, "-n", "2", "-bind-to", "numa"),
        {},
        ("0", "1"),
        "--bind-to",
    ),
    Row("mpich", "MPICH", (), (_MPICH, "-n", "2", "-bind-to", "user:2,0+3"), {}, ("2", "0,3"), "--bind-to"),
    Row(
        "taskset",
        "util-linux",
        ("taskset", "--version"),
        ("timeout", "600", "taskset", "-c", "2"),
        {},
        ("2",),
        "taskset",
    ),
    Row(
        "numactl",
        "numactl",
        ("dpkg-query", "-W", "-f", "${Version}", "numactl"),
        ("timeout", "600", "numactl", "-N", "2"),
        {},
        ("2",),
        "numactl",
    ),
    Row(
        "hwloc-bind",
        "hwloc",
        ("hwloc-bind", "--version"),
        ("timeout", "600", "hwloc-bind", "node:2", "--"),
        FROM_DEBIAN,
        ("2",),
        "hwloc-bind",
    ),
    Row(
        "likwid",
        "likwid",
        (*_LIKWID, "--version"),
        (*_LIKWID, "-q", "-c", "2"),
        FROM_DEBIAN,
        ("2",),
        "LIKWID_HWTHREADS",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join((row.software, *row.command[-2:])))
def test_a_rank_is_where_its_launcher_bound_it_and_another_one_left(row: Row) -> None:
    if row.version:
        tried_with(row.launcher, row.software, row.version, row.environment)
    with (
        cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group,
        launched(group, (*row.command, *SLEEP), row.environment, "sleep", len(row.cpus)) as pids,
    ):
        assert sorted(cpus_of(pid) for pid in pids) == sorted([one] for one in row.cpus)
        found = ranks(group)
        assert {(one.launcher, one.source) for pid in pids for one in found[pid].declarations} == {
            (row.launcher, row.source)
        }
        assert {found[pid].verdict for pid in pids} == {"in-force"}, [found[pid].detail for pid in pids]
        os.sched_setaffinity(pids[0], range(4))
        found = ranks(group)
        (problem,) = found[pids[0]].problems
        assert (problem.name, problem.cause) == ("declared-not-in-force", "cpus-not-bound")
        assert {found[pid].verdict for pid in pids[1:]} <= {"in-force"}
