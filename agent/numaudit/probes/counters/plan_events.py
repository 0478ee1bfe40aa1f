"""The events of a plan, opened on a CPU: of all tasks there, or of a cgroup's."""

from __future__ import annotations

import ctypes
import errno
import mmap
import operator
import os
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event
from numaudit.pmu.choose import CannotCount, Plan, first_that_opens, plans
from numaudit.probes import reasons
from numaudit.probes.counters.accesses import WORDS, Words
from numaudit.probes.reasons import ProbeRefusal, Reason

_LOAD = 16 << 20
"""Bytes that are used to see whether the events count."""
_TRIES = 5
_NOT_HERE = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO)
"""Error numbers of opening an event that this CPU, its driver or its hypervisor does not have."""
FindPlans = Callable[[Host], Sequence[Plan]]
"""Finder of the plans for a host, the best first. Raises ProbeRefusal."""


class PlanEvents(Struct, frozen=True):
    """Descriptors of one CPU's events, switched on. The caller closes them."""

    groups: tuple[tuple[int, ...], ...]
    """As the plan has them; the first of each leads."""

    @classmethod
    def open(cls, plan: Plan, cpu: int, cgroup: int | None = None) -> PlanEvents:
        """Of all tasks on the CPU, or of a cgroup folder's descriptor. Raises OSError as `open_group` does."""
        return cls.opened(plan, lambda events: perf_event.open_group(events, cpu=cpu, cgroup=cgroup))

    @classmethod
    def of_thread(cls, plan: Plan, thread: int) -> PlanEvents:
        """Of one thread and those that it starts. Raises OSError as `open_group_of_thread` does."""
        return cls.opened(plan, lambda events: perf_event.open_group_of_thread(events, thread))

    @classmethod
    def opened(cls, plan: Plan, open_group: Callable[[Sequence[Event]], list[int]]) -> PlanEvents:
        """Each group of the plan is opened by `open_group`. Raises OSError as that does, and leaves none open."""
        found: list[tuple[int, ...]] = []
        try:
            for group in plan.groups:
                found.append(tuple(open_group([Event(plan.type, one.config, one.config1) for one in group])))
                perf_event.enable(found[-1][0])
        except OSError:
            cls(tuple(found)).close()
            raise
        return cls(tuple(found))

    @property
    def descriptors(self) -> Iterator[int]:
        """In the order of the plan's events."""
        return (descriptor for group in self.groups for descriptor in group)

    def read(self) -> Words:
        """Counts since the events were opened. Raises OSError."""
        found = [perf_event.read_group(leader) for leader, *_ in self.groups]
        return tuple(word for one in found for count in one.counts for word in (count, one.enabled, one.running))

    def are_counting(self) -> bool:
        """Does their time pass? It stands still, and for good, once their CPU has gone offline. Raises OSError."""
        return self.read()[1] != self.read()[1]

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def plans_here(host: Host) -> Sequence[Plan]:
    """Plans that tell local from remote memory accesses on this machine. Raises ProbeRefusal."""
    try:
        return plans(read_cores(host, read_machine(host)))
    except CannotCount as error:
        raise ProbeRefusal(Reason.NO_PMU, error.text) from error
    except Unavailable as error:
        raise ProbeRefusal(Reason.NO_PMU, str(error)) from error


def choose_plan(host: Host, find_plans: FindPlans) -> Plan:
    """The best one whose events this kernel opens now. Raises ProbeRefusal."""
    candidates = find_plans(host)
    try:
        cpu = perf_event.any_cpu(host)
        plan, events = first_that_opens(candidates, lambda plan: PlanEvents.open(plan, cpu))
    except OSError as error:
        raise cannot_open(candidates[-1], error) from error
    events.close()
    return plan


def cannot_open(plan: Plan, error: OSError) -> ProbeRefusal:
    names = ", ".join(dict.fromkeys(event.name for event in plan.events))
    if error.errno in _NOT_HERE:
        return ProbeRefusal(Reason.NO_PMU, f"the kernel does not count {names}: {error.strerror}")
    return reasons.of_perf_event(f"cannot count {names}", error)


def require_counts(plan: Plan, counters: Collection[PlanEvents]) -> None:
    """Raises ProbeRefusal when the events of a plan count nothing on any CPU while memory is used: an event that opens
    may never count, and that must not be taken for no accesses.

    Nor may one that stands still make a difference of two counts negative: on some Neoverse systems, firmware keeps
    LL_CACHE_MISS_RD at 0 (CPUECTLR_EL1.EXTLLC).
    """
    names = ", ".join(dict.fromkeys(event.name for event in plan.events))
    for _ in range(_TRIES):
        use_memory()
        read = [one.read() for one in counters]
        totals = [sum(column) for column in zip(*read, strict=True)]
        counts = totals[::WORDS]
        found = plan.accesses([float(count) for count in counts])
        if found is not None and found.local + found.remote > 0:
            if sum(map(operator.mul, plan.local, counts)) < 0:
                raise ProbeRefusal(
                    Reason.COUNTS_NOTHING, f"{names}: they count fewer accesses in total than remote ones"
                )
            return
    if not any(totals[2::WORDS]):
        raise ProbeRefusal(
            Reason.BUSY, f"the counters never run for {names}: another user has them, such as the NMI watchdog"
        )
    raise ProbeRefusal(
        Reason.COUNTS_NOTHING, f"the events {names} can be opened, but count nothing while memory is used"
    )


def use_memory() -> None:
    """Fresh pages, which no cache has: some 5 ms."""
    with mmap.mmap(-1, _LOAD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.c_char.from_buffer(pages)
        ctypes.memset(ctypes.addressof(start), 1, len(pages))
        del start  # it keeps the mapping open
