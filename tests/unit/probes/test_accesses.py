"""Raw counts of events become memory accesses that only grow; events on the threads of one process."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up.plans import PAGE_FAULTS, TASK_CLOCK, faults_and_time, plan_of
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event, syscall
from numaudit.kernel.tracing.bpf_map import MapEntries
from numaudit.probes.counters import process_events
from numaudit.probes.counters.accesses import AccessSums
from numaudit.probes.counters.process_events import ProcessEvents
from numaudit.probes.pmu import decode
from numaudit.probes.reasons import ProbeRefusal, Reason

WEB, NODE, CPU = 77, 1, 4
PLACE = (NODE, CPU)
SECOND = 1_000_000_000


def sums_of(readings: Iterable[tuple[int, ...]], *, is_total: bool = False) -> AccessSums:
    """What several readings of one CPU amount to, each (count, enabled, running) of both events."""
    sums = AccessSums(plan_of(1, PAGE_FAULTS, TASK_CLOCK, is_total=is_total))
    for words in readings:
        sums.add(WEB, PLACE, words)
    return sums


def test_counts_that_ran_all_the_time_are_taken_as_they_are() -> None:
    sums = sums_of([(100, 10, 10, 30, 10, 10), (150, 20, 20, 31, 20, 20)])
    assert sums.accesses == {WEB: {(NODE, "local"): 150, (NODE, "remote"): 31}}
    assert sums.times == {WEB: {"enabled": 20, "running": 20}}


def test_a_count_that_ran_half_of_an_interval_is_doubled_for_that_interval_alone() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10), (150, 20, 15, 15, 20, 15)])
    assert sums.accesses == {WEB: {(NODE, "local"): 200, (NODE, "remote"): 20}}
    assert sums.times == {WEB: {"enabled": 20, "running": 15}}


def test_events_that_never_ran_give_no_data_and_not_0() -> None:
    sums = sums_of([(0, 10, 0, 0, 10, 0), (0, 20, 0, 0, 20, 0)])
    assert sums.accesses == {}
    assert sums.times == {WEB: {"enabled": 20, "running": 0}}


def test_an_interval_in_which_events_did_not_run_is_made_up_for_when_they_have() -> None:
    sums = sums_of([(0, 10, 0, 0, 10, 0), (100, 20, 10, 50, 20, 10)])
    assert sums.accesses == {WEB: {(NODE, "local"): 200, (NODE, "remote"): 100}}


def test_one_of_two_groups_that_take_turns_is_waited_for() -> None:
    """Neither alone says what was remote."""
    assert sums_of([(100, 10, 10, 0, 10, 0)]).accesses == {}
    assert sums_of([(100, 10, 10, 0, 10, 0), (100, 20, 10, 50, 20, 10)]).accesses == {
        WEB: {(NODE, "local"): 200, (NODE, "remote"): 100}
    }


def test_the_times_are_those_of_the_event_that_ran_least() -> None:
    sums = sums_of([(100, 10, 10, 7, 11, 2)])
    assert sums.times == {WEB: {"enabled": 11, "running": 2}}


def test_counters_that_start_again_at_0_add_all_they_have() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10), (5, 1, 1, 2, 1, 1)])
    assert sums.accesses == {WEB: {(NODE, "local"): 105, (NODE, "remote"): 12}}
    assert sums.times == {WEB: {"enabled": 11, "running": 11}}


def test_events_that_are_opened_again_add_all_they_have_even_if_it_is_more_than_before() -> None:
    sums = sums_of([(100, 10, 10, 10, 10, 10)])
    sums.begin_again(WEB)
    sums.add(WEB, PLACE, (200, 20, 20, 20, 20, 20))
    assert sums.accesses == {WEB: {(NODE, "local"): 300, (NODE, "remote"): 30}}


def test_a_difference_of_two_events_never_takes_back_what_was_counted() -> None:
    """Local is all less remote: by their noise a difference may come out below 0."""
    sums = sums_of([(100, 10, 10, 40, 10, 10), (110, 20, 20, 60, 20, 20)], is_total=True)
    assert sums.accesses == {WEB: {(NODE, "local"): 60, (NODE, "remote"): 60}}


def test_a_forgotten_cgroup_leaves_nothing() -> None:
    sums = sums_of([(100, 10, 10, 30, 10, 10)])
    assert (sums.cgroups(), sums.forget({WEB, 5}), sums.cgroups()) == ({WEB}, 1, set())
    assert (sums.accesses, sums.times) == ({}, {})


def test_map_entries_are_those_of_each_cpu_and_one_without_events_adds_nothing() -> None:
    first, second, never = (100, 10, 10, 30, 10, 10), (50, 10, 5, 15, 10, 5), (0,) * 6
    values = struct.pack("=18Q", *first, *never, *second)
    sums = AccessSums(faults_and_time())
    decode([MapEntries(struct.pack("=Q", WEB), values)], [(0, 0), (0, 1), (NODE, 2)], sums)
    near = {(0, "local"): 100, (0, "remote"): 30}
    assert sums.accesses == {WEB: {**near, (NODE, "local"): 100, (NODE, "remote"): 30}}


@given(st.lists(st.tuples(*[st.integers(0, SECOND)] * 6), max_size=20))
def test_any_readings_give_sums_that_never_fall(steps: list[tuple[int, ...]]) -> None:
    """An event runs for as long as it is enabled at most."""
    sums = AccessSums(faults_and_time())
    words: tuple[int, ...] = (0,) * 6
    last: dict[str, int] = {"local": 0, "remote": 0}
    for step in steps:
        grown = tuple(min(step[at], step[at - 1]) if at % 3 == 2 else step[at] for at in range(6))
        words = tuple(map(sum, zip(words, grown, strict=True)))
        sums.add(WEB, PLACE, words)
        now: dict[str, int] = {locality: count for (_, locality), count in sums.accesses.get(WEB, {}).items()}
        assert all(now.get(one, 0) >= count for one, count in last.items())
        last |= now
        assert 0 <= sums.times[WEB]["running"] <= sums.times[WEB]["enabled"]


PID = 7
ROOM = 100


@dataclass
class Kernel:
    """A made-up /proc, and a perf_event_open(2) whose events are open files of /dev/null."""

    root: Path
    opened: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Event, thread, CPU and the leader's descriptor, or -1."""
    attributes: list[bytes] = field(default_factory=list)
    refuse: Callable[[int], int | None] = lambda _: None
    """The error of an attempt to open an event of a thread; None = it opens."""

    @property
    def host(self) -> Host:
        return Host(self.root)

    def start(self, *threads: int) -> None:
        for one in threads:
            (self.root / f"proc/{PID}/task/{one}").mkdir(parents=True, exist_ok=True)

    def open_event(self, event: perf_event.Event, *, cpu: int, pid: int, group: int) -> int:
        error = self.refuse(pid)
        if error is not None:
            raise OSError(error, os.strerror(error))
        self.opened.append((event.config, pid, cpu, group))
        self.attributes.append(bytes(event.pack()))
        return os.open("/dev/null", os.O_RDONLY)

    def open_process(self, room: int = ROOM) -> ProcessEvents:
        return ProcessEvents.open(self.host, faults_and_time(), PID, room)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel(tmp_path)
    made.start(PID)
    monkeypatch.setattr(perf_event, "open_event", made.open_event)
    monkeypatch.setattr(perf_event, "enable", lambda _: None)
    before = _files()
    yield made
    assert _files() == before, "a descriptor was left open"


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_each_thread_has_a_group_of_its_own_on_any_cpu(kernel: Kernel) -> None:
    kernel.start(8)
    events = kernel.open_process()
    (first, _), (second, _) = (one.descriptors for one in events.by_thread)
    events.close()
    assert kernel.opened == [
        (PAGE_FAULTS.config, PID, -1, -1),
        (TASK_CLOCK.config, PID, -1, first),
        (PAGE_FAULTS.config, 8, -1, -1),
        (TASK_CLOCK.config, 8, -1, second),
    ]


