"""Verdicts over many ticks: they hold while nothing changes, however unevenly evidence comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import find
from numaudit.evaluation.rates import Window
from numaudit.evaluation.verdicts import Thresholds, Verdict
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.snapshot.counted import HintFault, Sampled, SeenRemote
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
INTERVAL = 15.0
DB = ContainerId(7)
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
LOCAL = HintFault(0, 0, 8)
STUCK, MOVED = HintFault(0, 1, 16), HintFault(0, 0, 1)
"""A page that could not be moved to the CPU that used it, and one that was (flags migrate_fail and migrated)."""


def tick(
    at: float,
    used: tuple[int, int] | None = None,
    cpu_seconds: Mapping[int, float] | None = None,
    *,
    mems: str = "0",
    cpus: str = "0-3",
    outside: int = 0,
    age: float = 0.0,
) -> Snapshot:
    """A container with 100 MiB of memory promised on node 0. `used`: MiB that the newest scan pass saw used from their
    own node, and from the other one.
    """
    promise = Promise(memory=(Block.of("memory", 100 * MIB, NodeSet.of(0)),))
    pages = None
    if used is not None:
        pages = SeenRemote({(0, 1): used[1] * MIB}, age, 0, mapped=100 * MIB)
    return Snapshot(
        taken_at=1000.0 + at,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(Container(DB, "/kubepods/poduid/c", "container", qos="Guaranteed", pod_uid="uid", name="db"),),
        allowed={DB: Allowed(NodeSet.parse(mems), CpuSet.parse(cpus))},
        residency={DB: Resident(anon={0: 100 * MIB - outside, 1: outside}, shmem={})},
        intent=Intent(containers=(ContainerIntent("uid", "db", cgroups=(DB,), promise=promise),)),
        hint_faults=None if pages is None else {DB: Sampled({}, pages)},
        cpu_time=None if cpu_seconds is None else {DB: cpu_seconds},
    )


def judged(snapshots: Iterable[Snapshot], thresholds: Thresholds | None = None) -> list[Judgements]:
    """The judgements of each tick, as the agent makes them."""
    found: list[Judgements] = []
    before = None
    for snapshot in snapshots:
        found.append(judge(snapshot, before, found[-1] if found else None, thresholds or Thresholds()))
        before = snapshot
    return found


def cannot_heal(snapshots: Sequence[Snapshot]) -> list[bool]:
    """Of each tick: is that found?"""
    told = (find(*one) for one in zip(snapshots, judged(snapshots), strict=True))
    return ["cannot-heal" in {one.name for one in found} for found in told]


def verdicts(snapshots: Iterable[Snapshot], thresholds: Thresholds | None = None) -> list[Verdict]:
    return [one.verdicts[DB] for one in judged(snapshots, thresholds)]


def names(snapshots: Iterable[Snapshot]) -> list[str]:
    return [one.name for one in verdicts(snapshots)]


def changes(found: Sequence[str]) -> int:
    return sum(one != other for one, other in pairwise(found))


REMOTE, LITTLE, NONE = (40, 50), (90, 7), (99, 0)


def passes(*seen: tuple[int, int] | None) -> list[Snapshot]:
    """Ticks with what the newest pass of each saw; None = the probe was paused."""
    return [tick(index * INTERVAL, used) for index, used in enumerate(seen)]


def test_remote_access_holds_while_the_newest_pass_says_so_and_ends_with_the_one_that_does_not() -> None:
    found = verdicts(passes(*[REMOTE] * 40, NONE, NONE))
    assert {one.name for one in found[:40]} == {"remote-access"}
    assert {one.since for one in found[1:40]} == {None}
    assert [one.name for one in found[40:]] == ["aligned", "aligned"]


def test_remote_access_is_told_in_bytes_and_says_from_which_node_they_are_used() -> None:
    reason = verdicts(passes(REMOTE))[-1].reason
    assert reason == "at least 50Mi of its 100Mi were used from another node, by CPUs of node 0 (hint_faults)"
    old = verdicts([tick(0, REMOTE, age=300.0)])[-1].reason
    assert old.endswith("(hint_faults, 5 min ago)")


def test_a_share_inside_the_band_keeps_the_verdict_that_was_there() -> None:
    assert set(names(passes(*[LITTLE] * 5))) == {"aligned"}
    found = verdicts(passes(REMOTE, *[LITTLE] * 5))
    assert {one.name for one in found} == {"remote-access"}
    assert "less than before; the verdict ends below 5.0%" in found[-1].reason


def test_a_source_that_is_paused_for_a_while_keeps_the_verdict_and_then_its_evidence_ends() -> None:
    found = names(passes(REMOTE, *[None] * 12))
    assert found[:9] == ["remote-access"] * 9
    assert set(found[9:]) == {"aligned"}
    assert verdicts(passes(REMOTE, *[None] * 12))[-1].reason == "access not measured"


def test_threads_that_use_all_promised_nodes_alike_are_split_and_not_remote() -> None:
    def spanning(remote: int) -> Snapshot:
        seen = SeenRemote({(0, 1): remote * MIB}, 0.0, 0, mapped=100 * MIB)
        now = tick(0, mems="0-1", cpus="0-7")
        promise = Promise(memory=(Block.of("memory", 100 * MIB, NodeSet.parse("0-1")),))
        intent = Intent(containers=(ContainerIntent("uid", "db", cgroups=(DB,), promise=promise),))
        return replace(now, intent=intent, hint_faults={DB: Sampled({}, seen)})

    (half,) = verdicts([spanning(48)])
    assert half.name == "split"
    assert "at least 48Mi of its 100Mi" in half.reason
    assert names([spanning(80)]) == ["remote-access"]


def test_a_container_that_ended_is_forgotten() -> None:
    ticks = passes(REMOTE, REMOTE)
    assert set(judged(ticks)[-1].histories) == {DB}
    assert judged([*ticks, replace(ticks[-1], containers=())])[-1].histories == {}


def test_what_was_measured_on_other_nodes_does_not_count_any_more() -> None:
    ticks = [tick(0, REMOTE), tick(INTERVAL, REMOTE, mems="1"), tick(2 * INTERVAL, NONE)]
    assert names(ticks) == ["remote-access", "drifted", "aligned"]


def running(added: Sequence[Mapping[int, float]], cpus: str = "0-7", interval: float = INTERVAL) -> list[Snapshot]:
    """Ticks in which a container that may use these CPUs used so many seconds of each node's in addition."""
    ticks, seconds = [tick(0, cpu_seconds={}, cpus=cpus)], {0: 0.0, 1: 0.0}
    for index, more in enumerate(added, start=1):
        seconds = {node: seconds[node] + more.get(node, 0.0) for node in seconds}
        ticks.append(tick(index * interval, cpu_seconds=seconds, cpus=cpus))
    return ticks


