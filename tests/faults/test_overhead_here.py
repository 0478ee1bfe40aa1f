"""The probes keep to their budget on this host's own kernel: they are paused when they cost too much, and come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from numaudit.containers.inventory import Inventory
from numaudit.engine.overhead import CALM_TICKS, TICKS_BETWEEN, Limiter
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.findings import find
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.probe import ProbeKind
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import Cost, Overhead

pytestmark = [pytest.mark.root, pytest.mark.quiet]

NewGroup = Callable[[str], Path]
StartWorker = Callable[[Path, int], Callable[[str], None]]
MIB = 1 << 20


@pytest.fixture
def session() -> Iterator[Session]:
    with Session.open(Host(), [PAGE_ALLOC, CPU_TIME], cgroups=500, nodes=2) as opened:
        if isinstance(opened.probe(PAGE_ALLOC), ProbeRefusal):
            pytest.skip(str(opened.probe(PAGE_ALLOC)))
        yield opened


def _limiter(session: Session, limit: float, seconds: list[float]) -> Limiter:
    """With a clock that goes on by `seconds[0]` at each tick."""
    clock = iter(range(10**6))
    inventory = Inventory(Host(), find_hierarchies(Host()))
    return Limiter(
        session, limit, inventory, {"page_alloc": Cost(200.0, "measured")}, clock=lambda: next(clock) * seconds[0]
    )


def _tick(limiter: Limiter) -> Overhead:
    readings = ProbeReadings(limiter.session)
    kinds: tuple[ProbeKind[Any], ...] = (PAGE_ALLOC, CPU_TIME)
    for kind in kinds:
        try:
            readings.of(kind)
        except ProbeRefusal as refusal:
            assert refusal.reason is Reason.OVER_BUDGET
    return limiter.after_tick(Snapshot(0.0, read_machine(Host()), "v2"), Judgements(), readings)


def test_page_alloc_is_paused_over_the_limit_and_comes_back_after_a_calm_time(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    """32 MiB are 8,192 pages: 1.6 ms of 200 ns each; over 0.1 s on all CPUs of this host that is some percent."""
    order = start_worker(new_group("budget"), 32 * MIB)
    seconds = [0.1]
    limiter = _limiter(session, 0.005, seconds)
    assert _tick(limiter).cpu_share is None
    order("refill")
    overhead = _tick(limiter)
    assert overhead.cpu_share is not None and overhead.cpu_share > 0.005
    assert overhead.steps == ("page_alloc off",)
    (events,) = [one.events for one in overhead.probes if one.probe == "page_alloc"]
    assert events >= 8192
    with pytest.raises(ProbeRefusal, match="used more CPU time than their limit") as refusal:
        session.read(PAGE_ALLOC)
    assert refusal.value.reason is Reason.OVER_BUDGET
    seconds[0] = 1000.0  # from here on next to nothing of the time
    ticks = 0
    while _tick(limiter).steps:
        ticks += 1
        assert ticks < 20 * CALM_TICKS
    assert ticks >= CALM_TICKS - 1
    before = session.read(PAGE_ALLOC)
    order("refill")
    assert session.read(PAGE_ALLOC).since(before).events >= 8192


def test_what_was_paused_is_not_counted_as_a_burst_when_it_comes_back(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    order = start_worker(new_group("burst"), 32 * MIB)
    limiter = _limiter(session, 1.0, [1.0])
    _tick(limiter)
    session.pause(PAGE_ALLOC, True)
    _tick(limiter)
    session.pause(PAGE_ALLOC, False)
    order("refill")
    overhead = _tick(limiter)  # its first read since: there is nothing to compare with
    assert "page_alloc" not in {one.probe for one in overhead.probes if one.events}


def test_real_events_say_now_and_then_what_each_costs(
    session: Session, new_group: NewGroup, start_worker: StartWorker
) -> None:
    order = start_worker(new_group("listened"), 32 * MIB)
    limiter = _limiter(session, 1.0, [1.0])
    limiter.costs = {}
    measured_at = []
    for tick in range(TICKS_BETWEEN + 3):
        order("refill")
        _tick(limiter)
        if limiter.costs.pop("page_alloc", None) is not None:
            measured_at.append(tick)
    limiter.close()
    assert measured_at == [2, TICKS_BETWEEN + 2]


def test_what_is_paused_is_a_finding(session: Session) -> None:
    snapshot = Snapshot(time.time(), read_machine(Host()), "v2")
    paused = Overhead(0.02, 0.01, ("page_alloc off", "watch list"), 0.25, ())
    (finding,) = find(replace(snapshot, overhead=paused))
    assert (finding.name, finding.severity) == ("over-budget", "info")
    assert "their limit of 1.00% of the CPU time. Steps: page_alloc off, watch list; 25% of the" in finding.message
    assert find(replace(snapshot, overhead=msgspec.structs.replace(paused, steps=()))) == ()
