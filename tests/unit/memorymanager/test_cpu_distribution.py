"""Distributed CPUs: an even share from each of the fewest nodes, with the released kubelet's two defects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import EIGHT_CORES, cpus_of, regular, regular_machines
from numaudit.containermanager.cpu.assignment import Accumulator, take_packed
from numaudit.containermanager.cpu.distribution import take_distributed
from numaudit.containermanager.cpu.topology import CPUInfo, CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import AdmissionError, KubeletHangs
from numaudit.topology.nodeset import CpuSet

FREE = EIGHT_CORES.cpus - CpuSet.of(0, 8)


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