IDLE: Mapping[int, float] = {}


def test_a_container_that_idles_between_bursts_of_work_does_not_flap() -> None:
    """By its allowed CPUs it would be remote; where it ran says that it is not."""
    found = names(running([{0: 2.0}, IDLE, IDLE, {0: 1.0}, IDLE] * 6, interval=1.0))
    assert found[0] == "cpu-remote"
    assert set(found[1:]) == {"aligned"}


def test_next_to_no_cpu_time_decides_nothing() -> None:
    last = verdicts(running([{0: 0.02, 1: 0.021}] * 5, cpus="0-3"))[-1]
    assert last.name == "aligned"
    last = verdicts(running([{0: 0.5}]))[-1]
    assert last.reason == "50% of the allowed CPUs are on nodes other than 0 (only 0.5 s of CPU time were measured)"


def test_cpu_time_of_several_ticks_adds_up() -> None:
    assert names(running([{0: 0.3}] * 5))[-1] == "aligned"


def test_cpu_remote_ends_when_the_share_is_clearly_below_its_limit() -> None:
    found = names(running([{1: 10.0}, *[{0: 14.4, 1: 0.6}] * 100, *[{0: 15.0}] * 100]))
    assert set(found[1:101]) == {"cpu-remote"}
    assert found[-1] == "aligned"
    assert changes(found[1:]) == 1


def test_one_more_or_less_shared_cpu_of_the_same_nodes_forgets_nothing() -> None:
    ticks = running([{0: 2.0}, IDLE])
    smaller = replace(ticks[-1], allowed={DB: Allowed(NodeSet.of(0), CpuSet.parse("0-6"))})
    assert names([*ticks[:-1], smaller])[1:] == ["aligned", "aligned"]


