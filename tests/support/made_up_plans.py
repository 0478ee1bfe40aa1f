"""Events that count something else than memory accesses, for machines whose processor counts none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from numaudit.kernel.perf_event import TYPE_SOFTWARE
from numaudit.pmu.choose import Plan
from numaudit.pmu.families import Encoding, EventSet, families

TASK_CLOCK, PAGE_FAULTS = Encoding("task-clock", 1), Encoding("page-faults", 2)
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
