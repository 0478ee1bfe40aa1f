"""The CPUs of a machine as the CPU Manager counts them."""

from __future__ import annotations

import pytest

from numaudit.containermanager.cpu.topology import CPUInfo, CPUTopology, Group
from numaudit.errors import InputError
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet


def machine(*cpus: Cpu) -> Machine:
    nodes = sorted({cpu.node or 0 for cpu in cpus})
    return Machine(
        tuple(Node(id_, CpuSet.from_ids(cpu.id for cpu in cpus if (cpu.node or 0) == id_)) for id_ in nodes), cpus
    )


def test_a_core_is_named_by_its_lowest_thread() -> None:
    topology = CPUTopology.from_machine(
        machine(
            *(
                Cpu(id_, node=0, socket=0, core=7 + id_ % 2, siblings=CpuSet.of(id_ % 2, id_ % 2 + 2), l3_cache=5)
                for id_ in range(4)
            )
        )
    )
    assert topology.details[3] == CPUInfo(node=0, socket=0, core=1, uncore=5)
    assert (topology.num_cpus, topology.num_cores, topology.cpus_per_core) == (4, 2, 2)


def test_a_core_without_a_last_level_cache_takes_its_socket_for_it() -> None:
    topology = CPUTopology.from_machine(machine(Cpu(0, node=0, socket=3), Cpu(1, node=0, socket=3, l3_cache=9)))
    assert [topology.details[cpu].uncore for cpu in (0, 1)] == [3, 9]


def test_the_first_cache_of_a_cores_threads_counts_for_all_of_them() -> None:
    both = CpuSet.of(0, 1)
    topology = CPUTopology.from_machine(
        machine(
            Cpu(0, node=0, socket=0, siblings=both, l3_cache=4), Cpu(1, node=0, socket=0, siblings=both, l3_cache=6)
        )
    )
    assert topology.details[1].uncore == 4


def test_nodes_without_cpus_do_not_count() -> None:
    cpus = (Cpu(0, node=0, socket=0), Cpu(1, node=2, socket=0))
    with_memory_only = Machine((Node(0, CpuSet.of(0)), Node(1), Node(2, CpuSet.of(1))), cpus)
    topology = CPUTopology.from_machine(with_memory_only)
    assert topology.nodes == NodeSet.of(0, 2)
    assert topology.num_numa_nodes == 2


def test_threads_per_core_is_an_average_on_a_hybrid_machine() -> None:
    details = {cpu: CPUInfo(0, 0, cpu // 2 * 2 if cpu < 4 else cpu, 0) for cpu in range(8)}
    topology = CPUTopology(details)
    assert (topology.num_cores, topology.cpus_per_core) == (6, 1)


def test_a_core_with_threads_in_two_nodes_counts_twice() -> None:
    topology = CPUTopology({0: CPUInfo(0, 0, 0, 0), 1: CPUInfo(1, 0, 0, 0)})
    assert (topology.num_cores, topology.cpus_per_core) == (2, 1)
    assert topology.groups_of(Group.CORE, CpuSet.of(1)) == {0}


def test_a_kernel_without_numa_has_one_node_and_one_socket() -> None:
    topology = CPUTopology.from_machine(machine(Cpu(0, node=None), Cpu(1, node=None)))
    assert (topology.nodes, topology.num_sockets) == (NodeSet.of(0), 1)


def test_a_cpu_whose_node_alone_is_unknown_is_refused() -> None:
    with pytest.raises(InputError, match="NUMA node of CPU 1 is not known"):
        CPUTopology.from_machine(machine(Cpu(0, node=0), Cpu(1, node=None)))


def test_a_machine_without_cpus_is_refused_in_the_kubelets_words() -> None:
    with pytest.raises(InputError, match="could not detect number of cpus"):
        CPUTopology.from_machine(Machine((Node(0),)))


def test_a_core_is_what_core_id_and_socket_say_within_a_node_whatever_the_siblings_are() -> None:
    pair = {0: CpuSet.of(0, 1), 1: CpuSet.of(0, 1), 2: CpuSet.of(2, 3), 3: CpuSet.of(2, 3)}
    topology = CPUTopology.from_machine(
        machine(*(Cpu(id_, node=0, socket=0, core=id_, siblings=pair[id_]) for id_ in range(4)))
    )
    assert [topology.details[cpu].core for cpu in range(4)] == [0, 1, 2, 3]
    across = CPUTopology.from_machine(machine(*(Cpu(id_, node=id_ // 2, socket=0, core=id_ % 2) for id_ in range(4))))
    assert [across.details[cpu].core for cpu in range(4)] == [0, 1, 2, 3]
    joined = CPUTopology.from_machine(
        machine(*(Cpu(id_, node=0, socket=id_ % 2, core=7, siblings=CpuSet.of(id_)) for id_ in range(4)))
    )
    assert [joined.details[cpu].core for cpu in range(4)] == [0, 1, 0, 1]


def test_cpus_of_a_machine_with_several_nodes_that_are_not_known_are_not_all_on_node_0() -> None:
    unknown = Machine((Node(0, None), Node(1, None)), (Cpu(0, node=None), Cpu(1, node=None)))
    with pytest.raises(InputError, match="the CPUs of nodes 0-1 cannot be read"):
        CPUTopology.from_machine(unknown)
