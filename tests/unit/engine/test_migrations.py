"""Hint faults and migrations: map entries into values, the kernel's own counts, and a probe that counts nothing."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from made_up.ticks import tick_of
from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.engine.collectors.probes.counts import MigrationsCollector
from numaudit.engine.collectors.probes.hint_faults import LEAST_UNSEEN, SanityCheck, require_sampling
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.cgroup import Cgroup
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_balancing
from numaudit.kernel.tracing.bpf_map import MapEntries
from numaudit.probes import hint_faults, migrations
from numaudit.probes.hint_faults import HintFaultCounts
from numaudit.probes.migrations import MigrationCounts
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import HintFault, Migrated, MigratedPages, TaskMove
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

WEB, DATABASE = 4711, (7 << 32) + 12
TWO_NODES = Machine((Node(0, CpuSet.parse("0")), Node(1, CpuSet.parse("1"))))


def test_hint_faults_are_summed_over_cpus_by_nodes_and_flags() -> None:
    keys = struct.pack("=QHHI", WEB, 0, 1, 16) + struct.pack("=QHHI", WEB, 0, 0, 8)
    skipped = MapEntries(struct.pack("=Q", DATABASE), struct.pack("=2Q", 2, 3))
    found = hint_faults.decode([MapEntries(keys, struct.pack("=8Q", 1, 512, 2, 2, 30, 30, 0, 0))], [skipped], cpus=2)
    assert found.faults == {WEB: {HintFault(0, 1, 16): 3, HintFault(0, 0, 8): 30}}
    assert found.pages == {WEB: {HintFault(0, 1, 16): 514, HintFault(0, 0, 8): 30}}
    assert found.skipped == {DATABASE: 5}


def test_two_reads_of_hint_faults_give_what_came_between() -> None:
    fault = HintFault(0, 1, 0)
    earlier = HintFaultCounts({WEB: {fault: 10}}, skipped={WEB: 1}, lost={"map-full": 1, "busy": 0})
    later = HintFaultCounts({WEB: {fault: 15}, DATABASE: {fault: 2}}, skipped={WEB: 1}, lost={"map-full": 4, "busy": 2})
    assert later.since(earlier) == HintFaultCounts(
        {WEB: {fault: 5}, DATABASE: {fault: 2}}, lost={"map-full": 3, "busy": 2}
    )


def test_migrated_pages_are_counted_by_the_kernels_reason() -> None:
    keys = struct.pack("=6Q", WEB, 5, WEB, 3, WEB, 77)
    values = struct.pack("=12Q", 1, 2, 10, 20, 7, 0, 0, 0, 1, 0, 0, 0)
    found = migrations.decode([MapEntries(keys, values)], [], cpus=2)
    assert found.succeeded == {WEB: {"numa_misplaced": 11, "syscall_or_cpuset": 7, "reason_77": 1}}
    assert found.failed == {WEB: {"numa_misplaced": 22, "syscall_or_cpuset": 0, "reason_77": 0}}


def test_pages_that_numa_balancing_moved_are_counted_by_both_nodes() -> None:
    keys = struct.pack("=QIIQII", WEB, 1, 0, DATABASE, 0xFFFF, 2)
    values = struct.pack("=8Q", 1, 2, 10, 20, 3, 0, 0, 4)
    succeeded, failed = migrations.decode_between([MapEntries(keys, values)], 2, NodeSet.of(0, 1, 2))
    assert succeeded == {WEB: {(1, 0): 11}, DATABASE: {(None, 2): 3}}
    assert failed == {WEB: {(1, 0): 22}, DATABASE: {(None, 2): 4}}
    earlier = MigrationCounts(succeeded_between=succeeded, failed_between=failed)
    later = MigrationCounts(succeeded_between={WEB: {(1, 0): 15}}, failed_between=failed)
    assert later.since(earlier) == MigrationCounts(succeeded_between={WEB: {(1, 0): 4}})


def _collected(nodes_refused: ProbeRefusal | None) -> tuple[dict[ContainerId, Migrated], SkippedItems]:
    read = MigrationCounts(
        {WEB: {"numa_misplaced": 11, "compaction": 2}},
        {WEB: {"numa_misplaced": 5, "compaction": 0}},
        succeeded_between={} if nodes_refused else {WEB: {(1, 0): 11}},
        failed_between={} if nodes_refused else {WEB: {(1, 0): 5}},
        nodes_refused=nodes_refused,
    )
    owners, skipped = Owners(), SkippedItems()
    groups = (cast("Cgroup", SimpleNamespace(id=WEB)),)
    owners.follow(Census((), {ContainerId(WEB): groups}, {}))
    tick = tick_of(Host(), {"migrations": read}, owners)
    found = MigrationsCollector().collect(tick, Snapshot(0.0, tick.machine, "v2"), skipped)
    assert found.migrations is not None
    return dict(found.migrations), skipped


def test_moved_pages_of_a_container_have_their_nodes() -> None:
    found, skipped = _collected(nodes_refused=None)
    assert found[ContainerId(WEB)].between == {(1, 0): MigratedPages(11, 5)}
    assert (skipped.failed, skipped.reason) == (0, None)


def test_moved_pages_whose_nodes_no_program_can_watch_say_why_and_are_complete() -> None:
    found, skipped = _collected(ProbeRefusal(Reason.NO_KPROBES, "no kprobes, no fentry"))
    assert found[ContainerId(WEB)].between is None
    assert found[ContainerId(WEB)].pages["numa_misplaced"] == MigratedPages(11, 5)
    assert skipped.failed == 0
    assert skipped.reason == "without the nodes that pages were moved between: no kprobes, no fentry"


def test_a_node_that_is_not_online_is_no_node() -> None:
    keys = struct.pack("=QIIQII", WEB, 64, 0, WEB, 65, 0)
    succeeded, _ = migrations.decode_between([MapEntries(keys, struct.pack("=4Q", 5, 0, 6, 0))], 1, NodeSet.of(0, 1))
    assert succeeded == {WEB: {(None, 0): 11}}


def test_moved_tasks_are_counted_by_nodes_and_a_missing_target_is_none() -> None:
    keys = struct.pack("=QIHH", WEB, 0, 1, 0) + struct.pack("=QIHH", WEB, 1, 1, 0xFFFF)
    found = migrations.decode([], [MapEntries(keys, struct.pack("=2Q", 4, 5))], cpus=1)
    assert found.tasks == {WEB: {TaskMove("moved", 1, 0): 4, TaskMove("stuck", 1, None): 5}}


def test_a_capture_without_vmstat_shows_no_counters_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/proc/vmstat does not exist: the captured tree was made without it"):
        numa_balancing.read_vmstat(Host(tmp_path))


def test_only_lines_of_numa_balancing_are_taken_from_memory_stat() -> None:
    text = "anon 4096\nnuma_pages_migrated 12\nnuma_pte_updates 40\nnuma_hint_faults 30\npgfault 9\nnuma_hit 4\n"
    assert numa_balancing.parse(text) == {
        "numa_pages_migrated": 12,
        "numa_pte_updates": 40,
        "numa_hint_faults": 30,
    }
    assert numa_balancing.parse("anon 4096\nworkingset_nodes 0\n") == {}


def test_a_counter_that_is_no_number_is_an_error_with_the_line() -> None:
    with pytest.raises(ParseError, match="numa_hint_faults 'many'"):
        numa_balancing.parse("numa_hint_faults many\n")


def _host(root: Path, mode: str | None) -> Host:
    folder = root / "proc/sys/kernel"
    folder.mkdir(parents=True)
    if mode is not None:
        (folder / "numa_balancing").write_text(f"{mode}\n")
    return Host.under(root)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("0", "is 0"), ("2", "only memory of slow tiers"), ("4", "only memory of slow tiers"), (None, "CONFIG_NUMA")],
    ids=["off", "tiering only", "no node sampled", "not built"],
)
def test_a_kernel_that_takes_no_samples_is_unavailable_and_says_why(
    tmp_path: Path, mode: str | None, words: str
) -> None:
    with pytest.raises(Unavailable, match=words):
        require_sampling(_host(tmp_path, mode), TWO_NODES)


@pytest.mark.parametrize("mode", ["1", "3"])
def test_a_kernel_that_balances_takes_samples_of_more_than_one_node(tmp_path: Path, mode: str) -> None:
    host = _host(tmp_path, mode)
    require_sampling(host, TWO_NODES)
    with pytest.raises(Unavailable, match="one node"):
        require_sampling(host, Machine(TWO_NODES.nodes[:1]))


def read(total: int) -> HintFaultCounts:
    return HintFaultCounts({4711: {HintFault(0, 1, 0): total}} if total else {})


def doubted(*ticks: tuple[int | None, int | None]) -> list[bool]:
    """At each tick: was the probe doubted? A tick is the kernel's count and the probe's, both since the start."""
    check, doubts = SanityCheck(), []
    for kernel, total in ticks:
        try:
            check.compare(kernel, None if total is None else read(total))
            doubts.append(False)
        except Unavailable:
            doubts.append(True)
    return doubts


def test_many_samples_of_the_kernels_and_none_of_the_probes_are_unavailable_with_the_number() -> None:
    check = SanityCheck()
    check.compare(500_000, read(7))
    with pytest.raises(Unavailable, match="counts nothing: the kernel took 5000 samples"):
        check.compare(505_000, read(7))


def test_what_the_kernel_counted_before_the_first_tick_proves_nothing() -> None:
    assert doubted((10**9, 0), (10**9, 0)) == [False, False]


def test_counters_of_ended_cgroups_that_were_deleted_show_that_the_probe_counts() -> None:
    check = SanityCheck()
    check.compare(0, read(7))
    check.compare(10**6, HintFaultCounts({}, forgotten=1))


def test_few_samples_add_up_over_the_ticks_and_the_doubt_stays_until_the_probe_counts() -> None:
    step = LEAST_UNSEEN // 2
    ticks = [(0, 0), (step, 0), (2 * step, 0), (2 * step, 0), (2 * step + 9, 1), (2 * step + 9, 1)]
    assert doubted(*ticks) == [False, False, True, True, False, False]


def test_a_probe_that_counts_a_part_is_not_doubted() -> None:
    assert doubted((0, 0), (10**6, 1), (2 * 10**6, 3)) == [False] * 3


@pytest.mark.parametrize("unknown", [(None, 0), (LEAST_UNSEEN, None)], ids=["kernel", "probe"])
def test_what_is_not_known_is_no_reason_for_doubt(unknown: tuple[int | None, int | None]) -> None:
    assert doubted((0, 0), unknown, (LEAST_UNSEEN + 10, 0)) == [False] * 3
