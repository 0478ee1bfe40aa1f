"""The kubelet's checkpoints, watched over changes and faults."""

from __future__ import annotations

import os
from pathlib import Path
from time import time

import pytest

from kubelets.steps import Step
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CPU, MEMORY, write
from numaudit.checkpoints.formats.memory import MemoryCheckpoint, parse
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import MemoryState
from numaudit.kernel import files
from numaudit.kernel.host import Host
from numaudit.kubelet.sources import checkpoints
from numaudit.kubelet.sources.checkpoints import WatchedCheckpoint
from numaudit.topology.nodeset import CpuSet

ONE = Step("standalone-restricted/1-cross").read("memory_manager_state")
TWO = Step("standalone-restricted/2-more").read("memory_manager_state")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "var/lib/kubelet"
    folder.mkdir(parents=True)
    return folder / "memory_manager_state"


def host_of(path: Path) -> Host:
    return Host(path.parents[3])


def watched(path: Path) -> WatchedCheckpoint:
    return WatchedCheckpoint(MEMORY, path, host_of(path))


def replace(path: Path, data: bytes, at: float = 100.0) -> None:
    """As the kubelet does: a temporary file with a dot, renamed over the old one."""
    temporary = path.with_name(f".{path.name}.123")
    temporary.write_bytes(data)
    os.utime(temporary, (at, at))
    temporary.rename(path)


def pods(file: WatchedCheckpoint) -> int:
    assert isinstance(file.newest.good, MemoryCheckpoint)
    return len(file.newest.good.state.entries)


def test_a_good_file_is_read_once_and_again_when_it_was_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    real = checkpoints.read_file

    def counted(file: Path) -> bytes | None:
        nonlocal reads
        reads += 1
        return real(file)

    monkeypatch.setattr(checkpoints, "read_file", counted)
    file = watched(path)
    replace(path, ONE)
    for now in (1.0, 2.0, 3.0):
        file.poll(now)
    assert reads == 1
    assert file.newest.is_current
    assert pods(file) == 1
    assert (file.health.form, file.health.policy, file.health.written_at) == ("V1", "Static", 100.0)
    assert file.health.last_good_at == 3.0
    # The same size and time, another file.
    replace(path, ONE)
    file.poll(4.0)
    assert reads == 2
    replace(path, TWO)
    file.poll(5.0)
    assert (reads, pods(file)) == (3, 3)


