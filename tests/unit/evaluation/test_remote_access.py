"""Shares of remote accesses: intervals, what is fair to say, and memory that cannot come home."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from numaudit.evaluation.access import Access, measured_share, wilson
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.failed_moves import failed_moves
from numaudit.evaluation.findings import find
from numaudit.evaluation.thresholds import Thresholds
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import (
    Container,
    ContainerId,
    HintFault,
    Migrated,
    MigratedPages,
    NodeMemory,
    Resident,
    Sampled,
    Snapshot,
)
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.report_tables import print_accesses, print_moved_pages, print_report

MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
WEB = Container(ContainerId(7), "/web", "group")
NO_GROUP, SHARED, LOCAL, MIGRATED, MIGRATE_FAIL = 2, 4, 8, 1, 16
LOCAL_FAULT = HintFault(0, 0, LOCAL)
REMOTE_FAULT = HintFault(0, 1, 0)
HEALED_FAULT = HintFault(0, 0, MIGRATED)
STUCK_FAULT = HintFault(0, 1, MIGRATE_FAIL)


def tick(
    faults: Mapping[HintFault, int] | None = None,
    single_threaded: bool | None = False,
    is_scanned: bool = True,
    migrated: Mapping[str, MigratedPages] | None = None,
) -> Snapshot:
    return Snapshot(
        taken_at=0.0,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(WEB,),
        nodes=(NodeMemory(0, None, None, Resident()), NodeMemory(1, None, None, Resident())),
        residency={WEB.id: Resident(anon={0: 300, 1: 100})},
        hint_faults=None if faults is None else {WEB.id: Sampled(faults, single_threaded, is_scanned)},
        migrations=None if migrated is None else {WEB.id: Migrated(migrated, {})},
    )


def accesses(snapshot: Snapshot, container: Container, before: Snapshot | None = None) -> tuple[Access, ...]:
    return judge(snapshot, before).accesses[container.id]


@pytest.mark.parametrize(
    ("part", "whole", "lower", "upper"),
    [
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (90, 100, 0.825634, 0.944771),
        (5, 50, 0.043476, 0.213602),
        (950, 1000, 0.934686, 0.961870),
        (1, 1, 0.206549, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_intervals_of_independent_samples_are_wilsons(part: int, whole: int, lower: float, upper: float) -> None:
    assert wilson(part, whole, design_effect=1) == pytest.approx((lower, upper), abs=1e-6)


def test_samples_of_the_same_pages_again_and_again_make_an_interval_no_narrower() -> None:
    assert wilson(15_000, 20_000) == wilson(750_000, 1_000_000)
    lower, upper = wilson(750_000, 1_000_000)
    assert 0.74 < lower < 0.745 < 0.755 < upper < 0.76


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_an_interval_holds_its_share_and_is_wider_than_that_of_independent_samples(part: int, rest: int) -> None:
    whole = part + rest
    lower, upper = wilson(part, whole)
    alone = wilson(part, whole, design_effect=1)
    rounding = 1e-9
    assert 0 <= lower <= alone[0] + rounding
    assert alone[1] - rounding <= upper <= 1
    if whole:
        assert alone[0] - rounding <= part / whole <= alone[1] + rounding


def test_a_page_that_was_brought_home_was_remote_when_it_was_used() -> None:
    (access,) = accesses(tick({HEALED_FAULT: 600, LOCAL_FAULT: 600}), WEB)
    assert (access.samples, access.remote_samples, access.remote_ratio) == (1200, 600, 0.5)
    assert access.lower is not None and access.upper is not None
    assert 0.45 < access.lower < 0.5 < access.upper < 0.55


@pytest.mark.parametrize(
    ("fault", "is_remote"),
    [
        (HintFault(0, 0, LOCAL), False),
        (HintFault(0, 1, 0), True),
        (HintFault(0, 0, MIGRATED), True),
        (HintFault(0, 1, MIGRATED), True),
        (HintFault(0, 1, MIGRATED | LOCAL), False),
        (HintFault(0, 0, LOCAL | MIGRATE_FAIL), False),
        (HintFault(0, 1, MIGRATE_FAIL), True),
    ],
)
def test_a_page_that_the_fault_found_on_the_cpus_node_was_local_wherever_it_moved_then(
    fault: HintFault, is_remote: bool
) -> None:
    assert fault.is_remote == is_remote


def test_a_process_with_one_thread_has_samples_but_no_ratio() -> None:
    (access,) = accesses(tick({STUCK_FAULT: 76113}, single_threaded=True), WEB)
    assert (access.remote_ratio, access.lower, access.samples, access.remote_samples) == (None, None, 76113, 76113)
    assert access.reason is not None and "one thread" in access.reason


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (tick({REMOTE_FAULT: 999}), "too few"),
        (tick({REMOTE_FAULT: 5000}, single_threaded=None), "not known"),
        (tick({}, is_scanned=False), "does not sample"),
        (tick({}), "too few"),
    ],
    ids=["few samples", "threads not known", "not scanned", "no samples"],
)
def test_a_share_that_would_not_be_fair_says_why(snapshot: Snapshot, words: str) -> None:
    (access,) = accesses(snapshot, WEB)
    assert access.remote_ratio is None
    assert access.reason is not None and words in access.reason
    assert measured_share(accesses(snapshot, WEB)) is None


def _by_cpu_node(*faults: tuple[int, int, int]) -> Snapshot:
    """Faults as (CPU's node, memory's node, count); a page moves in none of them."""
    return tick({HintFault(cpu, memory, LOCAL if cpu == memory else 0): count for cpu, memory, count in faults})


def test_pages_on_the_nodes_of_threads_that_run_on_two_may_be_shared_and_give_no_share() -> None:
    """Measured: two threads used the same pages of node 0 evenly, and the near one met 94 of 100 marked pages first."""
    (access,) = accesses(_by_cpu_node((0, 0, 9400), (1, 0, 600)), WEB)
    assert (access.remote_ratio, access.lower, access.upper) == (None, None, None)
    assert (access.samples, access.remote_samples) == (10_000, 600)
    assert access.reason is not None and "nodes 0-1" in access.reason and "comes first" in access.reason


def test_a_node_whose_threads_are_never_the_first_shows_by_its_cpu_time() -> None:
    before = replace(tick({}), cpu_time={WEB.id: {0: 50.0}})
    snapshot = replace(_by_cpu_node((0, 0, 9950), (1, 0, 50)), cpu_time={WEB.id: {0: 60.0, 1: 5.0}})
    assert accesses(snapshot, WEB, before)[0].remote_ratio is None
    moved_away_before = replace(before, cpu_time={WEB.id: {0: 50.0, 1: 5.0}})
    assert accesses(snapshot, WEB, moved_away_before)[0].remote_ratio == 0.005


def test_a_page_that_came_home_to_one_of_two_nodes_may_be_local_to_other_threads() -> None:
    (access,) = accesses(tick({HEALED_FAULT: 5000, HintFault(1, 1, MIGRATED): 5000}), WEB)
    assert (access.remote_ratio, access.lower) == (None, None)


def test_pages_on_a_node_where_no_thread_runs_are_remote_to_all_that_may_share_them() -> None:
    (access,) = accesses(_by_cpu_node((0, 3, 6000), (1, 3, 4000)), WEB)
    assert access.remote_ratio == 1.0
    assert access.lower is not None and access.lower > 0.99


def test_what_is_remote_to_all_threads_bounds_a_share_that_cannot_be_given() -> None:
    snapshot = _by_cpu_node((0, 3, 2000), (1, 2, 2000), (0, 0, 3000), (1, 0, 3000))
    (access,) = accesses(snapshot, WEB)
    assert access.remote_ratio is None and access.reason is not None
    assert access.lower is not None and 0.38 < access.lower < 0.4
    assert access.upper == 1.0
    share = measured_share((access,))
    assert share is not None and share.lower == access.lower


def test_pages_of_which_next_to_none_are_remote_to_all_give_no_bound() -> None:
    (access,) = accesses(_by_cpu_node((0, 3, 100), (0, 0, 6000), (1, 0, 3900)), WEB)
    assert (access.remote_ratio, access.lower, access.upper) == (None, None, None)


def test_a_handful_of_samples_from_another_node_do_not_hide_the_share() -> None:
    (access,) = accesses(_by_cpu_node((0, 0, 5000), (0, 1, 4950), (1, 1, 50)), WEB)
    assert access.remote_ratio == pytest.approx(0.495)


@given(
    st.dictionaries(
        st.builds(HintFault, st.integers(0, 3), st.integers(0, 3), st.sampled_from((0, MIGRATED))),
        st.integers(1, 5000),
        min_size=1,
    )
)
def test_any_share_by_hint_faults_is_within_its_bounds(faults: dict[HintFault, int]) -> None:
    (access,) = accesses(tick(faults), WEB)
    assert (access.lower is None) == (access.upper is None)
    if access.remote_ratio is not None:
        assert access.lower is not None and access.upper is not None
        assert access.lower - 1e-9 <= access.remote_ratio <= access.upper + 1e-9
    assert (access.remote_ratio is None) == (access.reason is not None)


def test_a_container_that_the_probe_saw_nothing_of_had_no_samples() -> None:
    (access,) = accesses(replace(tick(), hint_faults={}), WEB)
    assert (access.samples, access.remote_ratio) == (0, None)


def test_without_a_probe_samples_are_not_mentioned() -> None:
    assert accesses(tick(), WEB) == ()
    assert build(tick()).containers[0].hint_faults is None


def test_a_container_that_the_kernel_does_not_scan_has_no_hint_faults_instead_of_none_seen() -> None:
    assert build(tick({}, is_scanned=False)).containers[0].hint_faults is None
    assert build(tick({})).containers[0].hint_faults == ()


def test_the_expected_share_is_the_reports_own_figure() -> None:
    snapshot = replace(tick(), cpu_time={WEB.id: {0: 1.0, 1: 1.0}})
    (access,) = accesses(snapshot, WEB)
    assert (access.source, access.remote_ratio, access.lower) == ("expected", 0.5, None)
    assert build(snapshot).containers[0].expected_remote_ratio == access.remote_ratio
    assert measured_share(accesses(snapshot, WEB)) is None


def test_a_share_covers_the_time_since_the_previous_tick() -> None:
    before = tick({LOCAL_FAULT: 10_000, REMOTE_FAULT: 50})
    (access,) = accesses(tick({LOCAL_FAULT: 10_500, REMOTE_FAULT: 1050}), WEB, before)
    assert (access.samples, access.remote_samples) == (1500, 1000)


def test_the_measured_share_is_what_verdicts_are_given_by() -> None:
    share = measured_share(accesses(tick({LOCAL_FAULT: 9000, REMOTE_FAULT: 1000}), WEB))
    assert share is not None
    assert share.source == "hint_faults"
    assert share.lower < 0.1 < share.upper
    assert judge(tick({LOCAL_FAULT: 9000, REMOTE_FAULT: 1000})).verdicts[WEB.id].name == "unmanaged"


def test_flags_have_the_kernels_names() -> None:
    assert HintFault(0, 1, MIGRATE_FAIL | NO_GROUP).names == ("no_group", "migrate_fail")
    assert HintFault(0, 0, LOCAL | SHARED | MIGRATED).names == ("migrated", "shared", "local")


def test_memory_that_is_used_from_afar_and_cannot_move_is_a_finding() -> None:
    (finding,) = find(tick({STUCK_FAULT: 5000}, single_threaded=True))
    assert (finding.name, finding.container_id, finding.container) == ("cannot-heal", WEB.id, "/web")
    assert "5000 pages" in finding.message
    assert build(tick({STUCK_FAULT: 5000})).containers[0].findings == ("cannot-heal",)


@pytest.mark.parametrize("faults", [{STUCK_FAULT: 100}, {STUCK_FAULT: 1000, HEALED_FAULT: 1000}])
def test_a_hundred_failures_and_as_many_as_successes_are_enough(faults: Mapping[HintFault, int]) -> None:
    (finding,) = find(tick(faults))
    assert (finding.name, finding.numa_nodes) == ("cannot-heal", None)


def test_the_limits_of_the_verdicts_are_those_of_the_whole_report() -> None:
    snapshot = tick({STUCK_FAULT: 50, LOCAL_FAULT: 50})
    low = judge(snapshot, thresholds=Thresholds(access_samples=100, failed_moves=50))
    (own,) = build(snapshot, low).containers
    (usual,) = build(snapshot).containers
    assert (own.findings, usual.findings) == (("cannot-heal",), ())
    assert (own.accesses[0].remote_ratio, usual.accesses[0].remote_ratio) == (0.5, None)


def test_failed_migrations_tell_the_same_where_hint_faults_cannot_be_counted() -> None:
    stuck = tick(migrated={"numa_misplaced": MigratedPages(0, 5000)})
    assert failed_moves(stuck, WEB.id) == (5000, 0)
    assert [one.name for one in find(stuck)] == ["cannot-heal"]
    assert find(tick(migrated={"compaction": MigratedPages(0, 5000)})) == ()


@pytest.mark.parametrize(
    "faults",
    [{STUCK_FAULT: 99}, {STUCK_FAULT: 1000, HEALED_FAULT: 1001}, {REMOTE_FAULT: 5000}, {}],
    ids=["too few", "most of it heals", "nothing was to be moved", "nothing seen"],
)
def test_memory_that_heals_is_no_finding(faults: Mapping[HintFault, int]) -> None:
    assert find(tick(faults)) == ()


def test_a_container_that_could_not_heal_long_ago_is_no_finding_now() -> None:
    before = tick({STUCK_FAULT: 5000})
    assert find(tick({STUCK_FAULT: 5000}), judge(tick({STUCK_FAULT: 5000}), before)) == ()


def _touched(pairs: Mapping[tuple[int, int | None], int]) -> Snapshot:
    return replace(tick(), first_touch={WEB.id: pairs})


def test_the_share_of_first_uses_leaves_out_pages_of_unknown_node() -> None:
    (access,) = accesses(_touched({(0, 0): 1500, (0, 1): 500, (1, None): 9000}), WEB)
    assert (access.source, access.samples, access.remote_samples) == ("first_touch", 2000, 500)
    assert access.remote_ratio == 0.25


def test_first_uses_are_shown_and_count_in_no_verdict() -> None:
    snapshot = _touched({(0, 1): 5000})
    assert measured_share(accesses(snapshot, WEB)) is None
    text = _table(snapshot, lambda report, out: print_report(report, out, wide=True))
    assert "100.0% (99.8-100.0) at first touch" in text
    (pair,) = build(snapshot).containers[0].first_touches or ()
    assert (pair.cpu_numa_node, pair.numa_node, pair.samples) == (0, 1, 5000)


def test_few_first_uses_give_no_share() -> None:
    (access,) = accesses(_touched({(0, 1): 999}), WEB)
    assert (access.remote_ratio, access.samples) == (None, 999)


def _table(snapshot: Snapshot, print_: Callable[[Report, Console], None]) -> str:
    out = io.StringIO()
    print_(build(snapshot), Console(file=out, width=200, highlight=False, markup=False))
    return out.getvalue()


def test_the_table_shows_the_sampled_share_with_its_interval_and_the_finding_with_its_subject() -> None:
    text = _table(
        tick({STUCK_FAULT: 3000, LOCAL_FAULT: 1000}), lambda report, out: print_report(report, out, wide=True)
    )
    assert "SAMPLED REMOTE" in text
    assert "75.0% (73.1-76.8)" in text
    assert "cannot-heal: /web: NUMA balancing could not bring 3000 pages" in text


@pytest.mark.parametrize(
    ("snapshot", "cell"),
    [(tick({}), "-"), (tick({STUCK_FAULT: 5000}, single_threaded=True), "?")],
    ids=["no samples", "not fair"],
)
def test_a_share_that_is_not_given_is_a_dash_or_a_question_mark(snapshot: Snapshot, cell: str) -> None:
    text = _table(snapshot, lambda report, out: print_report(report, out, wide=True))
    (row,) = [line for line in text.splitlines() if line.startswith("/web ")]
    assert row.split()[-3] == cell


def test_a_share_of_which_only_the_least_is_known_is_shown_by_that() -> None:
    snapshot = _by_cpu_node((0, 3, 4000), (1, 0, 6000))
    text = _table(snapshot, lambda report, out: print_report(report, out, wide=True))
    (row,) = [line for line in text.splitlines() if line.startswith("/web ")]
    assert " at least 38.7% " in row


def test_sampled_accesses_are_shown_by_both_nodes_and_what_came_home() -> None:
    text = _table(tick({STUCK_FAULT: 3000, LOCAL_FAULT: 1000, HEALED_FAULT: 5}), print_accesses)
    assert "by CPU's node and memory's node; 5 were brought to the CPU's node by that" in text
    assert [line.split() for line in text.splitlines() if line.startswith("N0")] == [["N0", "1005", "3000"]]


def test_moved_pages_are_shown_by_both_nodes_and_what_could_not_be_moved() -> None:
    between = {(1, 0): MigratedPages(2048, 512), (None, 1): MigratedPages(256, 0)}
    migrated = Migrated({"numa_misplaced": MigratedPages(2304, 512)}, {}, between)
    snapshot = replace(tick(), migrations={WEB.id: migrated})
    (web,) = build(snapshot).containers
    assert web.migrated_between is not None
    assert [(one.from_numa_node, one.to_numa_node, one.bytes, one.failed_bytes) for one in web.migrated_between] == [
        (1, 0, 8 << 20, 2 << 20),
        (None, 1, 1 << 20, 0),
    ]
    text = _table(snapshot, print_moved_pages)
    assert "moved by NUMA balancing for /web, from node to node; 2M could not be moved" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("N1", "UNKNOWN"))]
    assert rows == [["N1", "8M", "0"], ["UNKNOWN", "0", "1M"]]


def test_where_no_program_can_watch_the_nodes_they_are_null_and_not_empty() -> None:
    snapshot = replace(tick(), migrations={WEB.id: Migrated({}, {})})
    (web,) = build(snapshot).containers
    assert web.migrated_between is None
    idle = replace(tick(), migrations={})
    assert build(idle).containers[0].migrated_between == ()
