"""Events that count something else than memory accesses, for machines whose processor counts none."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from numaudit.kernel.tracing.perf_event import TYPE_SOFTWARE
from numaudit.pmu.choose import Plan
from numaudit.pmu.families import Encoding, EventSet, families

TASK_CLOCK, PAGE_FAULTS = Encoding("task-clock", 1), Encoding("page-faults", 2)
ALIGNMENT_FAULTS = Encoding("alignment-faults", 7)
"""A software event that never happens on processors of our day."""
CYCLES, INSTRUCTIONS = Encoding("cpu_cycles", 0x11), Encoding("inst_retired", 0x08)
LAST_LEVEL_MISSES, REMOTE_ACCESSES = Encoding("ll_cache_miss_rd", 0x37), Encoding("remote_access", 0x31)
"""Numbers of the Arm architecture (drivers/perf/arm_pmuv3.c)."""
TSC = Encoding("tsc", 0)
"""Of the PMU `msr`: the clock of an x86 processor."""
DEVICES = Path("/sys/bus/event_source/devices")


def plan_of(kind: int, local: Encoding, remote: Encoding, *, is_total: bool = False) -> Plan:
    """One event in the place of each; `is_total`: the first counts what the second does as well."""
    pair = EventSet("made_up", 1, "lines", ("demand_loads",), "", "", (local,), (remote,))
    return Plan(families()[0], pair, kind, ((local, remote),), (1, -1 if is_total else 0), (0, 1))


def faults_and_time() -> Plan:
    """Page faults in the place of local accesses, nanoseconds of CPU time in that of remote ones."""
    return plan_of(TYPE_SOFTWARE, PAGE_FAULTS, TASK_CLOCK)


def of_device(name: str, plan: Plan) -> Plan:
    """The same events of a PMU in /sys/bus/event_source/devices."""
    return replace(plan, type=int((DEVICES / name / "type").read_text()))


def cycles_and_instructions() -> Plan:
    """On an arm64 machine."""
    (pmu,) = DEVICES.glob("armv8_pmuv3*")
    return of_device(pmu.name, plan_of(0, CYCLES, INSTRUCTIONS))


def open_events() -> int:
    """How many perf events this process has open."""
    names = (str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("perf_event" in name for name in names)
