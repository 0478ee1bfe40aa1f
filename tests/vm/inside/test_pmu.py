"""Counted accesses by cgroup on an emulated PMU, which counts cycles and instructions: these stand in for accesses.

Every CPU there runs one instruction in two cycles of its 1 GHz, so one count is known from the other, and cycles are
nanoseconds of CPU time. The kernel's own events of a cgroup (PERF_FLAG_PID_CGROUP) are a second witness.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from made_up.plans import CYCLES, INSTRUCTIONS, LAST_LEVEL_MISSES, REMOTE_ACCESSES, cycles_and_instructions, plan_of
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.probes.counters.pmu_cgroups import PmuOfCgroups
from numaudit.probes.counters.process_events import ProcessEvents
from numaudit.probes.pmu import PMU, PmuProbe, kind_of
from numaudit.probes.probe import Probe
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from workload import MIB, Cgroup, cgroup, eventually, worker

pytestmark = pytest.mark.pmu

COUNTERS = 7
MOVES_ITSELF = """
import sys
for line in sys.stdin:
    for number in range(40):
        with open(sys.argv[1 + number % 2], "w") as procs:
            procs.write("0")
        sum(range(100_000))
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def with_bpf() -> Iterator[PmuProbe]:
    """Loading the program takes seconds here."""
    kind = kind_of(lambda _: [cycles_and_instructions()])
    with Session.open(Host(), [kind], cgroups=500, nodes=4) as session:
        found = session.probe(kind)
        assert isinstance(found, PmuProbe), found
        yield found


@pytest.fixture(params=["bpf", "cgroup events"])
def probe(request: pytest.FixtureRequest) -> Iterator[Probe[AccessCounts]]:
    """It counts cycles in the place of local accesses, and instructions in that of remote ones."""
    if request.param == "bpf":
        yield request.getfixturevalue("with_bpf")
        return
    with closing(PmuOfCgroups(Host(), cycles_and_instructions())) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Counted:
    cycles: int
    instructions: int


def test_the_ratio_and_the_amount_are_those_of_the_work(probe: Probe[AccessCounts]) -> None:
    """Alone on its CPU: nothing else but the readings themselves closes its interval."""
    with cgroup("numaudit-lab/alone", cpus="1") as group, worker(group, MIB) as running:
        probe.read()  # without BPF a new cgroup is counted from here on
        before, start = probe.read(), _usage(group)
        running.order("spin")
        _wait_for_use(group, 0.5)
        running.order("sleep")
        added, used = probe.read().since(before), _usage(group) - start
        counted = _of(added, group)
        assert {node for node, _ in added.accesses[group.id]} == {1}
    assert counted.cycles == pytest.approx(2 * counted.instructions, rel=0.001)
    assert counted.cycles / 1e9 == pytest.approx(used, rel=0.05)


def test_two_on_one_cpu_get_what_the_kernels_own_events_of_each_count(probe: Probe[AccessCounts]) -> None:
    with cgroup("numaudit-lab/light", cpus="1") as light, cgroup("numaudit-lab/heavy", cpus="1") as heavy:
        light.write("cpu.weight", "50")
        heavy.write("cpu.weight", "200")
        groups = (light, heavy)
        with worker(light, MIB) as one, worker(heavy, MIB) as other, _witness(groups) as witness:
            probe.read()
            before, then, unused = probe.read(), witness(), _usage(light)
            one.order("spin")
            other.order("spin")
            _wait_for_use(light, 0.3)
            one.order("sleep")
            _wait_for_use(heavy, 3 * (_usage(light) - unused))
            other.order("sleep")
            added, now = probe.read().since(before), witness()
        for group, cycles, cycles_then in zip(groups, now, then, strict=True):
            assert _of(added, group).cycles == pytest.approx(cycles - cycles_then, rel=0.02)
        assert _of(added, heavy).cycles > 2 * _of(added, light).cycles


def test_a_task_that_moves_itself_takes_nothing_along(with_bpf: PmuProbe) -> None:
    with cgroup("numaudit-lab/here", cpus="2") as here, cgroup("numaudit-lab/there", cpus="2") as there:
        groups = (here, there)
        with _witness(groups) as witness, _mover(groups) as move:
            move()
            before, then = with_bpf.read(), witness()
            move()
            added, now = with_bpf.read().since(before), witness()
        for group, cycles, cycles_then in zip(groups, now, then, strict=True):
            assert _of(added, group).cycles == pytest.approx(cycles - cycles_then, rel=0.02)


