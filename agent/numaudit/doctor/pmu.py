"""Does the PMU count local and remote memory accesses here, and if not, why?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.pmu.choose import Cores, Plan, counts_nothing, first_that_opens, never_ran, plans, why_not_open
from numaudit.probes.counters.accesses import accesses_of
from numaudit.probes.counters.plan_events import PlanEvents, use_memory

_COUNTED_WITHIN = 1.0
"""Seconds of the test load. An event that opens may count nothing: a hypervisor can filter it."""


def check_pmu(host: Host, *, under_load: bool) -> str:
    """Describe what the PMU counts here. Raises CannotCount with the reason when it does not, Unavailable, OSError.

    `under_load`: also count what a test load of this very thread does, on one CPU, for at most a second.
    """
    cores = read_cores(host, read_machine(host))
    candidates = plans(cores)
    cpu = min(os.sched_getaffinity(0))
    try:
        plan, events = first_that_opens(candidates, lambda one: PlanEvents.open(one, cpu))
    except OSError as error:
        raise why_not_open(error.errno or 0, cores, candidates[-1]) from error
    try:
        if under_load:
            count_a_load(cores, plan, events, cpu)
    finally:
        events.close()
    noticed = "; it noticed a test load" if under_load else ""
    return f"{_what(cores, plan)}{noticed}"


def _what(cores: Cores, plan: Plan) -> str:
    counted = "cache lines" if plan.set.unit == "lines" else "retired loads"
    turns = ", in turns" if len(plan.groups) > 1 else ""
    physical = (
        "; local means local to the physical node, whatever nodes the hypervisor shows" if cores.is_virtual else ""
    )
    return f"counted local and remote memory accesses ({plan.family.title}: {counted}, {plan.set.id}{turns}){physical}"


def count_a_load(cores: Cores, plan: Plan, events: PlanEvents, cpu: int) -> None:
    """Raises CannotCount when nothing of it is counted, OSError."""
    with _on(cpu):
        end = time.monotonic() + _COUNTED_WITHIN
        while True:
            use_memory()
            found = accesses_of(plan, events.read())
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
