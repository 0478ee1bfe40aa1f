"""Does the PMU count local and remote memory accesses here, and if not, why?"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from numaudit.kernel import perf_event
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kernel.perf_event import Event
from numaudit.pmu.choose import Cores, Plan, first_that_opens, plans, scaled
from numaudit.pmu.refusals import counts_nothing, never_ran, why_not_open

_LOAD = 64 << 20
"""Bytes of fresh memory that a test load writes and reads, again and again."""
_COUNTED_WITHIN = 1.0
"""Seconds of the test load. An event that opens may count nothing: a hypervisor can filter it."""
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_READING = struct.Struct("=QQQ")


def check_pmu(host: Host, *, under_load: bool) -> str:
    """What it counts here. Raises CannotCount with the reason when it does not, and Unavailable.

    `under_load`: also count what a test load of this very thread does, for at most a second.
    """
    cores = read_cores(host, read_machine(host))
    candidates = plans(cores)
    try:
        plan, opened = first_that_opens(candidates, lambda one: _open(one, cpu=perf_event.any_cpu(host), pid=-1))
        _close(opened)
        if under_load:
            _count_a_load(cores, plan)
    except OSError as error:
        raise why_not_open(error.errno or 0, cores, candidates[-1]) from error
    noticed = "; a test load was noticed" if under_load else ""
    return f"{_what(cores, plan)}{noticed}"


def _what(cores: Cores, plan: Plan) -> str:
    counted = "cache lines" if plan.set.unit == "lines" else "retired loads"
    turns = ", in turns" if len(plan.groups) > 1 else ""
    physical = (
        "; local means local to the physical node, whatever nodes the hypervisor shows" if cores.is_virtual else ""
    )
    return f"counted local and remote memory accesses ({plan.family.title}: {counted}, {plan.set.id}{turns}){physical}"


def _count_a_load(cores: Cores, plan: Plan) -> None:
    """Raises CannotCount when nothing of it is counted, OSError."""
    with _counting(plan) as opened:
        end = time.monotonic() + _COUNTED_WITHIN
        while True:
            _use_memory()
            found = plan.accesses(_read(opened))
            if found is not None and found.local + found.remote > 0:
                return
            if time.monotonic() > end:
                raise never_ran(cores) if found is None else counts_nothing(cores, plan, _COUNTED_WITHIN)


@contextmanager
def _counting(plan: Plan) -> Iterator[Sequence[int]]:
    """The events of this thread, on whatever CPU it runs."""
    opened = _open(plan, cpu=-1, pid=0)
    try:
        for descriptor in opened:
            perf_event.enable(descriptor)
        yield opened
    finally:
        _close(opened)


def _open(plan: Plan, *, cpu: int, pid: int) -> list[int]:
    """Descriptors in the order of the plan's events. Raises OSError."""
    opened: list[int] = []
    try:
        for group in plan.groups:
            leader = -1
            for one in group:
                event = Event(plan.type, one.config, one.config1, read_format=_TIMES)
                opened.append(perf_event.open_event(event, cpu=cpu, pid=pid, group=leader))
                leader = opened[-1] if leader < 0 else leader
    except OSError:
        _close(opened)
        raise
    return opened


def _close(opened: Sequence[int]) -> None:
    for descriptor in opened:
        os.close(descriptor)


def _read(opened: Sequence[int]) -> list[float | None]:
    return [scaled(*_READING.unpack(os.read(one, _READING.size))) for one in opened]


def _use_memory() -> None:
    """Fresh pages, so that no cache holds them."""
    with mmap.mmap(-1, _LOAD) as pages:
        for page in range(0, _LOAD, mmap.PAGESIZE):
            pages[page] = 1
        pages.find(b"none of the bytes")