def test_counts_of_shared_counters_are_scaled_and_say_so(probe: Probe[AccessCounts]) -> None:
    with cgroup("numaudit-lab/shared", cpus="1") as group, worker(group, MIB) as running:
        with _other_events(2 * COUNTERS, cpu=1):
            probe.read()
            before, start = probe.read(), _usage(group)
            running.order("spin")
            _wait_for_use(group, 1.0)
            running.order("sleep")
            added, used = probe.read().since(before), _usage(group) - start
        counted, times = _of(added, group), added.times[group.id]
    assert 0.1 < times["running"] / times["enabled"] < 0.9
    assert counted.cycles == pytest.approx(2 * counted.instructions, rel=0.001)
    assert counted.cycles / 1e9 == pytest.approx(used, rel=0.05)
    assert counted.cycles == pytest.approx(times["enabled"], rel=0.01)


@pytest.mark.parametrize("sets", [1, COUNTERS], ids=["alone", "taking turns"])
def test_two_processes_of_one_cgroup_are_counted_apart(sets: int) -> None:
    """Each with the threads that it has; the witness is its own clock. `sets`: times that all is counted at once."""
    with ExitStack() as stack:
        group = stack.enter_context(cgroup("numaudit-lab/ranks", cpus="1"))
        workers = [stack.enter_context(worker(group, MIB, threads=threads)) for threads in (1, 3)]
        events = [
            [ProcessEvents.open(Host(), cycles_and_instructions(), one.pid, 10) for _ in range(sets)] for one in workers
        ]
        for opened in (*events[0], *events[1]):
            stack.enter_context(closing(opened))
        start = [one.cpu_seconds() for one in workers]
        for one, seconds in zip(workers, (0.4, 0.8), strict=True):
            one.order("spin")
            _wait_for_use(group, seconds)
            one.order("sleep")
        used = [one.cpu_seconds() - before for one, before in zip(workers, start, strict=True)]
        words = [own[0].read() for own in events]
    for seconds, (cycles, enabled, running, *instructions) in zip(used, words, strict=True):
        assert (running < 0.9 * enabled) == (sets > 1)
        assert cycles == pytest.approx(2 * instructions[0], rel=0.001)
        assert cycles * enabled / running / 1e9 == pytest.approx(seconds, rel=0.05)


def test_a_process_gets_no_counts_while_others_hold_all_counters_of_its_cpu() -> None:
    with ExitStack() as stack:
        group = stack.enter_context(cgroup("numaudit-lab/held", cpus="1"))
        running = stack.enter_context(worker(group, MIB))
        stack.enter_context(_other_events(COUNTERS, cpu=1, pinned=True))
        events = ProcessEvents.open(Host(), cycles_and_instructions(), running.pid, 10)
        stack.enter_context(closing(events))
        running.order("spin")
        _wait_for_use(group, 0.3)
        cycles, enabled, ran, *_ = events.read()
    assert (cycles, ran) == (0, 0)
    assert enabled > 0


def test_a_group_that_the_pmu_can_never_count_at_once_is_refused() -> None:
    plan, rest = cycles_and_instructions(), COUNTERS * [INSTRUCTIONS]
    many = replace(plan, groups=((CYCLES, *rest),), local=(1, *(0 for _ in rest)), remote=(0, *(1 for _ in rest)))
    with pytest.raises(ProbeRefusal) as refusal:
        PmuOfCgroups(Host(), many)
    assert refusal.value.reason is Reason.NO_PMU


def test_where_others_hold_all_counters_of_all_cpus_it_is_refused() -> None:
    with ExitStack() as stack:
        for cpu in range(os.cpu_count() or 1):
            stack.enter_context(_other_events(COUNTERS, cpu=cpu, pinned=True))
        with pytest.raises(ProbeRefusal) as refusal:
            PmuOfCgroups(Host(), cycles_and_instructions())
    assert refusal.value.reason is Reason.BUSY


