"""What is expected of a container by its processes: each one's memory from where its own threads ran."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.evaluation.sources import expected_by_process, expected_of
from numaudit.snapshot.processes import ContainerProcesses, MappedMemory, ProcessPlacement, ThreadGroup, UnreadPart
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB = 1 << 30
DISTANCES = {0: {0: 10, 1: 20}, 1: {0: 20, 1: 10}}
UNREAD = UnreadPart("mappings", "cannot read numa_maps: Permission denied; run as root")


def process(pid: int, ran: Mapping[int, float], memory: Mapping[int, int] | None) -> ProcessPlacement:
    group = ThreadGroup(1, pid, (), CpuSet.of(0), NodeSet.of(0), NodeSet.of(0, 1), "default", {0: 1}, ran)
    mappings = None if memory is None else (MappedMemory("anon", "default", memory),)
    unread = () if memory is not None else (UNREAD,)
    return ProcessPlacement(pid, "rank", 1, None, None, 1, (group,), mappings, "affinity", None, None, unread)


def all_of(*processes: ProcessPlacement) -> ContainerProcesses:
    return ContainerProcesses(processes, len(processes), None, "start")


def test_two_local_ranks_expect_no_remote_access() -> None:
    found = expected_by_process(all_of(process(1, {0: 9.0}, {0: GIB}), process(2, {1: 9.0}, {1: GIB})), DISTANCES)
    assert (found.remote_ratio, found.distance_ratio, found.unknown) == (0.0, 1.0, None)


def test_a_process_weighs_as_much_as_it_ran() -> None:
    local, remote = process(1, {0: 3.0}, {0: GIB}), process(2, {1: 1.0}, {0: 64 * GIB})
    found = expected_by_process(all_of(local, remote), DISTANCES)
    assert (found.remote_ratio, found.distance_ratio) == (0.25, 1.25)


def test_files_of_disks_count_for_nothing() -> None:
    one = process(1, {0: 1.0}, {0: GIB})
    assert one.mappings is not None
    one = replace(one, mappings=(*one.mappings, MappedMemory("file", "default", {1: GIB})))
    assert expected_of(one) == 0.0


def test_a_process_that_did_not_run_or_has_no_memory_weighs_nothing() -> None:
    rank, idle, empty = process(1, {0: 1.0}, {0: 1, 1: 1}), process(2, {}, {1: GIB}), process(3, {1: 9.0}, {})
    assert expected_by_process(all_of(rank, idle, empty), DISTANCES).remote_ratio == 0.5
    assert expected_by_process(all_of(idle, empty), DISTANCES).remote_ratio is None


def test_a_process_that_ran_and_whose_memory_is_not_known_leaves_all_unknown() -> None:
    found = expected_by_process(all_of(process(1, {0: 1.0}, {0: 1}), process(2, {0: 0.1}, None)), DISTANCES)
    assert found.remote_ratio is None
    assert found.unknown == f"mappings of process 2 were not read: {UNREAD.reason}"
    idle = process(2, {}, None)
    assert expected_by_process(all_of(process(1, {0: 1.0}, {0: 1}), idle), DISTANCES).remote_ratio == 0.0


def test_processes_that_were_not_read_leave_all_unknown() -> None:
    found = expected_by_process(ContainerProcesses((), 3, "the time budget of 2 s ran out", "start"), DISTANCES)
    assert found.unknown == "3 of 3 processes were not read: the time budget of 2 s ran out"


def test_without_distances_there_is_a_share_and_no_mean_distance() -> None:
    found = expected_by_process(all_of(process(1, {0: 1.0}, {1: GIB})), {})
    assert (found.remote_ratio, found.distance_ratio) == (1.0, None)


_by_node = st.dictionaries(st.integers(0, 1), st.integers(0, 1 << 40), max_size=2)


@given(st.lists(st.tuples(_by_node, _by_node), max_size=6))
def test_any_processes_expect_a_share_between_those_of_the_least_and_the_most(
    given_: list[tuple[dict[int, int], dict[int, int]]],
) -> None:
    processes = [process(pid, {n: float(s) for n, s in ran.items()}, held) for pid, (ran, held) in enumerate(given_)]
    shares = [share for share in map(expected_of, processes) if share is not None]
    found = expected_by_process(all_of(*processes), DISTANCES).remote_ratio
    assert (found is None) == (not shares)
    if found is not None:
        assert min(shares) - 1e-9 <= found <= max(shares) + 1e-9
