"""Shares of remote accesses: intervals, what is fair to say, and memory that cannot come home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.evaluation.access import accesses, failed_moves, remote_shares, wilson
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.build import build
from numaudit.evaluation.findings import find
from numaudit.snapshot import Container, ContainerId, HintFault, Migrated, MigratedPages, Resident, Sampled, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
WEB = Container(ContainerId(7), "/web", "group")
NO_GROUP, SHARED, LOCAL, MIGRATED, MIGRATE_FAIL = 2, 4, 8, 1, 16
LOCAL_FAULT = HintFault(0, 0, LOCAL)
REMOTE_FAULT = HintFault(0, 1, 0)
HEALED_FAULT = HintFault(0, 0, MIGRATED)
STUCK_FAULT = HintFault(0, 1, MIGRATE_FAIL)


def look(
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
        resident={WEB.id: Resident(anon={0: 300, 1: 100})},
        hint_faults=None if faults is None else {WEB.id: Sampled(faults, single_threaded, is_scanned)},
        migrated=None if migrated is None else {WEB.id: Migrated(migrated, {})},
    )


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


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_an_interval_holds_its_share_and_is_wider_than_that_of_independent_samples(part: int, rest: int) -> None:
    whole = part + rest
    lower, upper = wilson(part, whole)
    alone = wilson(part, whole, design_effect=1)
    assert 0 <= lower <= alone[0] <= alone[1] <= upper <= 1
    if whole:
        assert lower - 1e-9 <= part / whole <= upper + 1e-9


def test_a_page_that_was_brought_home_was_remote_when_it_was_used() -> None:
    (access,) = accesses(look({HEALED_FAULT: 600, LOCAL_FAULT: 600}), WEB)
    assert (access.samples, access.remote_samples, access.remote_ratio) == (1200, 600, 0.5)
    assert access.lower is not None and access.upper is not None
    assert 0.45 < access.lower < 0.5 < access.upper < 0.55


def test_a_process_with_one_thread_has_samples_but_no_ratio() -> None:
    (access,) = accesses(look({STUCK_FAULT: 76113}, single_threaded=True), WEB)
    assert (access.remote_ratio, access.lower, access.samples, access.remote_samples) == (None, None, 76113, 76113)
    assert access.reason is not None and "one thread" in access.reason


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (look({REMOTE_FAULT: 999}), "too few"),
        (look({REMOTE_FAULT: 5000}, single_threaded=None), "not known"),
        (look({}, is_scanned=False), "does not sample"),
        (look({}), "too few"),
    ],
    ids=["few samples", "threads not known", "not scanned", "no samples"],
)
def test_what_cannot_be_told_fairly_says_why(snapshot: Snapshot, words: str) -> None:
    (access,) = accesses(snapshot, WEB)
    assert access.remote_ratio is None
    assert access.reason is not None and words in access.reason
    assert remote_shares(snapshot) == {}


def test_a_container_that_the_probe_saw_nothing_of_had_no_samples() -> None:
    (access,) = accesses(replace(look(), hint_faults={}), WEB)
    assert (access.samples, access.remote_ratio) == (0, None)


def test_without_a_probe_nothing_is_said_of_samples() -> None:
    assert accesses(look(), WEB) == ()
    assert build(look()).containers[0].hint_faults is None


def test_a_container_that_the_kernel_does_not_scan_has_no_hint_faults_instead_of_none_seen() -> None:
    assert build(look({}, is_scanned=False)).containers[0].hint_faults is None
    assert build(look({})).containers[0].hint_faults == ()


def test_the_expected_share_is_the_reports_own_figure() -> None:
    snapshot = replace(look(), cpu_seconds={WEB.id: {0: 1.0, 1: 1.0}})
    (access,) = accesses(snapshot, WEB)
    assert (access.source, access.remote_ratio, access.lower) == ("expected", 0.5, None)
    assert build(snapshot).containers[0].expected_remote_ratio == access.remote_ratio
    assert remote_shares(snapshot) == {}


def test_a_share_tells_of_the_time_since_the_look_before() -> None:
    before = look({LOCAL_FAULT: 10_000, REMOTE_FAULT: 50})
    (access,) = accesses(look({LOCAL_FAULT: 10_500, REMOTE_FAULT: 1050}), WEB, before)
    assert (access.samples, access.remote_samples) == (1500, 1000)


def test_the_measured_share_is_what_verdicts_are_given_by() -> None:
    share = remote_shares(look({LOCAL_FAULT: 9000, REMOTE_FAULT: 1000}))[WEB.id]
    assert share.source == "hint_faults"
    assert share.lower < 0.1 < share.upper
    assert judge(look({LOCAL_FAULT: 9000, REMOTE_FAULT: 1000})).verdicts[WEB.id].name == "unmanaged"


def test_flags_are_told_in_the_kernels_words() -> None:
    assert HintFault(0, 1, MIGRATE_FAIL | NO_GROUP).names == ("no_group", "migrate_fail")
    assert HintFault(0, 0, LOCAL | SHARED | MIGRATED).names == ("migrated", "shared", "local")


def test_memory_that_is_used_from_afar_and_cannot_move_is_a_finding() -> None:
    (finding,) = find(look({STUCK_FAULT: 5000}, single_threaded=True))
    assert (finding.name, finding.container_id, finding.container) == ("cannot-heal", WEB.id, "/web")
    assert "5000 pages" in finding.message
    assert build(look({STUCK_FAULT: 5000})).containers[0].findings == ("cannot-heal",)


def test_failed_migrations_tell_the_same_where_hint_faults_cannot_be_counted() -> None:
    stuck = look(migrated={"numa_misplaced": MigratedPages(0, 5000)})
    assert failed_moves(stuck, WEB.id) == (5000, 0)
    assert [one.name for one in find(stuck)] == ["cannot-heal"]
    assert find(look(migrated={"compaction": MigratedPages(0, 5000)})) == ()


@pytest.mark.parametrize(
    "faults",
    [{STUCK_FAULT: 99}, {STUCK_FAULT: 1000, HEALED_FAULT: 1001}, {REMOTE_FAULT: 5000}, {}],
    ids=["too few", "most of it heals", "nothing was to be moved", "nothing seen"],
)
def test_memory_that_heals_is_no_finding(faults: Mapping[HintFault, int]) -> None:
    assert find(look(faults)) == ()


def test_a_container_that_could_not_heal_long_ago_is_no_finding_now() -> None:
    assert find(look({STUCK_FAULT: 5000}), before=look({STUCK_FAULT: 5000})) == ()