def test_while_others_hold_all_counters_there_is_no_data_and_then_there_is(with_bpf: PmuProbe) -> None:
    with cgroup("numaudit-lab/waits", cpus="1") as group, worker(group, MIB) as running:
        with _other_events(COUNTERS, cpu=1, pinned=True):
            before = with_bpf.read()
            running.order("spin")
            _wait_for_use(group, 0.3)
            held = with_bpf.read().since(before)
        assert group.id not in held.accesses
        assert held.times[group.id].get("running", 0) == 0 < held.times[group.id]["enabled"]
        _wait_for_use(group, 0.3)
        assert _of(with_bpf.read().since(before), group).cycles > 0


def test_a_known_cpu_whose_events_stay_0_is_refused() -> None:
    """This PMU opens any number. The guest's CPU is called a Neoverse N1, of which these are the pair."""
    plan = plan_of(cycles_and_instructions().type, LAST_LEVEL_MISSES, REMOTE_ACCESSES, is_total=True)
    kind = kind_of(lambda _: [plan])
    with Session.open(Host(), [kind], cgroups=10, nodes=4) as session:
        refusal = session.probe(kind)
    assert isinstance(refusal, ProbeRefusal)
    assert refusal.reason is Reason.COUNTS_NOTHING


def test_what_the_pmu_does_not_list_is_not_offered() -> None:
    """An emulated Neoverse N1 has not all events of a real one."""
    with Session.open(Host(), [PMU], cgroups=10, nodes=4) as session:
        refusal = session.probe(PMU)
    assert isinstance(refusal, ProbeRefusal)
    assert refusal.reason is Reason.NO_PMU
    assert "remote_access" in refusal.text


def _of(counts: AccessCounts, group: Cgroup) -> Counted:
    sums = {"local": 0, "remote": 0}
    for (_, locality), count in counts.accesses[group.id].items():
        sums[locality] += count
    return Counted(sums["local"], sums["remote"])


@contextmanager
def _witness(groups: Sequence[Cgroup]) -> Iterator[Callable[[], list[int]]]:
    """Cycles of each cgroup so far, by an event of its own on each CPU."""
    kind = cycles_and_instructions().type
    with ExitStack() as stack:
        events: list[list[int]] = []
        for group in groups:
            folder = os.open(group.path, os.O_RDONLY)
            stack.callback(os.close, folder)
            events.append([])
            for cpu in range(os.cpu_count() or 1):
                event = perf_event.open_event(Event(kind, CYCLES.config), cpu=cpu, cgroup=folder)
                stack.callback(os.close, event)
                perf_event.enable(event)
                events[-1].append(event)
        yield lambda: [sum(struct.unpack("=Q", os.read(one, 8))[0] for one in own) for own in events]


class _Pinned(Event, frozen=True):
    """It has counters of the hardware always, or never."""

    def pack(self) -> bytearray:
        packed = super().pack()
        packed[40] |= 1 << 2
        return packed


@contextmanager
def _other_events(number: int, cpu: int, *, pinned: bool = False) -> Iterator[None]:
    """Another tool counts on that CPU."""
    kind = cycles_and_instructions().type
    with ExitStack() as stack:
        for _ in range(number):
            config = INSTRUCTIONS.config if not pinned else CYCLES.config
            event = perf_event.open_event((_Pinned if pinned else Event)(kind, config), cpu=cpu)
            stack.callback(os.close, event)
            perf_event.enable(event)
        yield


@contextmanager
def _mover(groups: Sequence[Cgroup]) -> Iterator[Callable[[], None]]:
    """A process that moves itself back and forth between two cgroups, and works a little in each."""
    paths = [str(group.path / "cgroup.procs") for group in groups]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", MOVES_ITSELF, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout

    def move() -> None:
        assert process.stdin and process.stdout
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    try:
        yield move
    finally:
        process.kill()
        process.communicate()


def _wait_for_use(group: Cgroup, seconds: float) -> None:
    before = _usage(group)

    def has_used() -> None:
        assert _usage(group) - before >= seconds

    eventually(has_used)


def _usage(group: Cgroup) -> float:
    """cpu.stat, usage_usec, in seconds."""
    words = group.read("cpu.stat").split()
    return int(words[words.index("usage_usec") + 1]) / 1e6
