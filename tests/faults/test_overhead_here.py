"""The probes keep to their budget on this host's own kernel: they rest when they cost too much, and come back."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from numaudit.containers.inventory import Inventory
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.findings import find
from numaudit.kernel import bpf
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.overhead.budget import CALM_TICKS
from numaudit.overhead.calibration import ASSUMED_NS, LOOKS_BETWEEN, calibrate, time_pages
from numaudit.overhead.limiter import Keeper, count_between
from numaudit.probes.cpu_time import CpuTimeByNode
from numaudit.probes.page_alloc import AllocationsByNode, PageAlloc
from numaudit.probes.reasons import Reason, Refusal
from numaudit.probes.session import Session
from numaudit.snapshot import Cost, Overhead, Snapshot

pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
StartWorker = Callable[[Path, int], Callable[[str], None]]
MIB = 1 << 20


@pytest.fixture
def session() -> Iterator[Session]:
    with Session.open(Host(), cgroups=500, nodes=2, probes=("page_alloc", "cpu_time", "first_touch")) as opened:
        if isinstance(opened.page_alloc, Refusal):
            pytest.skip(str(opened.page_alloc))
        yield opened


def _keeper(session: Session, limit: float, seconds: list[float]) -> Keeper:
    """With a clock that goes on by so many seconds at each look."""
    clock = iter(range(10**6))
    inventory = Inventory(Host(), find_hierarchies(Host()))
    return Keeper(
        session, limit, {"page_alloc": Cost(200.0, "measured")}, inventory, clock=lambda: next(clock) * seconds[0]
    )


def _look(keeper: Keeper) -> Overhead:
    session = keeper.session
    for read in (session.read_page_alloc, session.read_cpu_time, session.read_first_touch):
        try:
            read()
        except Refusal as refusal:
            assert refusal.reason is Reason.OVER_BUDGET
    return keeper.after_look(Snapshot(0.0, read_machine(Host()), "v2"), Judgements())


def test_page_alloc_rests_over_the_limit_and_comes_back_after_a_calm_time(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    """32 MiB are 8,192 pages: 1.6 ms of 200 ns each; over 0.1 s on all CPUs of this host that is some percent."""
    order = start_worker(new_group("budget"), 32 * MIB)
    seconds = [0.1]
    keeper = _keeper(session, 0.005, seconds)
    assert _look(keeper).cpu_share is None
    order("refill")
    overhead = _look(keeper)
    assert overhead.cpu_share is not None and overhead.cpu_share > 0.005
    assert overhead.steps == ("page_alloc off",)
    (events,) = [one.events for one in overhead.probes if one.probe == "page_alloc"]
    assert events >= 8192
    with pytest.raises(Refusal, match="took more CPU time than they may") as refusal:
        session.read_page_alloc()
    assert refusal.value.reason is Reason.OVER_BUDGET
    seconds[0] = 1000.0  # from here on next to nothing of the time
    looks = 0
    while _look(keeper).steps:
        looks += 1
        assert looks < 20 * CALM_TICKS
    assert looks >= CALM_TICKS - 1
    before = session.read_page_alloc()
    order("refill")
    assert count_between(session.read_page_alloc(), before) >= 8192  # type: ignore[operator]


def test_what_rested_is_not_counted_as_a_burst_when_it_comes_back(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    order = start_worker(new_group("burst"), 32 * MIB)
    keeper = _keeper(session, 1.0, [1.0])
    _look(keeper)
    session.let_rest("page_alloc", True)
    _look(keeper)
    session.let_rest("page_alloc", False)
    order("refill")
    overhead = _look(keeper)  # its first read since: there is nothing to compare with
    assert "page_alloc" not in {one.probe for one in overhead.probes if one.events}


def test_first_touch_rests_and_comes_back_with_its_counts(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    group = new_group("rests")
    order = start_worker(group, 8 * MIB)
    kept = session.read_first_touch().samples[group.stat().st_ino]
    session.let_rest("first_touch", True)
    order("refill")
    with pytest.raises(Refusal):
        session.read_first_touch()
    session.let_rest("first_touch", False)
    assert session.read_first_touch().samples[group.stat().st_ino] == kept
    order("refill")
    assert sum(session.read_first_touch().samples[group.stat().st_ino].values()) > sum(kept.values())


def test_the_kernel_tells_at_start_what_each_program_costs(session: Session) -> None:
    costs = calibrate(session)
    assert set(costs) == {"page_alloc", "cpu_time"}
    for cost in costs.values():
        assert cost.basis == "measured" and 20 < cost.ns < 5000
    keeper = Keeper(session, 0.01, costs, Inventory(Host(), find_hierarchies(Host())))
    assert keeper.cost_of("page_alloc") == costs["page_alloc"]
    assert keeper.cost_of("first_touch") == Cost(ASSUMED_NS["first_touch"], "assumed")


def test_a_page_is_timed_with_and_without_the_probe_where_the_kernel_may_not_be_asked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noisy, so it may be missing, but not be wild."""

    def refuse() -> int:
        raise PermissionError(errno.EPERM, "bpf")

    monkeypatch.setattr(bpf, "count_run_time", refuse)
    costs = calibrate(session)
    assert set(costs) <= {"page_alloc"}
    assert all(0 < cost.ns < 5000 and cost.basis == "measured" for cost in costs.values())
    assert isinstance(session.page_alloc, PageAlloc)
    timed = time_pages(session.page_alloc)
    assert timed is None or 0 < timed < 5000
    assert not session.page_alloc.is_suspended


def test_the_trial_of_a_program_leaves_nothing_behind() -> None:
    with Session.open(Host(), cgroups=10, nodes=2, probes=("migrations",)) as opened:
        if isinstance(opened.migrations, Refusal):
            pytest.skip(str(opened.migrations))
        costs = calibrate(opened)
        assert costs["migrations"].basis == "measured"
        read = opened.read_migrations()
        assert "reason_255" not in {reason for row in read.failed.values() for reason in row}


def test_real_events_take_the_place_of_the_trial_while_the_agent_runs(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    order = start_worker(new_group("listened"), 32 * MIB)
    keeper = _keeper(session, 1.0, [1.0])
    keeper.costs = {}
    measured_at = []
    for look in range(LOOKS_BETWEEN + 3):
        order("refill")
        _look(keeper)
        if keeper.costs.pop("page_alloc", None) is not None:
            measured_at.append(look)
    keeper.close()
    assert measured_at == [1, LOOKS_BETWEEN + 1]


def test_reads_of_two_probes_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="two probes"):
        count_between(AllocationsByNode(), CpuTimeByNode())


def test_what_rests_is_a_finding(session: Session) -> None:
    snapshot = Snapshot(time.time(), read_machine(Host()), "v2")
    resting = Overhead(0.02, 0.01, ("page_alloc off", "watch list"), 0.25, ())
    (finding,) = find(replace(snapshot, overhead=resting))
    assert (finding.name, finding.severity) == ("over-budget", "info")
    assert "below 1.00% of the CPU time: page_alloc off, watch list; 25% of the containers" in finding.message
    assert find(replace(snapshot, overhead=replace(resting, steps=()))) == ()