def test_a_container_that_was_given_cpus_of_other_nodes_is_judged_by_these() -> None:
    ticks = running([{0: 2.0}])
    moved = replace(
        tick(2 * INTERVAL, cpu_seconds={0: 2.0, 1: 0.0}), allowed={DB: Allowed(NodeSet.of(0), CpuSet.of(5))}
    )
    assert names([*ticks, moved]) == ["cpu-remote", "aligned", "cpu-remote"]


@pytest.mark.parametrize("seconds_before_the_change", [0.0, 2.0, 14.9])
def test_cpu_remote_ends_with_the_tick_in_which_its_cpus_were_put_right(seconds_before_the_change: float) -> None:
    """The CPU time between that tick and the one before may be of either set of CPUs, so it counts for neither."""
    elsewhere = 15.0 + seconds_before_the_change
    ticks = [
        tick(0, cpu_seconds={}, cpus="4-7"),
        tick(INTERVAL, cpu_seconds={1: 15.0}, cpus="4-7"),
        tick(2 * INTERVAL, cpu_seconds={0: 15.0 - seconds_before_the_change, 1: elsewhere}),
        tick(3 * INTERVAL, cpu_seconds={0: 30.0 - seconds_before_the_change, 1: elsewhere}),
    ]
    assert names(ticks) == ["cpu-remote", "cpu-remote", "aligned", "aligned"]


def test_the_tick_of_a_change_counts_for_neither_cpus_also_of_a_container_that_nothing_was_remembered_of() -> None:
    ticks = [
        tick(0, cpu_seconds={}, cpus="4-7"),
        tick(INTERVAL, cpu_seconds={0: 0.1, 1: 14.9}),
        tick(2 * INTERVAL, cpu_seconds={0: 15.1, 1: 14.9}),
    ]
    assert names(ticks) == ["cpu-remote", "aligned", "aligned"]


@pytest.mark.parametrize("seconds_of_the_runtime", [0.2, 2.0, 14.0])
def test_the_cpu_time_of_a_container_counts_from_the_first_tick_that_sees_its_cpuset(
    seconds_of_the_runtime: float,
) -> None:
    """Its runtime's own process (runc init) is in the cgroup first, and runs before the cpuset holds."""
    first = {0: 0.5, 1: seconds_of_the_runtime}
    ticks = [
        replace(tick(0, cpu_seconds={}), containers=(), allowed={}, residency={}),
        tick(INTERVAL, cpu_seconds=first),
        tick(2 * INTERVAL, cpu_seconds={0: 15.5, 1: seconds_of_the_runtime}),
        tick(3 * INTERVAL, cpu_seconds={0: 15.5, 1: seconds_of_the_runtime + 15.0}),
    ]
    found = [one.verdicts.get(DB) for one in judged(ticks)]
    assert [None if one is None else one.name for one in found] == [None, "aligned", "aligned", "cpu-remote"]


def test_the_cpu_time_of_a_container_that_is_new_is_not_said_to_be_none() -> None:
    before = replace(tick(0, cpu_seconds={}), containers=(), allowed={}, residency={})
    new = judge(tick(INTERVAL, cpu_seconds={1: 9.0}, cpus="0-7"), before).verdicts[DB]
    assert new.reason.endswith("(CPU time was not measured lately)")


def test_pages_that_could_not_be_moved_before_its_nodes_were_put_right_are_forgotten() -> None:
    def stuck(at: float, pages: int, mems: str) -> Snapshot:
        found = Sampled({STUCK: pages, LOCAL: 1})
        return replace(tick(at, mems=mems), hint_faults={DB: found})

    ticks = [stuck(0, 0, "1"), stuck(INTERVAL, 5000, "1"), stuck(2 * INTERVAL, 9000, "0")]
    assert cannot_heal(ticks) == [False, True, False]


def test_cpu_time_that_was_not_read_in_one_tick_is_not_counted_twice() -> None:
    ticks = running([{1: 100.0}, IDLE, {0: 100.0}, {0: 100.0}])
    ticks[2] = replace(ticks[2], cpu_time=None)
    seconds = judged(ticks)[-1].histories[DB].cpu_seconds.amounts
    assert seconds[1] < 100
    assert seconds[0] == pytest.approx(100)


_BUSY = st.lists(st.tuples(st.floats(0, 60), st.floats(0, 1), st.floats(0.2, 900)), min_size=1, max_size=40)


