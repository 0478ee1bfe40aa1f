"""Verdicts over many ticks: they hold while nothing changes, however unevenly evidence comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import find
from numaudit.evaluation.thresholds import Thresholds
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent import ContainerIntent, Intent, Promise, PromisedMemory
from numaudit.snapshot import Allowed, Container, ContainerId, HintFault, Resident, Sampled, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
INTERVAL = 15.0
DB = ContainerId(7)
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
LOCAL, REMOTE = HintFault(0, 0, 8), HintFault(0, 1, 0)
STUCK, MOVED = HintFault(0, 1, 16), HintFault(0, 0, 1)
"""A page that could not be moved to the CPU that used it, and one that was (flags migrate_fail and migrated)."""


def tick(
    at: float,
    faults: tuple[int, int] | None = None,
    cpu_seconds: Mapping[int, float] | None = None,
    *,
    mems: str = "0",
    cpus: str = "0-3",
    outside: int = 0,
    single_threaded: bool = False,
) -> Snapshot:
    """A container with memory promised on node 0. `faults`: local and remote ones since the probe was loaded."""
    promise = Promise(memory=(PromisedMemory("memory", 100 * MIB, NodeSet.of(0)),))
    counts = {} if faults is None else {LOCAL: faults[0], REMOTE: faults[1]}
    return Snapshot(
        taken_at=1000.0 + at,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(Container(DB, "/kubepods/poduid/c", "container", qos="Guaranteed", pod_uid="uid", name="db"),),
        allowed={DB: Allowed(NodeSet.parse(mems), CpuSet.parse(cpus))},
        residency={DB: Resident(anon={0: 100 * MIB - outside, 1: outside}, shmem={})},
        intent=Intent(containers=(ContainerIntent("uid", "db", cgroups=(DB,), promise=promise),)),
        hint_faults=None if faults is None else {DB: Sampled(counts, single_threaded)},
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


def verdicts(snapshots: Iterable[Snapshot]) -> list[Verdict]:
    return [one.verdicts[DB] for one in judged(snapshots)]


def names(snapshots: Iterable[Snapshot]) -> list[str]:
    return [one.name for one in verdicts(snapshots)]


def sampling(added: Sequence[tuple[int, int]], interval: float = INTERVAL) -> list[Snapshot]:
    """Ticks in which so many local and remote samples came in addition; the first one has none."""
    sums = accumulate(added, lambda past, new: (past[0] + new[0], past[1] + new[1]), initial=(0, 0))
    return [tick(index * interval, faults) for index, faults in enumerate(sums)]


def changes(found: Sequence[str]) -> int:
    return sum(one != other for one, other in pairwise(found))


QUIET = (0, 0)
BURST = (500, 3500)


def test_remote_access_holds_between_bursts_of_samples_that_are_minutes_apart() -> None:
    burst_and_pause = [BURST, *[QUIET] * 15]
    found = verdicts(sampling(burst_and_pause * 5))
    assert {one.name for one in found[1:]} == {"remote-access"}
    assert {one.since for one in found[1:]} == {1000.0 + INTERVAL}


def test_samples_of_several_ticks_add_up_until_they_are_enough() -> None:
    found = names(sampling([(20, 180)] * 12))
    assert found[1] == "aligned"
    assert found[-1] == "remote-access"
    assert changes(found) == 1


def test_a_verdict_without_new_samples_holds_and_says_how_old_its_evidence_is() -> None:
    last = verdicts(sampling([BURST, *[QUIET] * 400]))[-1]
    assert last.name == "remote-access"
    assert last.reason.startswith("at least 8")
    assert last.reason.endswith(" min ago)")
    assert last.since == 1000.0 + INTERVAL


def test_evidence_fades_and_gives_no_share_when_too_little_is_left() -> None:
    (access,) = judged(sampling([BURST, *[QUIET] * 10]))[-1].accesses[DB]
    assert access.samples is not None and access.age is not None
    assert 1000 < access.samples < 4000
    assert access.remote_ratio == pytest.approx(3500 / 4000)
    assert access.age == pytest.approx(10 * INTERVAL)
    (access,) = judged(sampling([BURST, *[QUIET] * 40]))[-1].accesses[DB]
    assert (access.remote_ratio, access.samples) == (None, 250)
    assert access.reason is not None and "too few" in access.reason


def test_a_longer_window_keeps_evidence_longer() -> None:
    ticks = sampling([BURST, *[QUIET] * 40])
    (short,) = judged(ticks, Thresholds(window=600))[-1].accesses[DB]
    (long,) = judged(ticks, Thresholds(window=6000))[-1].accesses[DB]
    assert short.samples is not None and long.samples is not None
    assert long.samples > 10 * short.samples


def test_a_few_local_samples_do_not_end_remote_access_and_many_do() -> None:
    found = names(sampling([BURST, *[(100, 0)] * 3, *[(5000, 0)] * 40]))
    assert found[1:5] == ["remote-access"] * 4
    assert found[-1] == "aligned"
    assert changes(found) == 2


def test_a_share_inside_the_band_keeps_the_verdict_that_was_there() -> None:
    seven_percent = [(9300, 700)] * 80
    assert set(names(sampling(seven_percent))[1:]) == {"aligned"}
    found = verdicts(sampling([(0, 10_000), *seven_percent]))
    assert {one.name for one in found[1:]} == {"remote-access"}
    assert "less than before; the verdict ends below 5.0%" in found[-1].reason


def test_a_source_that_was_paused_for_a_tick_counts_nothing_twice() -> None:
    ticks = sampling([BURST, QUIET, QUIET, QUIET])
    ticks[2] = replace(ticks[2], hint_faults=None)
    found = judged(ticks)
    assert [one.verdicts[DB].name for one in found[1:]] == ["remote-access"] * 4
    assert found[2].accesses[DB] == ()
    (access,) = found[3].accesses[DB]
    assert access.samples is not None and access.samples < 4000


def test_counters_that_start_again_add_only_what_they_count_from_then_on() -> None:
    ticks = [tick(0, (0, 0)), tick(0, (9000, 1000)), tick(0, (900, 100))]
    (access,) = judged(ticks)[-1].accesses[DB]
    assert (access.samples, access.remote_samples) == (11_000, 1100)


def test_samples_of_a_tick_in_which_processes_with_one_thread_ran_do_not_count() -> None:
    unfair = tick(INTERVAL, (0, 5000), single_threaded=True)
    found = judged([tick(0, (0, 0)), unfair, tick(2 * INTERVAL, (5000, 5000))])
    assert found[1].verdicts[DB].name == "aligned"
    (access,) = found[2].accesses[DB]
    assert (access.samples, access.remote_samples) == (5000, 0)


def test_evidence_that_has_faded_away_is_forgotten() -> None:
    later = tick(20_000, BURST)
    assert judged([*sampling([BURST]), later])[-1].histories[DB].samples == {}


def test_a_container_that_ended_is_forgotten() -> None:
    ticks = sampling([BURST, QUIET])
    assert set(judged(ticks)[-1].histories) == {DB}
    assert judged([*ticks, replace(ticks[-1], containers=())])[-1].histories == {}


def test_what_was_measured_on_other_nodes_does_not_count_any_more() -> None:
    remote = sampling([BURST])
    elsewhere = tick(2 * INTERVAL, BURST, mems="1")
    back = tick(3 * INTERVAL, BURST)
    assert names([*remote, elsewhere, back])[1:] == ["remote-access", "drifted", "aligned"]


def test_a_report_of_a_duration_rests_on_all_that_was_counted_in_it() -> None:
    first = judge(tick(0, (1, 1)))
    (access,) = judge(tick(10, (500, 3500)), earlier=first).accesses[DB]
    assert (access.samples, access.remote_samples, access.age) == (4000, 3500, 0)


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
    assert last.reason == "50% of the allowed CPUs are on other nodes than 0 (only 0.5 s of CPU time were measured)"


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
    assert new.reason.endswith("(CPU time was not measured)")


def test_pages_that_could_not_be_moved_before_its_nodes_were_put_right_are_forgotten() -> None:
    def stuck(at: float, pages: int, mems: str) -> Snapshot:
        found = Sampled({STUCK: pages, LOCAL: 1}, single_threaded=False)
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


@given(
    st.lists(st.tuples(st.integers(0, 6000), st.floats(0, 1), st.floats(0.2, 900)), min_size=1, max_size=40),
    st.booleans(),
)
def test_any_burstiness_gives_one_change_of_a_verdict_on_access_at_most(
    bursts: list[tuple[int, float, float]], remote: bool
) -> None:
    at, faults = 0.0, (0, 0)
    ticks = [tick(at, faults)]
    for samples, where, pause in bursts:
        far = ceil(samples * (0.2 + 0.8 * where)) if remote else floor(samples * 0.02 * where)
        at, faults = at + pause, (faults[0] + samples - far, faults[1] + far)
        ticks.append(tick(at, faults))
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
    assert "on their way home" in found[2].reason


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


def moving(added: Sequence[tuple[int, int]], mems: Sequence[str] | None = None) -> list[Snapshot]:
    """Ticks in which so many pages could not be moved in addition, and so many could; the first one has none."""
    sums = accumulate(added, lambda past, new: (past[0] + new[0], past[1] + new[1]), initial=(0, 0))
    return [
        replace(
            tick(index * INTERVAL, mems="0" if mems is None else mems[index]),
            hint_faults={DB: Sampled({STUCK: failed, MOVED: done}, single_threaded=False)},
        )
        for index, (failed, done) in enumerate(sums)
    ]


def test_memory_that_cannot_heal_is_found_between_bursts_of_attempts() -> None:
    found = cannot_heal(moving([(4000, 0), *[QUIET] * 15] * 4))
    assert found == [False, *[True] * 64]


def test_attempts_of_several_ticks_add_up_until_they_are_many() -> None:
    found = cannot_heal(moving([(40, 0)] * 8))
    assert found[:3] == [False, False, False]
    assert found[-1]


def test_most_attempts_lately_decide_not_those_of_one_tick() -> None:
    assert not any(cannot_heal(moving([(0, 5000), (200, 0), (200, 0)])))


def test_attempts_that_ended_are_no_finding_in_the_end() -> None:
    found = cannot_heal(moving([(150, 0), *[QUIET] * 40]))
    assert found[1:6] == [True] * 5
    assert not found[-1]


def test_moves_that_succeed_end_the_finding_once_they_are_most_by_far() -> None:
    found = cannot_heal(moving([(200, 0), (0, 250), (0, 1000), (0, 1000)]))
    assert found == [False, True, True, False, False]


def test_attempts_on_other_nodes_than_it_may_use_now_do_not_count() -> None:
    found = cannot_heal(moving([(4000, 0), QUIET, QUIET], mems=["1", "1", "0-1", "0-1"]))
    assert found == [False, True, False, False]
