"""What counting two events for each cgroup costs at a switch: by a BPF program, and by the kernel's events of cgroups.

Run as root: python tests/bench/bench_pmu.py [REPETITIONS]. It fails when a goal is missed. The events are those of
software, so that it runs where there is no PMU; to read those of the hardware costs something else.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most, cost, repetitions, run
from made_up.plans import faults_and_time
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.probes import pmu
from numaudit.probes.counters.plan_events import PlanEvents
from numaudit.probes.loading import loader
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.pmu import PmuProbe
from numaudit.probes.reasons import ProbeRefusal
from ping_pong import SWITCHES, copy, group, ping_pong, statistics

HOST, PLAN = Host(), faults_and_time()
NS_PER_SWITCH, PART_OF_CGROUP_EVENTS = 540, 0.5
EMPTY = "int empty_at_switch(void *ctx) { return 0; }"


def main() -> None:
    if os.geteuid() != 0:
        raise Unavailable("run as root: it loads BPF programs")
    os.nice(-19)  # what others run beside us empties the caches
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; the best of each line counts", flush=True)
    with ExitStack() as stack:
        one, other = (stack.enter_context(group(name)) for name in ("one", "other"))
        probe, empty = _load(stack)
        net = _program(probe, empty, one, other)
        between = _added(probe, one, other)
        inside = _added(probe, one, one)
    ratio = between["pmu"] / between["cgroup events"]
    print(f"what it adds inside a cgroup {inside['pmu']:8.4g} ns; cgroup events {inside['cgroup events']:.4g} ns")
    at_most("pmu at a switch between cgroups", net, NS_PER_SWITCH, "ns")
    cost("event", "pmu, two counters (of software) at a switch between cgroups", net, "ns")
    at_most("pmu at a switch, of what cgroup events add", ratio, PART_OF_CGROUP_EVENTS)


def _load(stack: ExitStack) -> tuple[LoadedProbe, int]:
    """The probe, and a program that does nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".bpf.c") as text:
        text.write(EMPTY)
        text.flush()
        programs = (BpfProgram("empty_at_switch", ProgramType.RAW_TRACEPOINT),)
        empty = ProbeRequest("empty", programs, (), source=Path(text.name))
        loaded = loader.load([empty, pmu.request(PLAN, HOST, 1000)])
    stack.callback(loader.close, loaded)
    found = []
    for outcome in (loaded["pmu"], loaded["empty"]):
        if isinstance(outcome, ProbeRefusal):
            raise outcome
        found.append(outcome)
    return found[0], found[1].programs["empty_at_switch"]


def _program(probe: LoadedProbe, empty: int, one: Path, other: Path) -> float:
    """Nanoseconds of the program at a switch, less those of an empty one at the same hook: the kernel's own count."""
    gross, floors = [], []
    for _ in range(repetitions(5)):
        with os.fdopen(bpf.open_raw_tracepoint("sched_switch", empty)), statistics(empty) as floor:
            ping_pong(one, other)
        with _running(probe), statistics(probe.programs["pmu_on_sched_switch"]) as spent:
            ping_pong(one, other)
        assert min(floor.runs, spent.runs) > SWITCHES / 5
        gross.append(spent.nanoseconds)
        floors.append(floor.nanoseconds)
    return min(gross) - min(floors)


def _running(probe: LoadedProbe) -> AbstractContextManager[object]:
    return closing(PmuProbe(HOST, copy(probe), PLAN))


def _added(probe: LoadedProbe, one: Path, other: Path) -> dict[str, float]:
    """Nanoseconds of CPU time that each way adds to a switch of a ping-pong."""
    ways: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "nothing": nullcontext,
        "pmu": lambda: _running(probe),
        "cgroup events": lambda: _cgroup_events({one, other}),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(2 * repetitions(5)):
        for way, counting in ways.items():
            with counting():
                before = _cpu_seconds()
                switches = ping_pong(one, other)
                times[way].append((_cpu_seconds() - before) / switches * 1e9)
    best = {way: min(found) for way, found in times.items()}
    for way, found in times.items():
        print(f"{way:14} {best[way]:6.0f} ns for a switch; all:", *(f"{ns:.0f}" for ns in found), flush=True)
    return {way: max(1.0, least - best["nothing"]) for way, least in best.items()}


@contextmanager
def _cgroup_events(folders: Collection[Path]) -> Iterator[None]:
    """The same events on each CPU, for each of these cgroups alone."""
    with ExitStack() as stack:
        for folder in folders:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            for cpu in os.sched_getaffinity(0):
                stack.enter_context(closing(PlanEvents.open(PLAN, cpu, descriptor)))
        yield


def _cpu_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run(main)
