"""Does the PMU count local and remote memory accesses here, and if not, why?"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
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

Groups = list[list[int]]
"""Descriptors of each group of a plan, the leader first."""


def check_pmu(host: Host, *, under_load: bool) -> str:
    """What it counts here. Raises CannotCount with the reason when it does not, Unavailable, OSError.

    `under_load`: also count what a test load of this very thread does, on one CPU, for at most a second.
    """
    cores = read_cores(host, read_machine(host))
    candidates = plans(cores)
    cpu = min(os.sched_getaffinity(0))
    try:
        plan, opened = first_that_opens(candidates, lambda one: _open(one, cpu))
    except OSError as error:
        raise why_not_open(error.errno or 0, cores, candidates[-1]) from error
    try:
        if under_load:
            _count_a_load(cores, plan, opened, cpu)
    finally:
        _close(opened)
    noticed = "; a test load was noticed" if under_load else ""
    return f"{_what(cores, plan)}{noticed}"


def _what(cores: Cores, plan: Plan) -> str:
    counted = "cache lines" if plan.set.unit == "lines" else "retired loads"
    turns = ", in turns" if len(plan.groups) > 1 else ""
    physical = (
        "; local means local to the physical node, whatever nodes the hypervisor shows" if cores.is_virtual else ""
    )
    return f"counted local and remote memory accesses ({plan.family.title}: {counted}, {plan.set.id}{turns}){physical}"


def _count_a_load(cores: Cores, plan: Plan, opened: Groups, cpu: int) -> None:
    """Raises CannotCount when nothing of it is counted, OSError."""
    with _on(cpu):
        for leader, *_ in opened:
            perf_event.enable(leader)
        end = time.monotonic() + _COUNTED_WITHIN
        while True:
            _use_memory()
            found = plan.accesses(_read(opened))
            if found is not None and found.local + found.remote > 0:
                return
            if time.monotonic() > end:
                raise never_ran(cores) if found is None else counts_nothing(cores, plan, _COUNTED_WITHIN)


@contextmanager
def _on(cpu: int) -> Iterator[None]:
    """This thread runs on that CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _open(plan: Plan, cpu: int) -> Groups:
    """The plan's groups, of all tasks on that CPU. Raises OSError."""
    opened: Groups = []
    try:
        for group in plan.groups:
            events = [Event(plan.type, one.config, one.config1) for one in group]
            opened.append(perf_event.open_group(events, cpu=cpu))
    except OSError:
        _close(opened)
        raise
    return opened


def _close(opened: Groups) -> None:
    for group in opened:
        for descriptor in group:
            os.close(descriptor)


def _read(opened: Groups) -> list[float | None]:
    """The scaled count of each event, in the order of the plan's."""
    read = [perf_event.read_group(leader) for leader, *_ in opened]
    return [scaled(count, group.enabled, group.running) for group in read for count in group.counts]


def _use_memory() -> None:
    """Fresh pages, so that no cache holds them."""
    with mmap.mmap(-1, _LOAD) as pages:
        for page in range(0, _LOAD, mmap.PAGESIZE):
            pages[page] = 1
        pages.find(b"none of the bytes")