@pytest.mark.parametrize(
    ("data", "problem", "words"),
    [
        (b"", "not understood", "not JSON"),
        (ONE[: len(ONE) // 2], "not understood", "not JSON"),
        (ONE.replace(b'"size":', b'"sice":'), "checksum", "keys unknown here"),
        (ONE.replace(b"773353472", b"773353473"), "checksum", "the checksum is"),
        (b"\x00" * 4096, "not understood", "not JSON"),
        (b'{"policyName":5}', "not understood", "policyName"),
    ],
)
def test_a_bad_file_leaves_the_last_good_one_in_use(path: Path, data: bytes, problem: str, words: str) -> None:
    file = watched(path)
    replace(path, data)
    file.poll(1.0)
    assert file.newest.good is None
    assert (file.health.problem, file.health.last_good_at) == (problem, None)
    assert words in (file.health.detail or "")
    replace(path, ONE)
    file.poll(2.0)
    assert file.newest.is_current
    replace(path, data, at=200.0)
    file.poll(3.0)
    assert not file.newest.is_current
    assert pods(file) == 1
    assert (file.health.problem, file.health.last_good_at, file.health.written_at) == (problem, 2.0, 200.0)


def test_a_missing_file_is_named_and_read_when_it_comes(path: Path) -> None:
    file = watched(path)
    path.with_name(".memory_manager_state.1").write_bytes(ONE)
    file.poll(1.0)
    assert (file.health.problem, file.health.detail) == ("absent", "no file /var/lib/kubelet/memory_manager_state")
    replace(path, ONE)
    file.poll(2.0)
    assert file.newest.is_current
    path.unlink()
    file.poll(3.0)
    assert (file.health.problem, pods(file)) == ("absent", 1)


def test_a_file_that_may_not_be_read_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = watched(path)
    replace(path, ONE)
    real = files.open_file

    def refuse(name: str | Path, flags: int) -> int:
        if Path(name) == path and not flags & os.O_PATH:
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, flags)

    with monkeypatch.context() as patch:
        patch.setattr(files, "open_file", refuse)
        file.poll(1.0)
    assert file.health.problem == "unreadable"
    assert "run as root" in (file.health.detail or "")
    file.poll(2.0)
    assert file.newest.is_current


def test_a_file_from_the_future_is_read_and_keeps_its_time(path: Path) -> None:
    file = watched(path)
    replace(path, ONE, at=4e9)
    file.poll(1000.0)
    assert file.newest.is_current
    assert (file.health.written_at, file.health.last_good_at) == (4e9, 1000.0)
    # The clock was set back.
    file.poll(500.0)
    assert file.health.last_good_at == 500.0


def between_two_writes() -> bytes:
    """The machine's state of the later file with the entries of the earlier one: its checksum fits."""
    return write(MemoryCheckpoint.of("Static", MemoryState(parse(TWO).state.machine, parse(ONE).state.entries)))


def test_a_file_between_two_writes_of_the_kubelet_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(path, between_two_writes(), at=time())
    waits: list[float] = []

    def second_write(seconds: float) -> None:
        waits.append(seconds)
        replace(path, TWO, at=time())

    monkeypatch.setattr(checkpoints, "sleep", second_write)
    file = watched(path)
    file.poll(1.0)
    assert pods(file) == len(parse(TWO).state.entries) != len(parse(ONE).state.entries)
    assert len(waits) == 1


def test_a_file_that_does_not_add_up_for_long_is_waited_for_no_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(checkpoints, "sleep", waits.append)
    replace(path, between_two_writes())
    assert checkpoints.read_settled(MEMORY, path, host_of(path)) == between_two_writes()
    assert waits == []
    replace(path, between_two_writes(), at=time() + 0.5)
    assert checkpoints.read_settled(MEMORY, path, host_of(path)) == between_two_writes()
    assert 0 < sum(waits) <= 0.5
    assert checkpoints.read_settled(MEMORY, path.with_name("none"), host_of(path)) is None


def cpus(shared: str, **held: str) -> bytes:
    entries = {uid: {"app": CpuSet.parse(cpus)} for uid, cpus in held.items()}
    return write(CpuCheckpoint.of("static", CPUState(CpuSet.parse(shared), entries)))


def test_cpus_that_the_kubelet_is_releasing_are_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the container out of the file first, and then puts its CPUs into the shared pool."""
    file, host = path.with_name("cpu_manager_state"), host_of(path)
    host.cpus.mkdir(parents=True)
    (host.cpus / "online").write_text("0-7\n")
    waits: list[float] = []

    def second_write(seconds: float) -> None:
        waits.append(seconds)
        replace(file, cpus("0-1,4-7", a="2-3"), at=time())

    monkeypatch.setattr(checkpoints, "sleep", second_write)
    replace(file, cpus("0-1,6-7", a="2-3"), at=time())
    assert checkpoints.read_settled(CPU, file, host) == cpus("0-1,4-7", a="2-3")
    assert len(waits) == 1


def test_cpus_that_are_reserved_for_the_system_alone_are_soon_waited_for_no_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, host = path.with_name("cpu_manager_state"), host_of(path)
    host.cpus.mkdir(parents=True)
    (host.cpus / "online").write_text("0-7\n")
    waits: list[float] = []
    monkeypatch.setattr(checkpoints, "sleep", waits.append)
    replace(file, cpus("1-7"), at=time() + 0.5)
    assert checkpoints.read_settled(CPU, file, host) == cpus("1-7")
    assert 0 < sum(waits) <= 0.2
