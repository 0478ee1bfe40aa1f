"""Memory that is used from another node: what sampled pages show and do not show, and memory that cannot return."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace
from rich.console import Console

from numaudit.evaluation.access import Access, measured
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.causes.arrivals import failed_moves
from numaudit.evaluation.findings import find
from numaudit.evaluation.verdicts import Thresholds
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.snapshot.counted import HintFault, Migrated, MigratedPages, Sampled, SeenRemote
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.terminal.report_tables import print_accesses, print_moved_pages, print_report

MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
WEB = Container(ContainerId(7), "/web", "group")
NO_GROUP, SHARED, LOCAL, MIGRATED, MIGRATE_FAIL = 2, 4, 8, 1, 16
LOCAL_FAULT = HintFault(0, 0, LOCAL)
REMOTE_FAULT = HintFault(0, 1, 0)
HEALED_FAULT = HintFault(0, 0, MIGRATED)
STUCK_FAULT = HintFault(0, 1, MIGRATE_FAIL)
NOTHING: Mapping[tuple[int, int], int] = {}


MIB = 1 << 20


def tick(
    faults: Mapping[HintFault, int] | None = None,
    used: SeenRemote | None = None,
    is_scanned: bool = True,
    is_watched: bool = True,
    knows_passes: bool = True,
    migrated: Mapping[str, MigratedPages] | None = None,
) -> Snapshot:
    sampled = Sampled(faults or {}, used, knows_passes, is_scanned, is_watched)
    return Snapshot(
        taken_at=0.0,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(WEB,),
        nodes=(NodeMemory(0, None, None, Resident()), NodeMemory(1, None, None, Resident())),
        residency={WEB.id: Resident(anon={0: 300 * MIB, 1: 100 * MIB})},
        hint_faults=None if faults is None and used is None else {WEB.id: sampled},
        migrations=None if migrated is None else {WEB.id: Migrated(migrated, {})},
    )


def used(remote: Mapping[tuple[int, int], int] = NOTHING, mapped: int | None = 400, age: float = 0.0) -> SeenRemote:
    """Sizes in MiB."""
    pairs = {pair: size * MIB for pair, size in remote.items()}
    return SeenRemote(pairs, age, 0, None if mapped is None else mapped * MIB)


def accesses(snapshot: Snapshot, container: Container, before: Snapshot | None = None) -> tuple[Access, ...]:
    return judge(snapshot, before).accesses[container.id]


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


def test_pages_seen_used_from_afar_are_bytes_of_its_memory_and_no_share_of_accesses() -> None:
    (access,) = accesses(tick(used=used({(0, 1): 12, (2, 1): 4}, mapped=64, age=9.0)), WEB)
    assert (access.source, access.of, access.remote_ratio) == ("hint_faults", "pages", None)
    assert (access.lower, access.upper, access.age) == (0.25, None, 9.0)
    assert access.used_remotely is not None
    assert (access.used_remotely.at_least_bytes, access.used_remotely.memory_bytes) == (16 * MIB, 64 * MIB)
    pairs = [(one.cpu_numa_node, one.numa_node, one.bytes) for one in access.used_remotely.by_pair]
    assert pairs == [(0, 1, 12 * MIB), (2, 1, 4 * MIB)]


def test_of_pages_that_were_not_seen_used_from_afar_nothing_follows() -> None:
    (access,) = accesses(tick(used=used({(0, 1): 0})), WEB)
    assert (access.remote_ratio, access.upper, access.used_remotely) == (None, None, None)
    assert access.reason == "no use from another node was seen, which proves nothing"
    assert measured(accesses(tick(used=used()), WEB)) is None


def test_where_it_runs_in_this_tick_takes_nothing_from_what_was_seen() -> None:
    """A worker that runs in bursts does not run in every tick."""
    before = replace(tick(used=used({(1, 0): 50})), cpu_time={WEB.id: {1: 50.0}})
    now = replace(tick(used=used({(1, 0): 50})), cpu_time={WEB.id: {0: 15.0, 1: 50.0}})
    (access, _) = accesses(now, WEB, before)
    assert access.lower == 0.125


def test_where_no_process_can_be_read_its_own_bytes_are_its_memory() -> None:
    (access,) = accesses(tick(used=used({(0, 1): 100}, mapped=None)), WEB)
    assert access.lower == 0.25
    unknown = replace(tick(used=used({(0, 1): 100}, mapped=None)), residency={})
    assert accesses(unknown, WEB)[0].lower is None


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (tick({}), "no page of it was sampled yet"),
        (tick({}, is_scanned=False), "does not sample"),
        (tick({}, is_watched=False), "watch list"),
        (tick({REMOTE_FAULT: 5000}, knows_passes=False), "numa_scan_seq"),
        (tick({REMOTE_FAULT: 5000}), "those that were sampled have ended, or the map of the probe had no room"),
    ],
    ids=["no samples", "not scanned", "not watched", "no passes", "passes that are gone"],
)
def test_a_source_that_saw_no_page_says_why(snapshot: Snapshot, words: str) -> None:
    (access,) = accesses(snapshot, WEB)
    assert (access.lower, access.used_remotely) == (None, None)
    assert access.reason is not None and words in access.reason
    assert measured(accesses(snapshot, WEB)) is None


def test_a_container_that_the_probe_saw_nothing_of_had_no_samples() -> None:
    (access,) = accesses(replace(tick(), hint_faults={}), WEB)
    assert (access.used_remotely, access.lower) == (None, None)


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
    assert measured(accesses(snapshot, WEB)) is None


def test_what_is_measured_is_what_the_report_has_for_verdict_and_gate() -> None:
    snapshot = tick(used=used({(0, 1): 100}))
    (web,) = build(snapshot).containers
    assert web.measured is not None
    assert (web.measured.source, web.measured.of, web.measured.is_exact) == ("hint_faults", "pages", False)
    assert web.measured.lower == 0.25
    assert judge(snapshot).verdicts[WEB.id].name == "unmanaged"


def test_flags_have_the_kernels_names() -> None:
    assert HintFault(0, 1, MIGRATE_FAIL | NO_GROUP).names == ("no_group", "migrate_fail")
    assert HintFault(0, 0, LOCAL | SHARED | MIGRATED).names == ("migrated", "shared", "local")


def test_memory_that_is_used_from_afar_and_cannot_move_is_a_finding() -> None:
    (finding,) = find(tick({STUCK_FAULT: 5000}))
    assert (finding.name, finding.container_id, finding.container) == ("cannot-heal", WEB.id, "/web")
    assert "5000 pages" in finding.message
    assert build(tick({STUCK_FAULT: 5000})).containers[0].findings == ("cannot-heal",)


@pytest.mark.parametrize("faults", [{STUCK_FAULT: 100}, {STUCK_FAULT: 1000, HEALED_FAULT: 1000}])
def test_a_hundred_failures_and_as_many_as_successes_are_enough(faults: Mapping[HintFault, int]) -> None:
    (finding,) = find(tick(faults))
    assert (finding.name, finding.numa_nodes) == ("cannot-heal", None)


def test_the_limits_of_the_verdicts_are_those_of_the_whole_report() -> None:
    snapshot = tick({STUCK_FAULT: 50, LOCAL_FAULT: 50})
    low = judge(snapshot, thresholds=Thresholds(failed_moves=50))
    (own,) = build(snapshot, low).containers
    (usual,) = build(snapshot).containers
    assert (own.findings, usual.findings) == (("cannot-heal",), ())


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


def _table(snapshot: Snapshot, print_: Callable[[Report, Console], None]) -> str:
    out = io.StringIO()
    print_(build(snapshot), Console(file=out, width=200, highlight=False, markup=False))
    return out.getvalue()


def test_the_table_shows_the_bytes_seen_used_from_afar_and_the_finding_with_its_subject() -> None:
    snapshot = tick({STUCK_FAULT: 3000}, used({(0, 1): 12}))
    text = _table(snapshot, lambda report, out: print_report(report, out, wide=True))
    assert "USED REMOTELY" in text
    assert ">=12Mi" in text
    assert "cannot-heal: /web: NUMA balancing could not bring 3000 pages" in text


def test_without_remote_uses_there_is_no_column_of_them() -> None:
    text = _table(tick({LOCAL_FAULT: 5}, used()), lambda report, out: print_report(report, out, wide=True))
    assert "REMOTELY" not in text


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
    assert "moved by NUMA balancing for /web, from node to node; 2Mi could not be moved" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("N1", "UNKNOWN"))]
    assert rows == [["N1", "8Mi", "0"], ["UNKNOWN", "0", "1Mi"]]


def test_where_no_program_can_watch_the_nodes_they_are_null_and_not_empty() -> None:
    snapshot = replace(tick(), migrations={WEB.id: Migrated({}, {})})
    (web,) = build(snapshot).containers
    assert web.migrated_between is None
    idle = replace(tick(), migrations={})
    assert build(idle).containers[0].migrated_between == ()