@given(_BUSY, st.booleans(), st.sampled_from(["0-3", "0-7", "4-7"]))
def test_any_burstiness_gives_one_change_of_a_verdict_on_cpus_at_most(
    work: list[tuple[float, float, float]], remote: bool, cpus: str
) -> None:
    """Its share of remote CPU time varies from tick to tick, on one side of the band."""
    at, seconds = 0.0, (0.0, 0.0)
    ticks = [tick(at, cpu_seconds={}, cpus=cpus)]
    for busy, where, pause in work:
        share = 0.06 + 0.94 * where if remote else 0.024 * where
        at, seconds = at + pause, (seconds[0] + busy * (1 - share), seconds[1] + busy * share)
        ticks.append(tick(at, cpu_seconds=dict(enumerate(seconds)), cpus=cpus))
    assert changes(names(ticks)) <= 1


def spilling(added: Sequence[tuple[str, int]], interval: float = INTERVAL) -> list[Snapshot]:
    """Ticks with this cpuset.mems and so many MiB outside node 0."""
    return [tick(index * interval, mems=mems, outside=size * MIB) for index, (mems, size) in enumerate(added)]


def test_a_drifted_container_whose_cpuset_was_put_right_has_a_tick_to_settle() -> None:
    """memory.numa_stat still shows the bytes where they were."""
    found = names(spilling([("1", 90), ("1", 90), ("0", 90), ("0", 0)]))
    assert found == ["drifted", "drifted", "unknown", "aligned"]


def test_bytes_that_are_on_their_way_home_are_no_spill() -> None:
    found = verdicts(spilling([("1", 90), ("0", 90), ("0", 60), ("0", 30), ("0", 0)]))
    assert [one.name for one in found] == ["drifted", "unknown", "unknown", "unknown", "aligned"]
    assert "still be moving back" in found[2].reason


def test_a_clock_that_was_set_back_does_not_delay_a_spill() -> None:
    drifted, first, second = spilling([("1", 90), ("0", 90), ("0", 90)])
    assert names([drifted, first, replace(second, taken_at=0.0)])[-1] == "spilled"


def test_bytes_that_stay_outside_after_the_cpuset_was_put_right_are_a_spill() -> None:
    assert names(spilling([("1", 90), ("0", 90), ("0", 60), ("0", 60)]))[-2:] == ["unknown", "spilled"]


def test_short_ticks_do_not_outrun_the_kernels_counters() -> None:
    found = names(spilling([("1", 90), *[("0", 90)] * 3, ("0", 0)], interval=1.0))
    assert found == ["drifted", "unknown", "unknown", "unknown", "aligned"]
    assert names(spilling([("1", 90), *[("0", 90)] * 4], interval=1.0))[-1] == "spilled"


# The finding cannot-heal


_NO_MOVES = (0, 0)


def moving(added: Sequence[tuple[int, int]], mems: Sequence[str] | None = None) -> list[Snapshot]:
    """Ticks in which so many pages could not be moved in addition, and so many could; the first one has none."""
    sums = accumulate(added, lambda past, new: (past[0] + new[0], past[1] + new[1]), initial=(0, 0))
    return [
        replace(
            tick(index * INTERVAL, mems="0" if mems is None else mems[index]),
            hint_faults={DB: Sampled({STUCK: failed, MOVED: done})},
        )
        for index, (failed, done) in enumerate(sums)
    ]


def test_memory_that_cannot_heal_is_found_between_bursts_of_attempts() -> None:
    found = cannot_heal(moving([(4000, 0), *[_NO_MOVES] * 15] * 4))
    assert found == [False, *[True] * 64]


def test_attempts_of_several_ticks_add_up_until_they_are_many() -> None:
    found = cannot_heal(moving([(40, 0)] * 8))
    assert found[:3] == [False, False, False]
    assert found[-1]


def test_most_attempts_lately_decide_not_those_of_one_tick() -> None:
    assert not any(cannot_heal(moving([(0, 5000), (200, 0), (200, 0)])))


def test_attempts_that_ended_are_no_finding_in_the_end() -> None:
    found = cannot_heal(moving([(150, 0), *[_NO_MOVES] * 40]))
    assert found[1:6] == [True] * 5
    assert not found[-1]


