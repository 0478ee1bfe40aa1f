"""Shares of accesses that the processor counted."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from numaudit.evaluation.access import Access, measured
from numaudit.evaluation.alignment import judge
from numaudit.report.build import build
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, Locality, Sampled, SeenRemote
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.terminal.report_tables import print_report

MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
WEB = Container(ContainerId(7), "/web", "group")
BASIS = CountBasis("offcore_reads", "lines", includes_prefetch=True)
SECOND = 1_000_000_000


def counted(local: int, remote: int, *, running: float = 1.0, seconds: float = 1.0) -> CountedAccesses:
    by_node: dict[tuple[int, Locality], int] = {(0, "local"): local, (0, "remote"): remote} if running else {}
    enabled = round(seconds * SECOND)
    return CountedAccesses(BASIS, by_node, enabled, round(enabled * running))


def tick(of_web: CountedAccesses | None, taken_at: float = 0.0) -> Snapshot:
    return Snapshot(taken_at, MACHINE, "v2", (WEB,), pmu={} if of_web is None else {WEB.id: of_web})


def access(snapshot: Snapshot, before: Snapshot | None = None) -> Access:
    earlier = None if before is None else judge(before)
    return next(one for one in judge(snapshot, before, earlier).accesses[WEB.id] if one.source == "pmu")


def test_the_share_is_of_what_was_counted_without_an_interval() -> None:
    found = access(tick(counted(90_000, 10_000)))
    assert (found.remote_ratio, found.lower, found.upper) == (0.1, 0.1, 0.1)
    assert found.counted is not None
    assert (found.counted.accesses, found.counted.remote_accesses) == (100_000, 10_000)
    assert (found.counted.basis, found.counted.unit) == ("offcore_reads", "lines")
    assert (found.counted.includes_prefetch, found.counted.multiplexed) == (True, False)


def test_below_10_000_accesses_there_is_no_share() -> None:
    found = access(tick(counted(9_000, 999)))
    assert (found.remote_ratio, found.reason) == (None, "9999 counted accesses are too few; at least 10000 are needed")
    assert access(tick(counted(9_000, 1_000))).remote_ratio == 0.1


def test_only_what_came_since_the_tick_before_is_new() -> None:
    before = tick(counted(1_000_000, 0), 0.0)
    found = access(tick(counted(1_000_000, 500_000, seconds=2), 600.0), before)
    assert found.remote_ratio == pytest.approx(500_000 / 562_500)  # of what is 10 minutes old a sixteenth is left


def test_counters_that_were_shared_with_others_are_noted() -> None:
    shared, whole = access(tick(counted(90_000, 10_000, running=0.5))), access(tick(counted(90_000, 10_000)))
    assert shared.counted is not None and whole.counted is not None
    assert (shared.counted.multiplexed, whole.counted.multiplexed) == (True, False)
    assert shared.remote_ratio == whole.remote_ratio


def test_counters_that_never_ran_give_a_reason_and_no_share() -> None:
    found = access(tick(counted(0, 0, running=0.0)))
    assert found.remote_ratio is None
    assert found.reason is not None and "never ran" in found.reason


def test_a_container_that_is_not_watched_has_no_share() -> None:
    found = access(tick(replace(counted(0, 0), is_watched=False)))
    assert found.remote_ratio is None
    assert found.reason is not None and "watch list" in found.reason


def test_a_container_that_did_not_run_has_no_counted_accesses() -> None:
    assert not any(one.source == "pmu" for one in judge(tick(None)).accesses[WEB.id])


def test_a_pause_of_the_probe_adds_nothing_when_it_is_back() -> None:
    paused = replace(tick(None, 15.0), pmu=None)
    found = judge(tick(counted(10_000_000, 0), 30.0), paused, judge(paused))
    assert not any(one.source == "pmu" for one in found.accesses[WEB.id])


def test_counts_come_before_samples() -> None:
    used = SeenRemote({(0, 1): 1 << 20}, 0.0, 0, mapped=1 << 20)
    both = replace(tick(counted(90_000, 10_000)), hint_faults={WEB.id: Sampled({}, used)})
    accesses = judge(both).accesses[WEB.id]
    assert [one.source for one in accesses] == ["pmu", "hint_faults"]
    share = measured(accesses)
    assert share is not None
    assert (share.source, share.lower, share.is_exact) == ("pmu", 0.1, True)


@pytest.mark.parametrize(
    ("of_web", "cell"),
    [
        (counted(90_000, 10_000), "10.0%"),
        (counted(90_000, 10_000, running=0.5), "~10.0%"),
        (counted(9, 1), "?"),
        (None, "-"),
    ],
)
def test_the_table_shows_the_counted_share(of_web: CountedAccesses | None, cell: str) -> None:
    """Beside another container, so that the column is there."""
    shell = Container(ContainerId(8), "/shell", "group")
    both = replace(tick(None), containers=(WEB, shell), pmu={shell.id: counted(30_000, 10_000)})
    if of_web is not None:
        both = replace(both, pmu={**(both.pmu or {}), WEB.id: of_web})
    out = io.StringIO()
    print_report(build(both, judge(both)), Console(file=out, width=200, highlight=False, markup=False), wide=True)
    lines = out.getvalue().splitlines()
    (heading,) = [line for line in lines if "COUNTED REMOTE" in line and "=" not in line]
    (row,) = [line for line in lines if line.startswith("/web ")]
    end = heading.index("COUNTED REMOTE") + len("COUNTED REMOTE")
    assert row[:end].split()[-1] == cell
