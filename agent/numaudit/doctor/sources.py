"""From which node is memory used? The sources in their fallback order, the best first.

A source works when it was tried and noticed a test load: an event that can be opened may still count nothing.
To add one, write its check and add it to SOURCE_CHECKS; its values carry its name as their `source`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct

from numaudit.doctor.outcome import failed
from numaudit.engine.collectors.base import require_v2
from numaudit.engine.collectors.probes.hint_faults import require_sampling
from numaudit.errors import NumauditError, Unavailable
from numaudit.evaluation.access import Source
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.memory.numa_balancing import read_vmstat
from numaudit.kernel.node import read_machine
from numaudit.pmu.choose import Cores, Plan, counts_nothing, first_that_opens, never_ran, plans, why_not_open
from numaudit.probes.counters.accesses import accesses_of
from numaudit.probes.counters.plan_events import PlanEvents, use_memory
from numaudit.probes.counters.reference_workload import reference_workload
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.snapshot import Check

_LOAD = 16 << 20
"""Bytes that the load for hint faults uses, by two threads: of one thread the kernel takes no local samples."""
_SAMPLES_WITHIN = 4.0
"""Seconds. NUMA balancing first scans a new process after one second of its CPU time, and then each second."""
_SPIN = 0.05


_COUNTED_WITHIN = 1.0
"""Seconds of the test load. An event that opens may count nothing: a hypervisor can filter it."""


class Trial(Struct, frozen=True):
    """Context in which sources are tested."""

    host: Host
    session: Session
    under_load: bool
    """May a check make a load of its own, for some seconds?"""


class SourceCheck(Struct, frozen=True):
    """One source. `check` says how it works here, or raises Unavailable with the reason when it does not."""

    source: Source | Literal["pmu"]
    check: Callable[[Trial], str]


def check_sources(trial: Trial) -> tuple[Check, ...]:
    """Each source: whether it works, and if not why. One that fails stops no other."""
    return tuple(_try(one, trial) for one in SOURCE_CHECKS)


def _try(one: SourceCheck, trial: Trial) -> Check:
    name = f"access {one.source}"
    try:
        if not trial.host.is_live:
            raise ProbeRefusal(Reason.NOT_LIVE, f"{trial.host.root} is a captured tree")
        return Check(name, "ok", one.check(trial))
    except (NumauditError, OSError, ValueError) as error:
        return failed(name, error)


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


def _check_hint_faults(trial: Trial) -> str:
    require_v2(find_hierarchies(trial.host))
    require_sampling(trial.host, read_machine(trial.host))
    before, own_before = _count_faults(trial.session), kernel_samples(trial.host)
    what = "NUMA balancing's samples of pages that are used, by CPU's node and memory's node"
    if not trial.under_load:
        return what
    with reference_workload(_LOAD, threads=2) as work:
        work.order("touch")
        deadline = time.monotonic() + _SAMPLES_WITHIN
        while time.monotonic() < deadline and _count_faults(trial.session) == before:
            time.sleep(0.05)
    seen, own = _count_faults(trial.session) - before, kernel_samples(trial.host) - own_before
    if seen:
        return f"{what}; it noticed a test load"
    if own:
        raise Unavailable(f"the kernel took {own} samples of a test load, and the probe counted none of them")
    raise Unavailable(f"the kernel took no sample of a test load within {_SAMPLES_WITHIN:g} s")


def _count_faults(session: Session) -> int:
    return sum(sum(row.values()) for row in session.read(HINT_FAULTS).faults.values())


def kernel_samples(host: Host) -> int:
    return read_vmstat(host).get("numa_hint_faults", 0)


def _check_expected(trial: Trial) -> str:
    """CPU time must grow while this very process spins, unless it is in the root cgroup, which is not counted."""
    require_v2(find_hierarchies(trial.host))
    before = _count_time(trial.session)
    what = "an estimate from where bytes are and where CPUs ran: the remote share if all bytes were used equally"
    if not trial.under_load:
        return what
    end = time.process_time() + _SPIN
    while time.process_time() < end:
        pass
    if _count_time(trial.session) > before:
        return f"{what}; it noticed a test load"
    if "0::/" in read_text(trial.host.proc / "self/cgroup").splitlines():
        return f"{what}; not tested under load, because this process is in the root cgroup"
    raise Unavailable("the probe cpu_time counted nothing while this process was busy")


def _count_time(session: Session) -> int:
    return sum(sum(row.values()) for row in session.read(CPU_TIME).by_node.values())


SOURCE_CHECKS: tuple[SourceCheck, ...] = (
    SourceCheck("pmu", lambda trial: check_pmu(trial.host, under_load=trial.under_load)),
    SourceCheck("hint_faults", _check_hint_faults),
    SourceCheck("expected", _check_expected),
)
