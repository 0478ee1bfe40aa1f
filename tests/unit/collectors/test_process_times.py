"""Processes with one thread spoil the samples of a container only as far as they use the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.collectors.process_times import ProcessTimes, parse
from numaudit.kernel.host import Host

TINI, JVM = 1, 2


class Machine:
    """Processes whose /proc/PID/stat a test writes."""

    def __init__(self, root: Path) -> None:
        self.root, self.times = root, ProcessTimes()

    def tick(self, *processes: tuple[int, int, int], started: Mapping[int, int] | None = None) -> bool | None:
        """One tick of a container with these processes: id, threads, clock ticks used since their start."""
        for pid, threads, used in processes:
            folder = self.root / "proc" / str(pid)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stat").write_bytes(line(pid, threads, used, (started or {}).get(pid, 0)))
        self.times.begin_tick()
        return self.times.is_single_threaded(Host.under(self.root), [pid for pid, _, _ in processes])


def line(pid: int, threads: int, used: int, started: int = 0, name: bytes = b"a) S 1 (b") -> bytes:
    """One line of /proc/PID/stat, a third of whose time was spent in the kernel."""
    before = b"1 " * 10
    system = used // 3
    middle = b"0 0 20 0"
    return b"%d (%s) S %s%d %d %s %d 0 %d 9 9\n" % (pid, name, before, used - system, system, middle, threads, started)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_idle_process_with_one_thread_spoils_nothing(machine: Machine) -> None:
    assert machine.tick((TINI, 1, 2), (JVM, 40, 1000)) is False
    assert machine.tick((TINI, 1, 2), (JVM, 40, 1500)) is False


def test_a_process_with_one_thread_that_works_spoils_the_samples_of_its_tick(machine: Machine) -> None:
    machine.tick((TINI, 1, 0), (JVM, 40, 100_000))
    assert machine.tick((TINI, 1, 100), (JVM, 40, 100_500)) is True
    assert machine.tick((TINI, 1, 100), (JVM, 40, 101_000)) is False


def test_up_to_a_twentieth_of_the_cpu_time_is_little(machine: Machine) -> None:
    assert machine.tick((TINI, 1, 5), (JVM, 40, 95)) is False
    assert machine.tick((TINI, 1, 11), (JVM, 40, 189)) is True


def test_of_a_process_that_is_new_by_an_old_id_all_its_time_counts(machine: Machine) -> None:
    machine.tick((TINI, 1, 500), (JVM, 40, 10_000))
    assert machine.tick((TINI, 1, 400), (JVM, 40, 11_000), started={TINI: 7}) is True


def test_where_none_ran_the_threads_of_all_decide(machine: Machine) -> None:
    machine.tick((TINI, 1, 3), (JVM, 40, 10))
    assert machine.tick((TINI, 1, 3), (JVM, 40, 10)) is False
    assert machine.tick((TINI, 1, 3)) is True


def test_of_processes_that_have_ended_nothing_is_known(machine: Machine) -> None:
    machine.tick((TINI, 1, 3))
    assert machine.times.is_single_threaded(Host.under(machine.root), [4711]) is None


def test_the_kernels_own_line_is_read() -> None:
    stat = Path("/proc/self/stat").read_bytes()
    assert parse(1, stat).threads >= 1
    assert parse(1, stat).started > 0


@given(st.binary(max_size=15), st.integers(1, 9999), st.integers(0, 10**9), st.integers(0, 10**9))
def test_any_name_leaves_the_fields_as_they_are(name: bytes, threads: int, used: int, started: int) -> None:
    found = parse(1, line(1, threads, used, started, name.replace(b"\n", b"?")))
    assert (found.threads, found.used, found.started) == (threads, used, started)


@given(st.binary(max_size=200))
def test_any_other_text_is_refused_or_read(text: bytes) -> None:
    try:
        parse(1, text)
    except (IndexError, ValueError):
        return
