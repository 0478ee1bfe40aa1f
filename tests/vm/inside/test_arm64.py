"""The emulated PMU of the arm64 guest counts, groups, multiplexes and overflows as the kernel's driver expects.

Every CPU there runs one instruction in two cycles of its 1 GHz, so one count is known from the other.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event

pytestmark = pytest.mark.pmu

DEVICES = Path("/sys/bus/event_source/devices")
CYCLES, INSTRUCTIONS, REMOTE_ACCESS = 0x11, 0x08, 0x31
"""Numbers of the Arm architecture (drivers/perf/arm_pmuv3.c)."""
COUNTERS = 7
"""Six that count any event, and one that counts cycles."""
GROUP = 1 << 0 | 1 << 1 | 1 << 3  # PERF_FORMAT_TOTAL_TIME_ENABLED, _TOTAL_TIME_RUNNING, PERF_FORMAT_GROUP
SAMPLE_TIME = 1 << 2  # PERF_SAMPLE_TIME


@dataclass(frozen=True, slots=True)
class Read:
    """What a group of events has counted, and for how long it was on the PMU."""

    enabled: int
    running: int
    counts: tuple[int, ...]


def _pmu() -> Path:
    (found,) = DEVICES.glob("armv8_pmuv3*")
    return found


def _event(number: int) -> Event:
    return Event(int((_pmu() / "type").read_text()), number, read_format=GROUP)


@contextlib.contextmanager
def _group(events: Sequence[Event]) -> Iterator[list[int]]:
    """Descriptors of events of this thread that are counted together, the leader's first."""
    opened: list[int] = []
    try:
        for event in events:
            opened.append(perf_event.open_event(event, pid=0, cpu=-1, group=opened[0] if opened else -1))
        for descriptor in reversed(opened):
            perf_event.enable(descriptor)
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _read(descriptors: Sequence[int]) -> Read:
    words = struct.unpack(f"={3 + len(descriptors)}Q", os.read(descriptors[0], 8 * (3 + len(descriptors))))
    assert words[0] == len(descriptors)
    return Read(words[1], words[2], words[3:])


def _work(rounds: int = 300_000) -> None:
    for number in range(rounds):
        number * number


def _counted(events: Sequence[Event]) -> Read:
    with _group(events) as descriptors:
        _work()
        return _read(descriptors)


def test_the_pmu_lists_the_events_that_it_implements() -> None:
    listed = {one.name for one in (_pmu() / "events").iterdir()}
    assert {"cpu_cycles", "inst_retired"} <= listed
    assert "remote_access" not in listed


def test_cycles_are_exactly_twice_the_instructions() -> None:
    read = _counted([_event(CYCLES), _event(INSTRUCTIONS)])
    cycles, instructions = read.counts
    assert instructions > 1_000_000
    assert cycles == pytest.approx(2 * instructions, rel=0.001)
    assert read.running == read.enabled > 0


def test_an_event_that_is_not_implemented_opens_and_counts_nothing() -> None:
    cycles, remote = _counted([_event(CYCLES), _event(REMOTE_ACCESS)]).counts
    assert cycles > 0
    assert remote == 0


def test_a_group_as_large_as_the_pmu_runs() -> None:
    read = _counted([_event(CYCLES)] + [_event(INSTRUCTIONS)] * (COUNTERS - 1))
    assert read.running == read.enabled > 0
    assert all(read.counts)


def test_a_group_that_is_too_large_opens_and_never_runs() -> None:
    read = _counted([_event(CYCLES)] + [_event(INSTRUCTIONS)] * COUNTERS)
    assert read.enabled > 0
    assert read.running == 0
    assert not any(read.counts)


def test_events_that_do_not_fit_together_take_turns() -> None:
    singles = 3 * COUNTERS
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(_group([_event(INSTRUCTIONS)])) for _ in range(singles)]
        _work(1_000_000)
        reads = [_read(one) for one in groups]
    shares = [one.running / one.enabled for one in reads]
    assert all(0 < share < 1 for share in shares)
