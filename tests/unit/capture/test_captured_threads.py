"""Threads in a capture: `report NAME --processes` says of it what it said of the host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from numaudit.capture.thread_files import ThreadFiles
from numaudit.capture.tree import capture
from numaudit.kernel import tasks
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_maps

MANY, ONE = 900007, 900020
"""Process ids."""
TEXT = "55a0 {} file=/usr/bin/rank mapped=2 N0=2 kernelpagesize_kB=4\n"
HEAP = "55b0 default heap anon=9 dirty=9 N1=9 kernelpagesize_kB=4\n"


def write(folder: Path, thread: int, cpus: str, policy: str) -> None:
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{thread} (rank) S 1 {'0 ' * 9}100 0 0 0 20 0 1 0 5000 {'0 ' * 16}4 0 0\n")
    (folder / "status").write_text(
        f"NSpid:\t{thread}\nThreads:\t3\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n"
    )
    (folder / "numa_maps").write_text(HEAP + TEXT.format(policy) + HEAP * 3)
    (folder / "environ").write_text("RANK=1\0PASSWORD=secret\0")


@pytest.fixture
def host(tmp_path: Path, fixtures: Path) -> Host:
    """A captured node, with a process of three threads and another of one."""
    shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "host")
    proc = tmp_path / "host/proc"
    for pid, ids in ((MANY, (MANY, MANY + 1, MANY + 5)), (ONE, (ONE,))):
        write(proc / f"{pid}", pid, "0-7", "default")
        for thread in ids:
            write(proc / f"{pid}/task/{thread}", thread, "4-7" if thread == MANY + 5 else "0-7", f"bind:{thread % 2}")
    return Host(tmp_path / "host")


def _copied(
    host: Host,
    **limits: Any,  # noqa: ANN401
) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Files that are kept, and those of which something is missing, with the reason."""
    kept, missing = list[Path](), list[tuple[Path, str]]()
    ThreadFiles(host, lambda path, _: kept.append(path), lambda *of: missing.append(of), **limits).copy()
    return kept, missing


def test_threads_of_a_capture_are_those_of_the_host(host: Host, tmp_path: Path) -> None:
    capture(host, tmp_path / "captured")
    copy = Host(tmp_path / "captured")
    ids = tasks.thread_ids(host, MANY)
    assert tasks.thread_ids(copy, MANY) == ids == [MANY, MANY + 1, MANY + 5]
    assert [*tasks.read_threads(copy, MANY, ids)] == [*tasks.read_threads(host, MANY, ids)]
    for one in (host, copy):
        assert [numa_maps.read_policy(one, MANY, thread) for thread in ids] == ["bind:1", "bind:0", "bind:0"]


def test_of_each_thread_only_what_places_it_is_kept(host: Host, tmp_path: Path) -> None:
    capture(host, tmp_path / "captured")
    task = tmp_path / f"captured/proc/{MANY}/task"
    assert {one.name for one in task.glob("*/*")} == {"stat", "status", "numa_maps"}
    assert (task / f"{MANY + 5}/numa_maps").read_text() == HEAP + TEXT.format("bind:0")
    assert not (tmp_path / f"captured/proc/{ONE}/task").exists()


def test_threads_beyond_the_most_are_left_out_and_named(host: Host) -> None:
    kept, missing = _copied(host, most=2)
    assert {path.parent.name for path in kept} == {str(MANY), str(MANY + 1)}
    assert missing == [(host.proc / f"{MANY}/task", "1 of 3 threads were left out")]


def test_policies_are_read_until_their_time_is_over(host: Host) -> None:
    times = iter([0.0, 0.0, 9.0, 9.0])
    kept, missing = _copied(host, clock=lambda: next(times))
    assert [path.parent.name for path in kept if path.name == "numa_maps"] == [str(MANY)]
    assert missing == [
        (
            host.proc / f"{MANY}/task/{MANY + 1}/numa_maps",
            "the time for memory policies ran out, 2 threads have none",
        )
    ]


def test_a_policy_that_may_not_be_read_is_named_once_for_a_process(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(numa_maps, "read_telling_lines", refuse)
    assert _copied(host)[1] == [(host.proc / f"{MANY}/task/{MANY}/numa_maps", "Permission denied")]
