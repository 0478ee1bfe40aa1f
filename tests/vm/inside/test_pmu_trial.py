"""What the doctor's trial makes of an emulated PMU: real counters, but none that tell local from remote memory."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from numaudit.doctor.sources import count_a_load
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.pmu.choose import Cores, Plan, first_that_opens, plans
from numaudit.pmu.families import Encoding
from numaudit.probes.counters.plan_events import PlanEvents

pytestmark = pytest.mark.pmu

CYCLES, INSTRUCTIONS = Encoding("cycles", 0x11), Encoding("instructions", 0x08)


def _cores() -> Cores:
    """This machine as if each node were a socket whose PMU had the events in its list."""
    cores = read_cores(Host(), read_machine(Host()))
    (pmu,) = cores.pmus
    listed = replace(pmu, events=pmu.events | {"ll_cache_miss_rd", "remote_access"})
    return replace(cores, pmus=(listed,), sockets=cores.nodes)


def _count(plan: Plan) -> None:
    cpu = min(os.sched_getaffinity(0))
    events = PlanEvents.open(plan, cpu)
    try:
        count_a_load(_cores(), plan, events, cpu)
    finally:
        events.close()


def test_the_cpu_and_its_pmu_are_known() -> None:
    cores = read_cores(Host(), read_machine(Host()))
    assert [str(cpu) for cpu in cores.cpus] == ["implementer 0x41 part 0xd0c"]
    (pmu,) = cores.pmus
    assert "cpu_cycles" in pmu.events
    assert cores.nodes == 4


def test_events_that_count_are_a_source() -> None:
    (plan,) = plans(_cores())
    _count(replace(plan, groups=((CYCLES, INSTRUCTIONS),)))


def test_two_groups_take_turns_and_both_count() -> None:
    (plan,) = plans(_cores())
    groups = ((CYCLES, INSTRUCTIONS), (INSTRUCTIONS, INSTRUCTIONS))
    _count(replace(plan, groups=groups, local=(0, 0, 1, 0), remote=(0, 0, 0, 1)))


def test_a_group_that_never_fits_is_refused_so_that_the_next_set_is_tried() -> None:
    (plan,) = plans(_cores())
    large = replace(plan, groups=((CYCLES, *(INSTRUCTIONS,) * 7),))
    fitting = replace(plan, groups=((CYCLES, INSTRUCTIONS),))
    cpu = min(os.sched_getaffinity(0))
    found, events = first_that_opens((large, fitting), lambda one: PlanEvents.open(one, cpu))
    events.close()
    assert found is fitting
