"""First uses of pages on this host's own kernel: counted exactly, lost ones counted, and refusals with a reason."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event
from numaudit.probes import first_touch
from numaudit.probes.first_touch import FirstTouchProbe
from numaudit.probes.reasons import ProbeRefusal, Reason
from processes.agent_process import PATIENCE

pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
StartWorker = Callable[[Path, int], Callable[[str], None]]
MIB = 1 << 20


@pytest.fixture
def every_fault() -> Iterator[FirstTouchProbe]:
    probe = FirstTouchProbe(Host(), period=1)
    yield probe
    probe.close()


def test_each_page_that_a_cgroup_uses_first_is_one_sample(
    every_fault: FirstTouchProbe, new_group: NewGroup, start_worker: StartWorker
) -> None:
    groups = [new_group("first-small"), new_group("first-large")]
    orders = [start_worker(group, size) for group, size in zip(groups, (2 * MIB, 8 * MIB), strict=True)]
    for _ in range(20):  # others on this host fault as well, and may fill a ring
        before = every_fault.read()
        for order in orders:
            order("refill")
        every_fault.read()
        _use_a_page_on_each_cpu()  # the kernel reports losses with the next sample that fits
        added = every_fault.read().since(before)
        if not added.all_lost:
            break
    else:
        pytest.skip(f"inconclusive: samples were lost: {added.lost}")
    small, large = (sum(added.samples[group.stat().st_ino].values()) for group in groups)
    assert 512 <= small < 512 + 64
    assert 2048 <= large < 2048 + 64


def test_what_the_kernel_throttles_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page faults are never throttled, one by one as they come; a clock that ticks too often is, at the same ring."""
    clock = Event(
        perf_event.TYPE_SOFTWARE,
        config=0,
        sample_period=10_000,
        sample_type=1 << 19 | 1 << 21,
        read_format=perf_event.TIME_ENABLED,
    )
    monkeypatch.setattr(first_touch, "_event", lambda _: clock)
    limit = Path("/proc/sys/kernel/perf_event_max_sample_rate")
    usual = limit.read_text()
    limit.write_text("500")
    try:
        probe = FirstTouchProbe(Host())
        try:
            end = time.monotonic() + PATIENCE
            while (read := probe.read()).throttled < 5 and time.monotonic() < end:
                pass
        finally:
            probe.close()
    finally:
        limit.write_text(usual)
    assert read.throttled >= 5


def test_what_finds_the_ring_full_is_counted(
    new_group: NewGroup, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring of one page holds some 170 samples: what the worker touches is seen or lost, each page once."""
    monkeypatch.setattr(first_touch, "_RING", mmap.PAGESIZE)
    group = new_group("overrun")
    order = start_worker(group, 8 * MIB)
    probe = FirstTouchProbe(Host(), period=1)
    try:
        order("refill")
        probe.read()
        order("refill")  # the kernel reports a loss with the next record that fits
        found = probe.read()
    finally:
        probe.close()
    seen = sum(sum(row.values()) for row in found.samples.values()) + found.lost["no-address"]
    assert found.lost["ring-full"] > 1000
    assert seen + found.lost["ring-full"] >= 2048


def test_a_longer_period_gives_fewer_samples(new_group: NewGroup, start_worker: StartWorker) -> None:
    group = new_group("period")
    order = start_worker(group, 8 * MIB)
    probe = FirstTouchProbe(Host(), period=16)
    try:
        before = probe.read()
        for _ in range(8):
            order("refill")
        added = probe.read().since(before)
    finally:
        probe.close()
    # Of all that faults on a CPU each 16th is taken, whoever it is.
    assert sum(added.samples[group.stat().st_ino].values()) == pytest.approx(8 * 2048 / 16, rel=0.3)


def test_a_dead_cgroups_samples_are_forgotten(
    every_fault: FirstTouchProbe, new_group: NewGroup, start_worker: StartWorker
) -> None:
    group = new_group("forgotten")
    order = start_worker(group, MIB)
    for _ in range(20):  # others on this host fault as well, and may fill a ring
        if group.stat().st_ino in every_fault.read().samples:
            break
        order("refill")
    (group / "cgroup.kill").write_text("1")
    while (group / "cgroup.procs").read_text():
        time.sleep(0.01)
    assert group.stat().st_ino in every_fault.read().samples
    assert every_fault.forget(every_fault.cgroups() - {1}) > 0
    assert group.stat().st_ino not in every_fault.read().samples


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EMFILE, Reason.TOO_MANY_FILES),
        (errno.EBUSY, Reason.BUSY),
        (errno.EINVAL, Reason.UNSUPPORTED),
        (errno.ENOENT, Reason.NO_EVENT),
    ],
)
def test_an_event_that_cannot_be_opened_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: Reason
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(perf_event, "open_event", refuse)
    with pytest.raises(ProbeRefusal, match=os.strerror(code)) as refusal:
        FirstTouchProbe(Host())
    assert refusal.value.reason is reason


def test_a_process_without_descriptors_left_is_refused_and_leaks_none() -> None:
    """One descriptor is left, the lowest: what other tests left behind is closed meanwhile at higher ones only."""
    gc.collect()
    used = _descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = os.dup(0)
    os.close(left)
    resource.setrlimit(resource.RLIMIT_NOFILE, (left + 1, hard))
    try:
        with pytest.raises(ProbeRefusal, match="Too many open files") as refusal:
            FirstTouchProbe(Host())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refusal.value.reason is Reason.TOO_MANY_FILES
    assert not _descriptors() - used


def test_closing_gives_back_descriptors_and_mappings() -> None:
    def held() -> tuple[int, int]:
        events = [
            number for number in _descriptors() if "perf_event" in str(Path(f"/proc/self/fd/{number}").readlink())
        ]
        return len(events), Path("/proc/self/maps").read_text().count("perf_event")

    before = held()
    for _ in range(3):
        probe = FirstTouchProbe(Host())
        cpus = len(os.sched_getaffinity(0))
        assert held() >= (before[0] + cpus, before[1] + cpus)
        probe.close()
    assert held() == before


def _use_a_page_on_each_cpu() -> None:
    cpus = os.sched_getaffinity(0)
    for cpu in cpus:
        os.sched_setaffinity(0, {cpu})
        with mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
            page[0] = 1
    os.sched_setaffinity(0, cpus)


def _descriptors() -> set[int]:
    """All that are open, but not the one that lists them."""
    names = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    return {number for number in names if Path(f"/proc/self/fd/{number}").exists()}
