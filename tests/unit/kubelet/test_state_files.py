"""Checkpoint files on disk: whole files only, whatever dies when."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import write
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import Block, MemoryState
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.sources import checkpoints
from numaudit.topology.nodeset import CpuSet

ROOT = FIXTURES / "kubernetes-four-nodes"
NAME = "memory_manager_state"
KILLS = 2
"""At each step: before it and after it."""
KILLS_AMID_WRITE = 200 if os.environ.get("CI") or os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 20
"""More, for each leaves another part of the bytes."""


def state(size: int) -> MemoryCheckpoint:
    entries = {f"pod-{index}": {"app": (Block((0,), "memory", size),)} for index in range(20)}
    return MemoryCheckpoint.of("Static", MemoryState({}, entries))


OLD, NEW = state(4096), state(8192)


def test_the_kubelets_files_are_where_it_keeps_them() -> None:
    paths = checkpoints.paths(Host.under(ROOT))
    assert {kind: str(path.relative_to(ROOT)) for kind, path in paths.items()} == {
        "memory_manager_state": "var/lib/kubelet/memory_manager_state",
        "cpu_manager_state": "var/lib/kubelet/cpu_manager_state",
        "kubelet_internal_checkpoint": "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        "dra_manager_state": "var/lib/kubelet/dra_manager_state",
    }
    assert checkpoints.read_file(paths["memory_manager_state"]) is not None
    assert checkpoints.read_file(paths["kubelet_internal_checkpoint"]) is None


def test_a_file_is_written_for_root_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / NAME
    checkpoints.write_file(path, OLD)
    checkpoints.write_file(path, NEW)
    assert path.stat().st_mode & 0o777 == 0o600
    assert names_in(tmp_path) == [NAME]
    assert path.read_bytes() == write(NEW)


@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: data.replace(b"4096", b"4097"), lambda _: b""])
def test_a_corrupt_file_is_never_overwritten(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / NAME
    damaged = damage(write(OLD))
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"is not overwritten, because it.* (corrupt|checksum is wrong)"):
        checkpoints.write_file(path, NEW)
    assert path.read_bytes() == damaged
    assert names_in(tmp_path) == [NAME]


def test_another_kind_of_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    checkpoints.write_file(path, OLD)
    with pytest.raises(InputError, match="is not overwritten"):
        checkpoints.write_file(path, CpuCheckpoint.of("static", CPUState(CpuSet.of(0))))
    assert path.read_bytes() == write(OLD)


def test_a_write_that_the_disk_refuses_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    checkpoints.write_file(path, OLD)

    def write_under_a_limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        with pytest.raises(Unavailable, match="File too large; the file is unchanged"):
            checkpoints.write_file(path, NEW)

    assert in_child(write_under_a_limit) == 0
    assert path.read_bytes() == write(OLD)
    assert names_in(tmp_path) == [NAME]


def test_what_cannot_be_read_is_reported_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(Unavailable, match=r"cannot read .*memory_manager_state: Is a directory"):
        checkpoints.read_file(tmp_path / NAME)


@pytest.mark.parametrize("step", ["open", "write", "fsync", "rename", "directory fsync"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_state(tmp_path: Path, step: str) -> None:
    """Before the step, after it, and for a write also in the middle; each in a process of its own."""
    path = tmp_path / NAME
    found = {"old": 0, "new": 0}
    kills = KILLS_AMID_WRITE if step == "write" else KILLS
    for number in range(kills):
        path.write_bytes(write(OLD))
        status = in_child(partial(write_and_die, path, step, number))
        assert os.WIFSIGNALED(status), f"the process was not killed at {step}"
        data = path.read_bytes()
        assert data in (write(OLD), write(NEW))
        found["old" if data == write(OLD) else "new"] += 1
        for left in tmp_path.iterdir():
            if left != path:
                assert left.name.startswith(".")
                left.unlink()
    renamed = {"rename": kills // 2, "directory fsync": kills}.get(step, 0)
    assert found == {"old": kills - renamed, "new": renamed}


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def write_and_die(path: Path, step: str, number: int) -> None:
    """Write the new state, but die at the step: before it for an even number, after it for an odd one."""
    name, call = {
        "open": ("open", 1),
        "write": ("write", 1),
        "fsync": ("fsync", 1),
        "rename": ("rename", 1),
        "directory fsync": ("fsync", 2),
    }[step]
    real: Callable[..., object] = getattr(os, name)
    calls = 0

    def deadly(first: Any, *more: Any) -> object:  # noqa: ANN401 -- as the function in its place
        nonlocal calls
        # The old file is opened for reading first; only what writes counts.
        calls += name != "open" or bool(more[0] & os.O_CREAT)
        if calls != call:
            return real(first, *more)
        if number % 2:
            if name == "write":
                more = (more[0][: number % len(more[0])],)
            real(first, *more)
        die()

    setattr(os, name, deadly)
    checkpoints.write_file(path, NEW)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive after SIGKILL")


def in_child(work: Callable[[], None]) -> int:
    """The wait status of a forked process that does the work; 0 = it came to the end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
