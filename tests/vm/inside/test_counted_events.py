"""Events counted by cgroup on four nodes, where the processor counts no memory accesses: other events in their place.

What page faults and CPU time come to is known from the cgroups' own accounts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from made_up.plans import DEVICES, PAGE_FAULTS, TSC, faults_and_time, of_device, plan_of
from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import judge
from numaudit.kernel.host import Host
from numaudit.kernel.tracing.perf_event import TYPE_SOFTWARE
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.probes.counters.pmu_cgroups import PmuOfCgroups
from numaudit.probes.pmu import PmuProbe, kind_of
from numaudit.probes.probe import Probe
from numaudit.probes.session import ProbeReadings, Session
from numaudit.report.build import build
from numaudit.snapshot.counted import Locality
from workload import MIB, Cgroup, cgroup, eventually, worker

PAGES = 16 * MIB // os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def with_bpf() -> Iterator[PmuProbe]:
    """Loading the program takes seconds here."""
    with _bpf_probe(faults_and_time()) as found:
        yield found


@pytest.fixture(params=["bpf", "cgroup events"])
def probe(request: pytest.FixtureRequest) -> Iterator[Probe[AccessCounts]]:
    """It counts page faults in the place of local accesses, and CPU time in that of remote ones."""
    if request.param == "bpf":
        yield request.getfixturevalue("with_bpf")
        return
    with closing(PmuOfCgroups(Host(), faults_and_time())) as opened:
        yield opened


@contextmanager
def _bpf_probe(plan: Plan) -> Iterator[PmuProbe]:
    kind = kind_of(lambda _: [plan])
    with Session.open(Host(), [kind], cgroups=500, nodes=4) as session:
        found = session.probe(kind)
        assert isinstance(found, PmuProbe), found
        yield found


def test_faults_and_cpu_time_of_two_on_one_cpu_are_those_of_the_cgroups_own_accounts(
    probe: Probe[AccessCounts],
) -> None:
    with cgroup("numaudit-lab/few", cpus="1") as few, cgroup("numaudit-lab/many", cpus="1") as many:
        groups = (few, many)
        with worker(few, 16 * MIB) as first, worker(many, 16 * MIB) as second:
            probe.read()  # without BPF a new cgroup is counted from here on
            start, before = [_accounts(group) for group in groups], probe.read()
            for order in (first.order, second.order, second.order, second.order):
                order("refill")
            first.order("spin")
            second.order("spin")
            eventually(lambda: _require_usage(few, start[0][1] + 1.0))
            first.order("sleep")
            second.order("sleep")
            added, end = probe.read().since(before), [_accounts(group) for group in groups]
        for group, (faults, seconds), (faults_then, seconds_then) in zip(groups, end, start, strict=True):
            row = added.accesses[group.id]
            assert {node for node, _ in row} == {1}
            assert row[1, "local"] == pytest.approx(faults - faults_then, rel=0.01)
            assert row[1, "remote"] / 1e9 == pytest.approx(seconds - seconds_then, rel=0.05)


def test_a_clock_that_every_processor_has_counts_in_proportion_to_the_time() -> None:
    if not (DEVICES / "msr").exists():
        pytest.skip("this machine has no PMU msr")
    plan = of_device("msr", plan_of(0, TSC, TSC))
    with cgroup("numaudit-lab/short", cpus="2") as short, cgroup("numaudit-lab/long", cpus="3") as long:
        with worker(short, MIB) as one, worker(long, MIB) as other, _bpf_probe(plan) as probe:
            start, before = [_accounts(group)[1] for group in (short, long)], probe.read()
            one.order("spin")
            eventually(lambda: _require_usage(short, start[0] + 0.5))
            one.order("sleep")
            other.order("spin")
            eventually(lambda: _require_usage(long, start[1] + 1.5))
            other.order("sleep")
            added = probe.read().since(before)
            used = [_accounts(group)[1] - then for group, then in zip((short, long), start, strict=True)]
        counts = [_sum(added, group, "local") for group in (short, long)]
        assert [_sum(added, group, "remote") for group in (short, long)] == pytest.approx(counts, rel=0.001)
    assert counts[1] / counts[0] == pytest.approx(used[1] / used[0], rel=0.05)


def test_a_cpu_that_was_offline_is_counted_again(with_bpf: PmuProbe) -> None:
    online = DEVICES.parents[2] / "devices/system/cpu/cpu3/online"
    already = with_bpf.read().lost["cpu-away"]
    online.write_text("0")
    online.write_text("1")
    with cgroup("numaudit-lab/back", cpus="3") as group, worker(group, 16 * MIB) as running:
        before = with_bpf.read()
        running.order("refill")
        added = with_bpf.read().since(before)
        assert PAGES <= _sum(added, group, "local") < 1.05 * PAGES
    assert before.lost["cpu-away"] == already + 1


def test_without_the_compiler_the_kernel_counts_each_cgroup_itself() -> None:
    kind = kind_of(lambda _: [faults_and_time()])
    with Session.open(Host(), [kind], cgroups=500, nodes=4, pythons=[]) as session:
        found = session.probe(kind)
        assert isinstance(found, PmuOfCgroups)
        assert "without BPF" in found.how
        with cgroup("numaudit-lab/counted", cpus="1") as group, worker(group, 16 * MIB) as running:
            session.read(kind)  # a new cgroup is counted from here on
            before = session.read(kind)
            running.order("refill")
            assert PAGES <= _sum(session.read(kind).since(before), group, "local") < 1.05 * PAGES


def test_the_report_has_the_counted_share_and_its_basis() -> None:
    kind = kind_of(lambda _: [plan_of(TYPE_SOFTWARE, PAGE_FAULTS, PAGE_FAULTS)])
    observer = Observer.of(Host())
    with cgroup("numaudit-lab/shown", cpus="1") as group, worker(group, 64 * MIB) as running:
        with observer.open_probes([kind]) as session:
            before = observer.observe(readings=ProbeReadings(session))
            running.order("refill")
            now = observer.observe(readings=ProbeReadings(session))
        report = build(now, judge(now, before, judge(before)))
        (shown,) = [one for one in report.containers if one.id == group.id]
    (access,) = [one for one in shown.accesses if one.source == "pmu"]
    assert access.remote_ratio == 0.5
    assert access.counted is not None and access.counted.basis == "made_up"
    assert {one.locality for one in shown.memory_accesses or ()} == {"local", "remote"}


def _accounts(group: Cgroup) -> tuple[int, float]:
    """The cgroup's own count of page faults, and of its CPU time in seconds."""
    faults = group.read("memory.stat").split()
    usage = group.read("cpu.stat").split()
    return int(faults[faults.index("pgfault") + 1]), int(usage[usage.index("usage_usec") + 1]) / 1e6


def _require_usage(group: Cgroup, seconds: float) -> None:
    assert _accounts(group)[1] >= seconds


def _sum(counts: AccessCounts, group: Cgroup, which: Locality) -> int:
    return sum(count for (_, locality), count in counts.accesses[group.id].items() if locality == which)