def test_later_threads_are_inherited_and_forked_processes_are_not(kernel: Kernel) -> None:
    """Bits of struct perf_event_attr: disabled 0, inherit 1, inherit_thread 35. Read one by one, with both times."""
    kernel.open_process().close()
    read_format = [struct.unpack_from("=Q", one, 32)[0] for one in kernel.attributes]
    flags = [struct.unpack_from("=Q", one, 40)[0] for one in kernel.attributes]
    assert (read_format, flags) == ([3, 3], [1 | 1 << 1 | 1 << 35, 1 << 1 | 1 << 35])


def test_a_thread_that_has_just_ended_is_left_out(kernel: Kernel) -> None:
    kernel.start(8, 9)
    kernel.refuse = lambda thread: errno.ESRCH if thread == 8 else None
    events = kernel.open_process()
    events.close()
    assert [thread for _, thread, _, group in kernel.opened if group == -1] == [PID, 9]
    assert len(events.by_thread) == 2


def test_a_process_with_too_many_threads_opens_nothing(kernel: Kernel) -> None:
    kernel.start(*range(8, 1008))
    with pytest.raises(Unavailable, match="it has 1001 threads, and 100 more can be counted"):
        kernel.open_process()
    assert kernel.opened == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [(errno.EMFILE, Reason.TOO_MANY_FILES), (errno.ENOENT, Reason.NO_PMU), (errno.EBUSY, Reason.BUSY)],
)
def test_a_refusal_has_its_reason_and_closes_what_was_opened(kernel: Kernel, error: int, reason: Reason) -> None:
    kernel.start(8)
    kernel.refuse = lambda thread: error if thread == 8 else None
    with pytest.raises(ProbeRefusal) as refusal:
        kernel.open_process()
    assert refusal.value.reason is reason
    assert kernel.opened, "nothing was opened before"


def test_an_old_kernel_is_known_by_its_refusal(kernel: Kernel) -> None:
    kernel.refuse = lambda _: errno.EINVAL
    with pytest.raises(Unavailable, match=r"cannot count the threads of a process; Linux 5\.13 or newer can"):
        kernel.open_process()


def test_events_are_opened_again_when_a_thread_began_meanwhile(kernel: Kernel) -> None:
    def begin(thread: int) -> None:
        if thread == PID:
            kernel.start(8)

    kernel.refuse = begin
    events = kernel.open_process()
    events.close()
    assert len(events.by_thread) == 2
    assert [thread for _, thread, _, group in kernel.opened if group == -1] == [PID, PID, 8]


def test_a_process_that_never_stops_to_start_threads_is_given_up(kernel: Kernel) -> None:
    kernel.refuse = lambda thread: kernel.start(max(8, thread + 1))
    with pytest.raises(Unavailable, match="it started threads while its events were opened"):
        kernel.open_process()


def test_the_limit_of_open_files_bounds_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
    assert process_events.most_threads(faults_and_time()) == 128
    monkeypatch.setattr("resource.getrlimit", lambda _: (1 << 20, 1 << 20))
    assert process_events.most_threads(faults_and_time()) == process_events.MOST_THREADS


def test_a_machine_without_the_call_has_a_reason(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> int:
        return syscall.call("no such call")  # type: ignore[arg-type]

    monkeypatch.setattr(perf_event, "open_event", unknown)
    with pytest.raises(Unavailable, match="is not known"):
        kernel.open_process()
