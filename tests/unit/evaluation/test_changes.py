"""A container that did not change is not judged again: the kept result is the one that judging again would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from documentation.examples import times
from numaudit.containermanager.memory.state import Block
from numaudit.counted import CountBasis, CountedAccesses, HintFault, Migrated, MigratedPages, Sampled, SeenRemote
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.changes import OF_CONTAINERS, OF_NO_CONTAINER, OF_THE_HOST, unchanged
from numaudit.evaluation.thresholds import Thresholds
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.pmu.stall import Bounds, Penalty
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import (
    Allowed,
    Balancing,
    CollectorOutcome,
    Container,
    ContainerId,
    Mappings,
    NodeMemory,
    Resident,
    Snapshot,
)
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
IDS = tuple(ContainerId(number) for number in (7, 8, 9))
MACHINE = Machine(
    (Node(0, CpuSet.parse("0-3"), distances={0: 10, 1: 21}), Node(1, CpuSet.parse("4-7"), distances={0: 21, 1: 10}))
)
OTHER_MACHINE = replace(MACHINE, page_size=65536)
FAULTS = {HintFault(0, 1, 16): 300, HintFault(0, 0, 8): 5}
THRESHOLDS = (Thresholds(), Thresholds(spilled_bytes=40 * MIB, spilled_ticks=1))


def _container(id_: ContainerId, name: str = "c") -> Container:
    path = f"/kubepods/poduid{id_}/c"
    return Container(id_, path, "container", qos="Guaranteed", pod_uid=f"uid{id_}", pod="db", name=name)


def _intent(nodes: NodeSet, policy: str = "Static") -> Intent:
    promise = Promise(memory=(Block.of("memory", 100 * MIB, nodes),))
    promised = [ContainerIntent(f"uid{id_}", "c", cgroups=(id_,), promise=promise) for id_ in IDS[:2]]
    return Intent(containers=tuple(promised), config=KubeletConfig(memory_manager_policy=policy))


RESIDENT = (
    Resident(anon={0: 100 * MIB, 1: 0}, shmem={0: 0, 1: 0}),
    Resident(anon={0: 70 * MIB, 1: 30 * MIB}, shmem={0: 0, 1: 0}),
    Resident(anon={0: 50 * MIB, 1: 50 * MIB}, shmem={0: 0, 1: 2 * MIB}, mapped={0: 0, 1: 0}),
)
ALLOWED = (
    Allowed(NodeSet.of(0), CpuSet.parse("0-3")),
    Allowed(NodeSet.of(1), CpuSet.parse("4-7")),
    Allowed(NodeSet.of(0, 1), CpuSet.parse("0-7")),
    Allowed(None, None),
)
CPU: tuple[Mapping[int, float], ...] = ({0: 5.0}, {0: 5.0, 1: 4.0}, {0: 60.0, 1: 4.0})
PASSES = SeenRemote({(0, 1): 40 * MIB}, 3.0, 0, mapped=100 * MIB)
SAMPLED = (Sampled({}), Sampled(FAULTS), Sampled(FAULTS, PASSES), Sampled(FAULTS, is_watched=False))
MIGRATED = (
    Migrated({"numa_misplaced": MigratedPages(9000, 200)}, {}, {(0, 1): MigratedPages(9000, 200)}),
    Migrated({"syscall_or_cpuset": MigratedPages(8000, 0)}, {}),
)
BASIS = CountBasis("made up", "lines", includes_prefetch=False)
COUNTED = (
    CountedAccesses(BASIS, {(0, "local"): 10**6, (0, "remote"): 10**5}, 10, 10),
    CountedAccesses(BASIS, {(0, "local"): 2 * 10**6, (0, "remote"): 9 * 10**5}, 20, 15),
)
FIRST: tuple[Mapping[tuple[int, int | None], int], ...] = ({(0, 0): 5000}, {(0, 0): 5000, (0, 1): 3000})
PENALTY = Penalty({0: Bounds(50, 60), 1: Bounds(50, 60)}, "ratio", "made up")


def _nodes(free: int, turned_away: int) -> tuple[NodeMemory, ...]:
    numastat = {"numa_hit": 100 * MIB, "numa_foreign": turned_away}
    held = [Resident(anon={node: 900 * MIB}, file={node: MIB}) for node in (0, 1)]
    return tuple(NodeMemory(node, 1000 * MIB, free, one, numastat=numastat) for node, one in enumerate(held))


def _rows(values: Sequence[object]) -> st.SearchStrategy[dict[ContainerId, object]]:
    """Mostly a row for each container."""
    return st.fixed_dictionaries({}, optional={id_: st.sampled_from(values) for id_ in IDS})


ROOT = Resident(anon={0: 3 * MIB}, shmem={0: 0, 1: MIB}, file={0: 0, 1: 0})
STEPS = {
    "containers": st.sampled_from(
        [tuple(map(_container, IDS)), tuple(map(_container, IDS[:2])), (_container(IDS[1], "d"), _container(IDS[0]))]
    ),
    "machine": st.sampled_from([MACHINE, OTHER_MACHINE]),
    "intent": st.sampled_from(
        [None, _intent(NodeSet.of(0)), _intent(NodeSet.of(0, 1)), _intent(NodeSet.of(0), "None")]
    ),
    "outcomes": st.sampled_from([(), (CollectorOutcome("intent", "failed", "another reason"),)]),
    "nodes": st.builds(_nodes, st.sampled_from([5 * MIB, 8 * MIB, 500 * MIB]), st.sampled_from([0, 60 * MIB])),
    "penalty": st.sampled_from([None, PENALTY]),
    "unattributed": st.sampled_from([None, ROOT, structs.replace(ROOT, hugetlb={0: 0, 1: 4 * MIB})]),
    "allowed": _rows(ALLOWED),
    "residency": _rows(RESIDENT),
    "not_resident": _rows([(("hugetlb", "its reason"),)]),
    "numa_maps": st.sampled_from([{}, {IDS[0]: Mappings({}, {"bind:1": {1: 9 * MIB}}, {}, 1, 1)}]),
    "cpu_time": st.none() | _rows(CPU),
    "page_alloc": st.none() | _rows(({(0, 0): MIB}, {(0, 1): MIB})),
    "pmu": st.none() | _rows(COUNTED),
    "hint_faults": st.none() | _rows(SAMPLED),
    "migrations": st.none() | _rows(MIGRATED),
    "numa_balancing": st.none() | _rows(({"numa_pte_updates": 1},)).map(lambda rows: Balancing({}, rows)),  # type: ignore[arg-type]
}
"""What each field of a snapshot may become from one tick to the next."""
PLAIN: Mapping[str, object] = {
    "machine": MACHINE,
    "containers": tuple(map(_container, IDS)),
    "intent": _intent(NodeSet.of(0)),
    "nodes": _nodes(500 * MIB, 0),
    "unattributed": ROOT,
    "allowed": dict.fromkeys(IDS, ALLOWED[0]),
    "residency": {IDS[0]: RESIDENT[0], IDS[1]: RESIDENT[1], IDS[2]: RESIDENT[2]},
}
MEASURED = {
    **PLAIN,
    "penalty": PENALTY,
    "pmu": dict.fromkeys(IDS, COUNTED[0]),
    "cpu_time": {IDS[0]: CPU[0]},
    "hint_faults": {},
    "migrations": {},
}
WITHOUT_KUBELET = {**PLAIN, "intent": None, "outcomes": (CollectorOutcome("intent", "failed", "its reason"),)}
CHANGES = st.lists(
    st.sampled_from(sorted(STEPS)).flatmap(lambda name: st.tuples(st.just(name), STEPS[name])), max_size=2
)
PHASES = st.lists(
    st.tuples(CHANGES, st.sampled_from([1, 4]), st.sampled_from([1.0, 15.0, 300.0]), st.sampled_from(THRESHOLDS)),
    min_size=1,
    max_size=5,
)
"""What changes, for how many ticks it then stays, how far apart these are, and the limits."""


@times(4)
@given(st.sampled_from([PLAIN, MEASURED, WITHOUT_KUBELET]), PHASES)
def test_any_tick_is_judged_and_reported_as_if_nothing_had_been_kept(
    first: Mapping[str, object], phases: Sequence[tuple[list[tuple[str, object]], int, float, Thresholds]]
) -> None:
    state, at = dict(first), 1000.0
    before: Snapshot | None = None
    kept: Judgements | None = None
    forgetful: Judgements | None = None
    last: Report | None = None
    for changes, ticks, passed, limits in phases:
        state.update(changes)
        for _ in range(ticks):
            at += passed
            snapshot = Snapshot(taken_at=at, cgroup_mode="v2", **state)  # type: ignore[arg-type]
            kept = judge(snapshot, before, kept, limits)
            started = None if forgetful is None else replace(_forget(forgetful), hint_outcomes=None)
            forgetful = judge(snapshot, before, started, limits)
            assert _forget(kept) == _forget(forgetful)
            report = build(snapshot, kept, before, last)
            assert report == build(snapshot, _forget(kept), before)
            before, last = snapshot, report


def _forget(judgements: Judgements) -> Judgements:
    """The same without what spares the next tick its work."""
    return replace(judgements, unchanged=frozenset(), kept=frozenset(), settled=frozenset())


def _still(at: float, **other: object) -> Snapshot:
    values = {**PLAIN, "residency": dict.fromkeys(IDS, RESIDENT[0]), **other}
    return Snapshot(taken_at=at, cgroup_mode="v2", **values)  # type: ignore[arg-type]


def test_what_did_not_change_keeps_its_verdict_and_its_row_themselves() -> None:
    ticks = [_still(1000.0 + 15 * number) for number in range(4)]
    judged: list[Judgements] = []
    reports: list[Report] = []
    for number, now in enumerate(ticks):
        before = ticks[number - 1] if number else None
        judged.append(judge(now, before, judged[-1] if judged else None))
        reports.append(build(now, judged[-1], before, reports[-1] if reports else None))
    assert judged[-1].settled == {*IDS}
    assert all(judged[3].verdicts[id_] is judged[2].verdicts[id_] for id_ in IDS)
    assert all(new is old for new, old in zip(reports[3].containers, reports[2].containers, strict=True))


def test_a_measured_share_is_kept_with_the_judgement() -> None:
    used = SeenRemote({(0, 1): 4 * MIB}, 0.0, 0, 8 * MIB)
    sampled = {IDS[0]: Sampled({HintFault(0, 1, 0): 10}, used)}
    ticks = [_still(1000.0 + 15 * number, intent=None, hint_faults=sampled) for number in range(4)]
    judged: Judgements | None = None
    for number, now in enumerate(ticks):
        judged = judge(now, ticks[number - 1] if number else None, judged)
    assert judged is not None and IDS[0] in judged.kept
    assert judged.measured == judge(ticks[3], ticks[2]).measured
    assert judged.measured[IDS[0]].lower == 0.5


def test_what_is_found_again_is_the_very_value_of_the_tick_before() -> None:
    """So nothing is rendered again for it."""
    first, second = _still(1000.0), _still(1015.0)
    earlier = judge(first)
    once = judge(second, first, earlier)
    again = judge(_still(1030.0, residency=dict.fromkeys(IDS, RESIDENT[2]), intent=second.intent), second, once)
    assert once.hint_outcomes and again.hint_outcomes is once.hint_outcomes
    more = structs.replace(RESIDENT[0], anon={0: 101 * MIB, 1: 0})
    grown = judge(_still(1030.0, residency=dict.fromkeys(IDS, more)), second, once)
    assert grown.verdicts[IDS[0]] is once.verdicts[IDS[0]]
    assert again.verdicts[IDS[0]] is not once.verdicts[IDS[0]]


def test_one_that_changed_is_the_only_one_that_is_judged_again() -> None:
    moved = {**dict.fromkeys(IDS, RESIDENT[0]), IDS[1]: RESIDENT[1]}
    assert unchanged(_still(1015.0, residency=moved), _still(1000.0)) == {IDS[0], IDS[2]}


def test_a_container_that_came_or_lost_a_row_has_changed() -> None:
    without = dict.fromkeys(IDS[:2], RESIDENT[0])
    assert unchanged(_still(1015.0, residency=without), _still(1000.0)) == {*IDS[:2]}
    assert unchanged(_still(1015.0), _still(1000.0, residency=without)) == {*IDS[:2]}
    assert unchanged(_still(1015.0), _still(1000.0, containers=tuple(map(_container, IDS[:2])))) == {*IDS[:2]}


def test_other_promises_change_every_container() -> None:
    assert unchanged(_still(1015.0, intent=_intent(NodeSet.of(1))), _still(1000.0)) == frozenset()


def test_other_limits_are_applied_to_containers_that_did_not_change() -> None:
    spilled = dict.fromkeys(IDS, RESIDENT[1])
    wide = Thresholds(spilled_bytes=40 * MIB)
    judged, before = None, None
    for number in range(4):
        now = _still(1000.0 + 15 * number, residency=spilled)
        judged, before = judge(now, before, judged, wide), now
    assert judged is not None and judged.verdicts[IDS[0]].name == "aligned"
    for number in range(4, 6):
        now = _still(1000.0 + 15 * number, residency=spilled)
        judged, before = judge(now, before, judged), now
    assert judged.verdicts[IDS[0]].name == "spilled"


def test_every_field_of_a_snapshot_that_is_not_the_hosts_has_a_row_for_each_container() -> None:
    types: dict[str, str] = Snapshot.__annotations__
    assert types.keys() >= {*OF_THE_HOST, *OF_NO_CONTAINER}
    assert [name for name in OF_CONTAINERS if not types[name].startswith("Mapping[ContainerId, ")] == []


def test_a_node_that_fills_up_is_named_although_the_container_did_not_change() -> None:
    elsewhere = {IDS[2]: RESIDENT[1]}
    ticks = [_still(1000.0 + 15 * number, residency=elsewhere) for number in range(4)]
    ticks.append(_still(1060.0, residency=elsewhere, nodes=_nodes(5 * MIB, 0)))
    judged: Judgements | None = None
    causes = []
    for number, now in enumerate(ticks):
        judged = judge(now, ticks[number - 1] if number else None, judged)
        causes.append([one.cause for one in judged.verdicts[IDS[2]].causes])
    assert causes == [["unknown"]] * 4 + [["full-node"]]


def test_a_finding_that_came_by_another_container_is_in_the_row_of_one_that_did_not_change() -> None:
    """Both promises draw on the same pages, and one of them now asks for more than is free."""
    most, little = (structs.replace(RESIDENT[0], anon={0: size * MIB, 1: 0}) for size in (90, 10))
    residents = [{IDS[0]: most, IDS[1]: most}] * 4 + [{IDS[0]: most, IDS[1]: little}]
    ticks = [
        _still(1000.0 + 15 * number, residency=of, nodes=_nodes(50 * MIB, 0)) for number, of in enumerate(residents)
    ]
    judged: Judgements | None = None
    last: Report | None = None
    found = []
    for number, now in enumerate(ticks):
        before = ticks[number - 1] if number else None
        judged = judge(now, before, judged)
        last = build(now, judged, before, last)
        found.append({one.id: "oom-risk" in one.findings for one in last.containers}[IDS[0]])
    assert judged is not None and IDS[0] in judged.kept
    assert found == [False] * 4 + [True]
