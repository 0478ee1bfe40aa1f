"""A thousand processes of one container: each file is read once, and what is kept does not grow with threads."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

from numaudit.engine.collectors.containers.processes import ProcessReader
from numaudit.kernel import files
from numaudit.kernel.host import Host
from numaudit.snapshot import Mappings
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

MACHINE = Machine((Node(0, CpuSet.parse("0-63")), Node(1, CpuSet.parse("64-127"))))
MANY = 1000


def task(folder: Path, number: int, cpus: str, threads: int) -> None:
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{number} (rank) S 1 {'0 ' * 9}5 0 0 0 20 0 1 0 99 {'0 ' * 16}3 0 0\n")
    (folder / "status").write_text(f"Threads:\t{threads}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n")
    (folder / "numa_maps").write_text("55a0 bind:0 file=/usr/bin/rank N0=2 kernelpagesize_kB=4\n")


def test_each_file_of_a_thousand_processes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(1, MANY + 1):
        task(tmp_path / f"proc/{pid}", pid, "0-63", 1)
        task(tmp_path / f"proc/{pid}/task/{pid}", pid, "0-63", 1)
    opened: Counter[str] = Counter()
    real = files.open_file

    def counted(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        opened[os.fspath(path)] += 1
        return real(path, flags)

    monkeypatch.setattr(files, "open_file", counted)
    reader = ProcessReader(Host(tmp_path), MACHINE, monotonic() + 600, None)
    found = reader.container(range(1, MANY + 1), Mappings({}, {}, {}, 0, MANY), 600)
    assert len(found.processes) == MANY
    assert max(opened.values()) == 1
    assert sum(opened.values()) <= 5 * MANY + 1


def test_a_thousand_threads_of_one_kind_are_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a busy machine reads fewer policies within the usual time, and threads without one are another group
    monkeypatch.setattr("numaudit.engine.collectors.containers.processes._POLICY_SECONDS", 600.0)
    task(tmp_path / "proc/1", 1, "0", MANY)
    for thread in range(1, MANY + 1):
        task(tmp_path / f"proc/1/task/{thread}", thread, str(thread % 64), MANY)
    (process,) = (
        ProcessReader(Host(tmp_path), MACHINE, monotonic() + 600, None)
        .container([1], Mappings({}, {}, {}, 0, 1), 600)
        .processes
    )
    (group,) = process.thread_groups
    assert (group.threads, len(group.names), str(group.cpus), dict(group.last_on)) == (MANY, 1, "0-63", {0: MANY})