def test_moves_that_succeed_end_the_finding_once_they_are_most_by_far() -> None:
    found = cannot_heal(moving([(200, 0), (0, 250), (0, 1000), (0, 1000)]))
    assert found == [False, True, True, False, False]


def test_attempts_on_other_nodes_than_it_may_use_now_do_not_count() -> None:
    found = cannot_heal(moving([(4000, 0), _NO_MOVES, _NO_MOVES], mems=["1", "1", "0-1", "0-1"]))
    assert found == [False, True, False, False]


def run_up(rows: Iterable[Mapping[int, float]]) -> list[Mapping[int, float]]:
    """CPU seconds by node since the probe was loaded, of seconds by tick."""
    total: dict[int, float] = {}
    found: list[Mapping[int, float]] = []
    for row in rows:
        for node, seconds in row.items():
            total[node] = total.get(node, 0.0) + seconds
        found.append({**total})
    return found


def test_cpu_remote_of_a_container_that_stopped_says_when_it_ran_last() -> None:
    rows = run_up([{0: 0.1}, *[{1: 10.0}] * 4, *[{}] * 300])
    found = verdicts([tick(15 * at, cpu_seconds=row, cpus="0-7") for at, row in enumerate(rows)])
    assert {one.name for one in found[2:]} == {"cpu-remote"}
    assert found[4].reason == "100% of the CPU time was on nodes other than 0"
    assert found[-1].reason.endswith("when it ran last, 75 min ago")


def test_cpu_remote_that_was_cured_says_that_none_was_in_the_last_tick() -> None:
    rows = run_up([*[{0: 7.0, 1: 3.0}] * 20, *[{0: 10.0}] * 3])
    found = verdicts([tick(15 * at, cpu_seconds=row, cpus="0-7") for at, row in enumerate(rows)])
    assert found[-1].name == "cpu-remote"
    assert found[-1].reason.endswith("nodes other than 0 in the last 10 minutes, none in the last tick")


def test_what_was_so_before_the_agent_began_has_no_time() -> None:
    spilled = verdicts([tick(15 * at, outside=50 * MIB) for at in range(4)])
    assert [(one.name, one.since) for one in spilled[1:]] == [("spilled", None)] * 3
    used = verdicts([tick(15 * at, REMOTE if at > 3 else None) for at in range(6)])
    assert (used[-1].name, used[-1].since) == ("remote-access", None)


def test_what_came_while_the_agent_watched_has_a_time() -> None:
    spilled = verdicts([tick(15 * at, outside=50 * MIB if at > 2 else 0) for at in range(8)])
    assert (spilled[-1].name, spilled[-1].since is None) == ("spilled", False)
    used = verdicts(passes(LITTLE, LITTLE, REMOTE, REMOTE))
    assert (used[-1].name, used[-1].since is None) == ("remote-access", False)


def test_a_tick_that_cannot_read_memory_ends_no_spill() -> None:
    ticks = [tick(15 * at, outside=50 * MIB if at > 2 else 0) for at in range(12)]
    unread = [replace(one, residency={}) if at in (7, 9) else one for at, one in enumerate(ticks)]
    found, whole = verdicts(unread), verdicts(ticks)
    assert [one.name for one in found[4:]] == ["spilled"] * 8
    assert found[7].reason.startswith("at the tick before, 50Mi of its judged bytes were outside")
    assert {one.since for one in found[4:]} == {whole[-1].since}
    gone = [replace(one, residency={}) if at in (7, 8) else one for at, one in enumerate(ticks)]
    assert verdicts(gone)[8].reason == "its resident memory is unknown"


CXL = Machine((*MACHINE.nodes, Node(2, CpuSet(), distances={0: 20, 1: 30, 2: 10})))
"""Node 2 has memory alone, near to node 0."""


def on_cxl(nodes: str, cpu_seconds: Mapping[int, float], used: Mapping[tuple[int, int], int]) -> Verdict:
    promise = Promise(memory=(Block.of("memory", 100 * MIB, NodeSet.parse(nodes)),))
    memory = Resident(anon={2: 60 * MIB, **({0: 40 * MIB} if nodes == "0,2" else {})}, shmem={})
    seen = SeenRemote({pair: size * MIB for pair, size in used.items()}, 0.0, 0, mapped=100 * MIB)
    ticks = [
        replace(
            tick(15 * at, cpu_seconds={node: seconds * at for node, seconds in cpu_seconds.items()}, mems=nodes),
            machine=CXL,
            residency={DB: memory},
            intent=Intent(containers=(ContainerIntent("uid", "db", cgroups=(DB,), promise=promise),)),
            hint_faults={DB: Sampled({}, seen)},
        )
        for at in range(4)
    ]
    return verdicts(ticks)[-1]


