"""Commands in the place of pods: what they are given, what is refused, and what the state says afterwards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import MemoryState
from numaudit.errors import InputError
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.commands import (
    CommandRequest,
    check_wanted,
    checkpoints_of,
    command_pod,
    held_by,
    place,
    read_configuration,
    why_refused,
)
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.manager import restart
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB = 2**30
MIB = 2**20
MACHINE = Machine(
    nodes=tuple(
        Node(number, CpuSet.of(2 * number, 2 * number + 1), 11 * GIB, (HugePages(2 * MIB, 0),)) for number in range(3)
    ),
    cpus=tuple(Cpu(number, number // 2, 0, number, CpuSet.of(number), 0) for number in range(6)),
)
SEED = {"reservedMemory": [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in range(3)]}
NOTHING = MemoryState({}), CPUState(CpuSet())


def fresh(kubelet: Kubelet) -> NodeState:
    return held_by(kubelet, *NOTHING, lambda _: False)


def given(kubelet: Kubelet, *commands: tuple[str, CommandRequest]) -> NodeState:
    state = fresh(kubelet)
    for name, wanted in commands:
        admission = place(kubelet, state, command_pod(name, "app", wanted))
        assert admission.admitted, why_refused(admission)
        state = admission.state
    return state


def test_three_commands_get_the_nodes_of_the_walk_through_and_the_next_is_refused_by_the_group_rule() -> None:
    kubelet = read_configuration(SEED, MACHINE)
    state = given(kubelet, ("a", CommandRequest(15 * GIB)), ("b", CommandRequest(5 * GIB)))
    entries = state.memory.state.entries
    assert entries["a"]["app"][0].numa_affinity == (0, 1)
    assert entries["b"]["app"][0].numa_affinity == (2,)
    refused = place(kubelet, state, command_pod("c", "app", CommandRequest(6 * GIB)))
    assert not refused.admitted
    text = why_refused(refused)
    assert "asked for memory 6Gi" in text
    assert "nodes 0-1: not-free" in text and "node 2: not-free" in text and "breaks-a-group" in text


def test_a_command_without_cpus_of_its_own_shares_them() -> None:
    kubelet = read_configuration(None, MACHINE)
    admission = place(kubelet, fresh(kubelet), command_pod("a", "app", CommandRequest(GIB)))
    (placement,) = admission.placements
    assert placement.cpus is None
    assert placement.memory_nodes == NodeSet.of(0)


def test_a_commands_cpus_are_on_the_node_of_its_memory_and_the_first_cpu_is_kept() -> None:
    kubelet = read_configuration(None, MACHINE)
    (placement,) = place(kubelet, fresh(kubelet), command_pod("a", "app", CommandRequest(GIB, 2))).placements
    assert (placement.cpus, placement.memory_nodes) == (CpuSet.of(2, 3), NodeSet.of(1))


def test_without_a_configuration_a_twentieth_of_each_node_is_kept_for_the_system() -> None:
    nodes = (replace(MACHINE.nodes[0], huge_pages=(HugePages(GIB, 6),)), *MACHINE.nodes[1:])
    kubelet = read_configuration({}, replace(MACHINE, nodes=nodes))
    tables = {id_: node.memory_map["memory"] for id_, node in fresh(kubelet).memory.state.machine.items()}
    assert tables[0].system_reserved == 5 * GIB // 20 // MIB * MIB
    assert tables[1].system_reserved == 11 * GIB // 20 // MIB * MIB
    assert tables[1].allocatable == 11 * GIB - tables[1].system_reserved


def test_what_dead_holders_had_is_free_again_in_either_file() -> None:
    kubelet = read_configuration(SEED, MACHINE)
    state = given(kubelet, ("a", CommandRequest(15 * GIB, 3)), ("b", CommandRequest(5 * GIB, 1)))
    assert state.cpu is not None
    after = held_by(kubelet, state.memory.state, state.cpu, lambda name: name == "b")
    assert set(after.memory.state.entries) == {"b"}
    assert after.cpu is not None and set(after.cpu.entries) == {"b"}
    assert sum(node.memory_map["memory"].free for node in after.memory.state.machine.values()) == 25 * GIB
    assert len(after.cpu.default_cpus) == 5
    only_cpu = held_by(kubelet, MemoryState({}), state.cpu, lambda _: False)
    assert only_cpu == fresh(kubelet)


def test_the_map_follows_the_machine_and_the_configuration_of_now() -> None:
    state = given(read_configuration(SEED, MACHINE), ("a", CommandRequest(5 * GIB)))
    assert state.cpu is not None
    kubelet = read_configuration({**SEED, "reservedMemory": [{"numaNode": 0, "limits": {"memory": "2Gi"}}]}, MACHINE)
    now = held_by(kubelet, state.memory.state, state.cpu, lambda _: True)
    assert {id_: node.memory_map["memory"].free // GIB for id_, node in now.memory.state.machine.items()} == {
        0: 4,
        1: 11,
        2: 11,
    }


def test_a_kubelet_would_start_with_every_state_that_is_written() -> None:
    kubelet = read_configuration(SEED, MACHINE)
    state = given(kubelet, ("a", CommandRequest(15 * GIB, 3)), ("b", CommandRequest(5 * GIB, 1)))
    memory, cpu = checkpoints_of(state)
    memory, cpu = (
        memory_checkpoint.parse(seal.write(memory)),
        cpu_checkpoint.parse(seal.write(cpu)),
    )
    assert memory_checkpoint.verify(memory).is_valid and cpu_checkpoint.verify(cpu).is_valid
    read = replace(state, memory=replace(state.memory, state=memory.state), cpu=cpu.state)
    restart(kubelet, read, ())  # raises StartRefused where it would not
    assert held_by(kubelet, memory.state, cpu.state, lambda _: True).memory.state == state.memory.state


def test_memory_on_a_node_that_is_gone_is_said_and_not_dropped() -> None:
    state = given(read_configuration(SEED, MACHINE), ("a", CommandRequest(15 * GIB)))
    assert state.cpu is not None
    smaller = replace(MACHINE, nodes=MACHINE.nodes[:1], cpus=MACHINE.cpus[:2])
    with pytest.raises(InputError, match="end the commands that hold memory"):
        held_by(read_configuration(None, smaller), state.memory.state, state.cpu, lambda _: True)


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"reservedMemry": []}, "unknown field 'reservedMemry'; did you mean reservedMemory"),
        ({"policy": 1}, "there are reservedMemory, reservedSystemCPUs"),
        ([], "configuration: must be a mapping, not list"),
        ({"reservedMemory": [{"numaNode": 7, "limits": {"memory": "1Gi"}}]}, "NUMA node 7 that does not exist"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "12Gi"}}]}, "reserve less on this node"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "x"}}]}, "memory"),
        ({"topologyManagerPolicy": "strict"}, "strict"),
        ({"reservedSystemCPUs": "99"}, "99 is not a subset of online-cpus"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_is_wrong(configuration: object, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_configuration(configuration, MACHINE)
    assert said in str(refused.value)


def test_a_refusal_for_lack_of_a_common_node_names_the_policy_that_would_admit_it() -> None:
    kubelet = read_configuration(SEED, MACHINE)
    wanted = command_pod("a", "app", CommandRequest(15 * GIB, 1))
    refused = place(kubelet, fresh(kubelet), wanted)
    assert not refused.admitted
    assert "topologyManagerPolicy: best-effort" in why_refused(refused)
    lenient = read_configuration({**SEED, "topologyManagerPolicy": "best-effort"}, MACHINE)
    assert place(lenient, fresh(lenient), wanted).admitted


def test_huge_pages_that_the_machine_does_not_have_are_named() -> None:
    check_wanted(CommandRequest(GIB, 0, {2 * MIB: 4 * MIB}), MACHINE)
    with pytest.raises(
        InputError, match=r"hugepages-1Gi: this machine has no huge pages of that size; it has hugepages-2Mi"
    ):
        check_wanted(CommandRequest(GIB, 0, {GIB: GIB}), MACHINE)
    with pytest.raises(InputError, match="not a whole number of pages"):
        check_wanted(CommandRequest(GIB, 0, {2 * MIB: 3 * MIB}), MACHINE)
