"""Which CPUs are taken: packed, or an even share of the fewest nodes, with the released kubelet's two defects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import EIGHT_CORES, GUEST, cpus_of, regular, regular_machines, topologies
from numaudit.containermanager.cpu.assignment import Accumulator, take_packed
from numaudit.containermanager.cpu.distribution import take_distributed
from numaudit.containermanager.cpu.topology import CPUInfo, CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import AdmissionError, KubeletHangs
from numaudit.topology.nodeset import CpuSet

FREE = EIGHT_CORES.cpus - CpuSet.of(0, 8)


@pytest.mark.parametrize(
    ("count", "packed", "across_cores", "by_uncore"),
    [
        (1, "1", "1", "1"),
        (2, "1,9", "1-2", "1,9"),
        (3, "1-2,9", "1-3", "1-2,9"),
        (4, "2-3,10-11", "2-3,10-11", "2-3,10-11"),
        (5, "1-3,10-11", "1-3,10-11", "1-3,10-11"),
        (6, "1-3,9-11", "1-3,9-11", "1-3,9-11"),
        (8, "4-7,12-15", "4-7,12-15", "4-7,12-15"),
        (10, "1,4-7,9,12-15", "1-2,4-7,12-15", "1,4-7,9,12-15"),
    ],
)
def test_the_fullest_part_of_the_machine_is_filled_up_first(
    count: int, packed: str, across_cores: str, by_uncore: str
) -> None:
    assert str(take_packed(EIGHT_CORES, FREE, count)) == packed
    assert str(take_packed(EIGHT_CORES, FREE, count, across_cores=True)) == across_cores
    assert str(take_packed(EIGHT_CORES, FREE, count, by_uncore=True)) == by_uncore


def test_nothing_asked_is_nothing_taken() -> None:
    assert take_packed(GUEST, CpuSet(), 0) == CpuSet()
    assert take_packed(GUEST, GUEST.cpus, -1) == CpuSet()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ((1, 28), "not enough cpus available to satisfy request"),
        ((1, 32), "not enough cpus available to satisfy request: requested=9, available=8"),
        ((1, 36), "not enough cpus available to satisfy request: requested=9, available=8"),
    ],
)
def test_too_few_cpus_are_counted_out_since_1_32(version: tuple[int, int], message: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        take_packed(GUEST, GUEST.cpus, 9, version=version)
    assert str(caught.value) == message


def test_cpus_that_the_machine_lacks_are_not_taken() -> None:
    with pytest.raises(AdmissionError, match="requested=2, available=3"):
        take_packed(GUEST, CpuSet.of(1, 40, 41), 2)


def test_a_core_is_called_whole_by_the_average_number_of_threads() -> None:
    """Hybrid machine, as measured on the compiled kubelet: CPU 0 is not available and is taken nevertheless."""
    hybrid = CPUTopology({cpu: CPUInfo(0, 0, cpu // 2 * 2 if cpu < 4 else cpu, 0) for cpu in range(8)})
    assert str(take_packed(hybrid, CpuSet.parse("1-7"), 2)) == "0-1"


def test_a_socket_is_called_whole_by_the_average_number_of_cpus() -> None:
    """Sockets of four and two CPUs, three on average: with three of its four free the first is taken, CPU 0 too."""
    uneven = CPUTopology({cpu: CPUInfo(cpu // 4, cpu // 4, cpu, cpu // 4) for cpu in range(6)})
    assert str(take_packed(uneven, CpuSet.parse("1-4"), 4)) == "0-3"


def test_sockets_come_before_nodes_when_they_hold_several() -> None:
    machine = regular(sockets=2, nodes=2, cores=2, threads=1)
    assert str(take_packed(machine, machine.cpus - CpuSet.of(0), 4)) == "4-7"
    assert str(take_packed(machine, machine.cpus - CpuSet.of(0), 2)) == "2-3"


def test_nodes_come_before_sockets_when_they_hold_several() -> None:
    # Four sockets of two CPUs, two sockets in a node.
    machine = CPUTopology({cpu: CPUInfo(cpu // 4, cpu // 2, cpu, cpu // 2) for cpu in range(8)})
    work = Accumulator(machine, CpuSet.parse("1-7"), 2)
    assert work.nodes_first
    assert work.ordered(Group.NODE) == [0, 1]
    assert work.ordered(Group.SOCKET) == [0, 1, 2, 3]
    assert str(take_packed(machine, CpuSet.parse("1-7"), 4)) == "4-7"


def test_what_is_free_as_a_whole() -> None:
    work = Accumulator(EIGHT_CORES, FREE, 1)
    assert work.whole(Group.SOCKET) == [1]
    assert work.whole(Group.NODE) == [1, 2, 3]
    assert work.whole(Group.CORE) == [1, 2, 3, 4, 5, 6, 7]
    assert work.whole(Group.UNCORE) == [1, 1]  # it lies in both nodes of its socket
    assert work.ordered(Group.NODE) == [0, 1, 2, 3]
    assert work.ordered(Group.SOCKET) == [0, 1]


def test_a_socket_that_lies_in_two_nodes_is_listed_in_both() -> None:
    machine = CPUTopology({0: CPUInfo(0, 0, 0, 0), 1: CPUInfo(1, 0, 1, 0), 2: CPUInfo(1, 1, 2, 0)})
    assert Accumulator(machine, machine.cpus, 1).ordered(Group.SOCKET) == [0, 1, 0]


@pytest.mark.parametrize(("version", "taken"), [((1, 32), "0,4,8"), ((1, 33), "0,4,8"), ((1, 34), "4-5,12")])
def test_1_34_takes_an_odd_number_of_cpus_from_one_uncore_cache(version: tuple[int, int], taken: str) -> None:
    available = CpuSet.of(0, 8, 4, 5, 12, 13)
    assert str(take_packed(uncores(4), available, 3, by_uncore=True, version=version)) == taken


def uncores(per_uncore: int) -> CPUTopology:
    """One socket, one node, 16 CPUs on 8 cores (c and c+8), this many cores to an uncore cache."""
    return CPUTopology({cpu: CPUInfo(0, 0, cpu % 8, cpu % 8 // per_uncore) for cpu in range(16)})


def test_cpus_stay_in_one_uncore_cache_when_asked() -> None:
    machine = uncores(4)
    available = machine.cpus - CpuSet.of(0, 8, 1)
    # Core by core, core 1 (one free thread) would come first.
    assert str(take_packed(machine, available, 6)) == "2-4,10-12"
    # The cores of cache 0 from the lowest: core 1 gives one CPU only, so three of them give five, not six.
    assert str(take_packed(machine, available, 6, by_uncore=True)) == "4-6,12-14"
    assert str(take_packed(machine, machine.cpus, 8, by_uncore=True)) == "0-3,8-11"


def test_an_odd_request_leaves_the_last_thread_of_an_uncore_cache() -> None:
    available = CpuSet.parse("0-1,8-10") | CpuSet.parse("4-7,12-15")
    # Core 2 has one free thread only: core by core it would give the third CPU.
    assert str(take_packed(uncores(4), available, 3)) == "0,8,10"
    assert str(take_packed(uncores(4), available, 3, by_uncore=True)) == "0-1,8"


def test_whole_uncore_caches_are_taken_before_a_part_of_one() -> None:
    machine = uncores(2)
    available = machine.cpus - CpuSet.of(0)
    assert str(take_packed(machine, available, 8, by_uncore=True)) == "2-5,10-13"
    assert str(take_packed(machine, available, 6, by_uncore=True)) == "2-4,10-12"


Take = Callable[[CPUTopology, CpuSet, int], CpuSet]
TAKES: tuple[Take, ...] = (take_packed, partial(take_packed, across_cores=True), partial(take_packed, by_uncore=True))


@pytest.mark.parametrize("take", TAKES)
@given(topology=regular_machines(), data=st.data())
def test_packed_cpus_are_available_and_as_many_as_asked(topology: CPUTopology, data: st.DataObject, take: Take) -> None:
    available = data.draw(cpus_of(topology))
    count = data.draw(st.integers(0, topology.num_cpus + 1))
    if count > len(available):
        with pytest.raises(AdmissionError, match="not enough cpus"):
            take(topology, available, count)
        return
    taken = take(topology, available, count)
    assert taken <= available
    assert len(taken) == count


@pytest.mark.parametrize("take", TAKES)
@given(topology=topologies(), data=st.data())
def test_on_any_machine_cpus_are_taken_or_refused_in_the_kubelets_words(
    topology: CPUTopology, data: st.DataObject, take: Take
) -> None:
    """Uneven cores and shared sockets make the kubelet miscount, but all it takes is on sockets with a free CPU."""
    available = data.draw(cpus_of(topology))
    count = data.draw(st.integers(1, topology.num_cpus))
    try:
        taken = take(topology, available, count)
    except AdmissionError as error:
        enough = count <= len(available)
        assert str(error) == "failed to allocate cpus" if enough else str(error).startswith("not enough cpus")
    else:
        assert CpuSet() < taken <= topology.cpus
        sockets = topology.groups_of(Group.SOCKET, available)
        assert taken <= topology.cpus_in(Group.SOCKET, sockets)


@pytest.mark.parametrize(
    ("count", "by_one", "by_two"),
    [
        (1, "2", "1"),
        (2, "2,10", "2,10"),
        (3, "2-3,10", "1-2,9"),
        (4, "2-3,10-11", "2-3,10-11"),
        (5, "2-4,10,12", "1-3,10-11"),
        (6, "2-5,10,12", "2-4,10-12"),
        (8, "2-5,10-13", "2-5,10-13"),
        (10, "2-7,10-12,14", "2-6,10-14"),
    ],
)
def test_each_node_used_gives_the_same_share(count: int, by_one: str, by_two: str) -> None:
    assert str(take_distributed(EIGHT_CORES, FREE, count)) == by_one
    assert str(take_distributed(EIGHT_CORES, FREE, count, group_size=2)) == by_two


def lowest_cores(topology: CPUTopology, *free_by_node: int) -> CpuSet:
    """So many free CPUs in each node, whole cores, lowest first."""
    free = CpuSet()
    for node, count in enumerate(free_by_node):
        cores = sorted(topology.groups_of(Group.CORE, topology.cpus_in(Group.NODE, [node])))
        free |= topology.cpus_in(Group.CORE, cores[: count // 2])
    return free


def test_the_kubelet_overwrites_the_best_combination_while_it_searches() -> None:
    """Measured (kubernetes/kubernetes#141237): nodes 0, 1, 4 and 6 are taken, where 0, 1, 4 and 5 were found best."""
    machine = regular(sockets=2, nodes=4, cores=4, threads=2)
    free = lowest_cores(machine, 8, 8, 0, 2, 8, 8, 8, 4)
    assert str(take_distributed(machine, free, 32, group_size=2)) == "0-7,16-19,24-27,32-39,48-51,56-59"


def test_a_request_that_hangs_the_kubelet_is_reported() -> None:
    """Measured (kubernetes/kubernetes#140730): half cores count as free, but only whole ones are handed out."""
    machine = regular(sockets=2, nodes=2, cores=4, threads=2)
    free = CpuSet.parse("0-3,16-19,4-6,20-23,9-11,24-27,12-15,28-30")
    with pytest.raises(KubeletHangs, match="kubernetes/kubernetes#140730"):
        take_distributed(machine, free, 22, group_size=2)


def test_balance_is_rounded_so_that_the_first_of_equal_nodes_wins() -> None:
    """The unrounded deviations of the five choices differ in their last digits, and node 3 would win."""
    machine = regular(sockets=1, nodes=5, cores=4, threads=1)
    assert str(take_distributed(machine, machine.cpus, 3)) == "0-2"


def test_a_count_that_is_no_multiple_of_the_group_is_packed() -> None:
    assert take_distributed(EIGHT_CORES, FREE, 3, group_size=2) == take_packed(EIGHT_CORES, FREE, 3)


def test_what_no_combination_can_give_evenly_is_packed() -> None:
    # 7 and 1 free CPUs: no even share of 8 exists.
    machine = regular(sockets=1, nodes=2, cores=8, threads=1)
    available = CpuSet.parse("0-6,8")
    assert take_distributed(machine, available, 8, group_size=2) == take_packed(machine, available, 8)


def test_a_node_with_less_than_the_share_is_no_part_of_a_combination() -> None:
    machine = regular(sockets=1, nodes=2, cores=8, threads=1)
    available = CpuSet.parse("0-6,8")
    assert take_distributed(machine, available, 8) == available


def test_half_cores_do_not_count_as_room() -> None:
    # 5, 5, 7 and 7 free threads hold 20 in whole cores, so 22 are packed; trying to share them would never end.
    machine = regular(sockets=2, nodes=2, cores=4, threads=2)
    free = CpuSet.parse("0-2,16-17,4-6,20-21,8-11,24-26,12-15,28-30")
    assert take_distributed(machine, free, 22, group_size=2) == take_packed(machine, free, 22)


def test_a_node_in_two_sockets_does_not_count_twice() -> None:
    places = {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (2, 1)}
    machine = CPUTopology({cpu: CPUInfo(*places[cpu // 3], core=cpu, uncore=places[cpu // 3][1]) for cpu in range(12)})
    free = CpuSet.parse("0-4,6,9")
    assert Accumulator(machine, free, 6).ordered(Group.NODE) == [2, 0, 1, 0]
    assert take_distributed(machine, free, 6) == take_packed(machine, free, 6)


def test_as_many_nodes_are_tried_first_as_an_average_node_would_need() -> None:
    # Node 0 alone could give five CPUs, but nodes have four on average.
    machine = CPUTopology({cpu: CPUInfo(cpu // 6, 0, cpu, 0) for cpu in range(8)})
    assert str(take_distributed(machine, machine.cpus, 5)) == "0-2,6-7"


def test_the_remainder_goes_to_as_many_takers_as_possible_first() -> None:
    machine = regular(sockets=2, nodes=4, cores=2, threads=1)
    assert str(take_distributed(machine, machine.cpus, 9)) == "0-8"


def test_too_few_cpus_are_refused() -> None:
    with pytest.raises(AdmissionError, match="requested=15, available=14"):
        take_distributed(EIGHT_CORES, FREE, 15)
    assert take_distributed(EIGHT_CORES, FREE, 0) == CpuSet()


@given(topology=regular_machines(), data=st.data())
def test_distributed_cpus_are_available_and_as_many_as_asked(topology: CPUTopology, data: st.DataObject) -> None:
    available = data.draw(cpus_of(topology))
    count = data.draw(st.integers(0, topology.num_cpus))
    group = data.draw(st.sampled_from([1, topology.cpus_per_core]))
    if count > len(available):
        with pytest.raises(AdmissionError, match="not enough cpus"):
            take_distributed(topology, available, count, group_size=group)
        return
    try:
        taken = take_distributed(topology, available, count, group_size=group)
    except KubeletHangs:
        assert group > 1
        assert any((mask & available.mask).bit_count() % group for mask in topology.masks[Group.NODE].values())
        return
    assert taken <= available
    assert len(taken) == count


@given(topology=regular_machines().filter(lambda machine: machine.num_numa_nodes < 5), data=st.data())
def test_an_empty_machine_gives_shares_that_differ_by_one_group_at_most(
    topology: CPUTopology, data: st.DataObject
) -> None:
    """From five nodes on the overwritten combination gets in the way (kubernetes/kubernetes#141237)."""
    group = topology.cpus_per_core
    count = group * data.draw(st.integers(1, topology.num_cores))
    taken = take_distributed(topology, topology.cpus, count, group_size=group)
    shares = [(mask & taken.mask).bit_count() for mask in topology.masks[Group.NODE].values() if mask & taken.mask]
    assert max(shares) - min(shares) <= group