def test_memory_on_a_node_without_cpus_is_local_to_the_nearest_cpus() -> None:
    assert on_cxl("2", {0: 10.0}, {(0, 2): 60}).name == "aligned"
    assert on_cxl("0,2", {0: 10.0}, {(0, 2): 60}).name == "split"
    assert on_cxl("2", {1: 10.0}, {}).name == "cpu-remote"
    assert on_cxl("0,2", {0: 10.0, 1: 0.1}, {(1, 2): 60}).name == "remote-access"


def test_a_drift_by_a_cgroup_above_names_that_cgroup_and_what_to_write() -> None:
    allowed = Allowed(NodeSet.of(1), CpuSet.parse("0-3"), own_nodes=NodeSet.of(0), narrowed_at="/kubepods/poduid")
    (found,) = verdicts([replace(tick(0, outside=100 * MIB), allowed={DB: allowed})])
    assert found.name == "drifted"
    assert found.remedy is not None
    assert found.remedy.startswith(
        "Write the promised nodes (0) back to the cpuset.mems of /kubepods/poduid, a cgroup above"
    )


def test_remote_use_that_comes_and_goes_is_one_verdict() -> None:
    """A worker that runs in bursts: every third look finds its pages used remotely."""
    found = names(passes(*[one for _ in range(14) for one in (REMOTE, NONE, NONE)]))
    assert changes(found) <= 2
    assert set(found[5:]) == {"remote-access"}
    ended = names(passes(REMOTE, NONE, REMOTE, *[NONE] * 60))
    assert (ended[40], ended[-1]) == ("remote-access", "aligned")


NEAR_A_LIMIT = st.floats(0.7, 1.4)


@given(st.lists(NEAR_A_LIMIT, min_size=40, max_size=40), st.sampled_from(("bytes", "share of bytes", "cpu", "use")))
def test_any_evidence_that_oscillates_around_a_limit_changes_a_verdict_twice_at_most(
    factors: list[float], limit: str
) -> None:
    of = Thresholds()
    match limit:
        case "bytes":
            ticks = [tick(15 * at, outside=round(one * of.spilled_bytes)) for at, one in enumerate(factors)]
        case "share of bytes":
            few = Thresholds(spilled_bytes=1)
            ticks = [
                tick(15 * at, outside=round(one * few.spilled_share * 100 * MIB)) for at, one in enumerate(factors)
            ]
            of = few
        case "cpu":
            shares = [of.cpu_remote_share * one for one in factors]
            rows = run_up({0: 10 * (1 - share), 1: 10 * share} for share in shares)
            ticks = [tick(15 * at, cpu_seconds=row) for at, row in enumerate(rows)]
        case _:
            ticks = passes(*[(0, round(100 * of.remote_access_share * one)) for one in factors])
    found = [one.name for one in verdicts(ticks, of)]
    settled = [one for one in found if one != "unknown"]  # a second tick confirms a spill
    assert changes(settled) <= 2, found


@pytest.mark.parametrize(("outside", "name"), [(MIB, "aligned"), (MIB + 1, "spilled")])
def test_more_than_a_mebibyte_and_a_hundredth_is_a_spill_at_the_second_tick(outside: int, name: str) -> None:
    assert names([tick(0, outside=outside), tick(15, outside=outside)])[-1] == name


@pytest.mark.parametrize(("left", "name"), [(0.5, "aligned"), (0.51, "spilled")])
def test_a_spill_is_over_when_it_is_clearly_below_its_limit(left: float, name: str) -> None:
    outside = [2 * MIB, 2 * MIB, int(left * MIB)]
    assert names([tick(15 * at, outside=size) for at, size in enumerate(outside)])[-1] == name


def test_a_clock_that_was_set_back_makes_what_was_measured_no_newer() -> None:
    window = Window({0: 8.0}, 0.0, 1000.0)
    assert window.after({}, 400.0, 600.0).amounts == {0: 8.0}
    assert window.after({}, 1001.0, 600.0).amounts[0] < 8.0
