"""Events that are counted by cgroup on this host's own kernel, with a BPF program and without.

The pairs of events are made up where the processor counts no memory accesses: page faults and CPU time, which the
workers know of themselves.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from made_up.plans import ALIGNMENT_FAULTS, PAGE_FAULTS, TASK_CLOCK, faults_and_time, open_events, plan_of
from numaudit.kernel.host import Host
from numaudit.kernel.tracing.perf_event import TYPE_SOFTWARE
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.probes.counters.plan_events import PlanEvents
from numaudit.probes.counters.pmu_cgroups import PmuOfCgroups
from numaudit.probes.pmu import PmuProbe, kind_of
from numaudit.probes.probe import Probe
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session

pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
RunIn = Callable[[Path, Sequence[str]], subprocess.Popen[str]]
StartWorker = Callable[[Path, int], Callable[[str], None]]
MIB = 1 << 20
PAGES = 8 * MIB // 4096
REST = 64
"""Pages of Python's own that a worker may touch beside its memory."""
SPIN = """
import resource, sys, time

def switches():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw

print("ready")
sys.stdin.readline()
before, begin = switches(), time.thread_time()
while time.thread_time() < begin + 0.3:
    pass
print(time.thread_time() - begin, switches() - before)
sys.stdin.readline()
"""
BOTH_WAYS = ("bpf", "cgroup events")


@pytest.fixture(params=BOTH_WAYS)
def probe(request: pytest.FixtureRequest) -> Iterator[Probe[AccessCounts]]:
    if request.param == "cgroup events":
        with closing(PmuOfCgroups(Host(), faults_and_time())) as opened:
            yield opened
        return
    kind = kind_of(lambda _: [faults_and_time()])
    with Session.open(Host(), [kind], cgroups=1000, nodes=1) as session:
        found = session.probe(kind)
        if isinstance(found, ProbeRefusal):
            pytest.skip(str(found))
        assert isinstance(found, PmuProbe)
        yield found


def test_each_cgroup_gets_its_own_counts(
    probe: Probe[AccessCounts], new_group: NewGroup, start_worker: StartWorker
) -> None:
    one, other = new_group("one"), new_group("other")
    orders = [start_worker(group, 8 * MIB) for group in (one, other)]
    before = probe.read()
    for times, order in zip((3, 1), orders, strict=True):
        for _ in range(times):
            order("refill")
    added = probe.read().since(before)
    for group, times in ((one, 3), (other, 1)):
        spent = added.times[group.stat().st_ino]
        seen = f"{added.accesses[group.stat().st_ino]}, {spent} ns, lost {added.lost}, {added.switches} runs"
        assert times * PAGES <= _local(added, group) < times * (PAGES + REST), seen
        assert spent["enabled"] == spent["running"] > 0


def test_what_was_counted_before_a_pause_stays_and_what_happens_in_it_does_not_count(
    probe: Probe[AccessCounts], new_group: NewGroup, start_worker: StartWorker
) -> None:
    group = new_group("paused")
    order = start_worker(group, 8 * MIB)
    before = probe.read()
    order("refill")
    probe.pause()
    order("refill")
    probe.resume()
    order("refill")
    added = probe.read().since(before)
    assert 2 * PAGES <= _local(added, group) < 2 * (PAGES + REST)


def test_cpu_time_is_that_of_the_threads_own_clock(
    probe: Probe[AccessCounts], new_group: NewGroup, run_in: RunIn
) -> None:
    """The thread spins until its own clock says that it has used 0.3 s more."""
    group = new_group("spinning")
    process = run_in(group, [sys.executable, "-I", "-S", "-u", "-c", SPIN])
    assert process.stdin and process.stdout
    process.stdout.readline()
    probe.read()  # without BPF a new cgroup is counted from here on
    before = probe.read()
    process.stdin.write("\n")
    process.stdin.flush()
    used, switches = (float(one) for one in process.stdout.readline().split())
    row = probe.read().since(before).accesses[group.stat().st_ino]
    nanoseconds = sum(count for (_, locality), count in row.items() if locality == "remote")
    # The scheduler's clock of a thread starts a little earlier and ends a little later at each of its switches.
    assert 0.97 * used - 0.0005 * switches < nanoseconds / 1e9 < 1.05 * used + 0.01


def test_a_process_without_descriptors_left_is_refused_and_leaks_none() -> None:
    before = open_events()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest)]  # no gap below the limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 4, limits[1]))  # enough to read a folder
    try:
        with pytest.raises(ProbeRefusal) as refusal:
            PmuOfCgroups(Host(), faults_and_time())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in held:
            os.close(one)
    assert refusal.value.reason is Reason.TOO_MANY_FILES
    assert open_events() == before


def test_a_probe_that_is_closed_leaves_no_event_open(new_group: NewGroup, start_worker: StartWorker) -> None:
    start_worker(new_group("closed"), MIB)
    before = open_events()
    with Session.open(Host(), [kind_of(lambda _: [faults_and_time()])], cgroups=10, nodes=1):
        pass
    PmuOfCgroups(Host(), faults_and_time()).close()
    assert open_events() == before


def test_events_that_open_and_never_count_are_refused_as_such() -> None:
    """A software event that never happens on the processors of our day."""
    kind = kind_of(lambda _: [plan_of(TYPE_SOFTWARE, ALIGNMENT_FAULTS, ALIGNMENT_FAULTS)])
    with Session.open(Host(), [kind], cgroups=10, nodes=1) as session:
        refusal = session.probe(kind)
    assert isinstance(refusal, ProbeRefusal)
    assert refusal.reason is Reason.COUNTS_NOTHING


def test_events_that_count_less_in_all_than_one_part_of_it_are_refused() -> None:
    """As on a machine whose firmware lets the event for all misses stand still: every access would be remote."""
    kind = kind_of(lambda _: [plan_of(TYPE_SOFTWARE, PAGE_FAULTS, TASK_CLOCK, is_total=True)])
    with Session.open(Host(), [kind], cgroups=10, nodes=1) as session:
        refusal = session.probe(kind)
    assert isinstance(refusal, ProbeRefusal)
    assert refusal.reason is Reason.COUNTS_NOTHING
    assert "fewer" in refusal.text


def _local(counts: AccessCounts, group: Path) -> int:
    """Page faults, for these stand in the place of local accesses."""
    row = counts.accesses[group.stat().st_ino]
    return sum(count for (_, locality), count in row.items() if locality == "local")


def test_a_cgroup_that_ends_while_its_events_are_opened_is_no_failure(
    new_group: NewGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, ended = new_group("kept"), new_group("ended")
    inode, opened = ended.stat().st_ino, PlanEvents.open

    def end_first(plan: Plan, cpu: int, folder: int | None = None) -> PlanEvents:
        if folder is not None and os.fstat(folder).st_ino == inode and ended.exists():
            ended.rmdir()
        return opened(plan, cpu, folder)

    monkeypatch.setattr(PlanEvents, "open", end_first)
    with closing(PmuOfCgroups(Host(), faults_and_time())) as probe:
        watched = probe.read().watched
        assert watched is not None and kept.stat().st_ino in watched
    assert not ended.exists()
