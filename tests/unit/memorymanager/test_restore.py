"""What the kubelet says of a checkpoint that it does not take when it starts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.start.restore import cpu_start_error, memory_start_error
from numaudit.containermanager.cpu.topology import CPUInfo, CPUOptions, CPUPolicy, CPUTopology
from numaudit.containermanager.memory.replay import DIFFERENT, without_assignments
from numaudit.encoding.go_json import UINT64
from numaudit.errors import ParseError
from numaudit.topology.nodeset import CpuSet

RUNS = FIXTURES / "kubelet-1.36"
MEMORY = (RUNS / "standalone-restricted/1-cross/memory_manager_state").read_bytes()
CPU = (RUNS / "standalone-restricted/1-cross/cpu_manager_state").read_bytes()
POD_LEVEL = (RUNS / "standalone-pod-level-resources/1/memory_manager_state").read_bytes()
POD_LEVEL_CPU = (RUNS / "standalone-pod-level-resources/1/cpu_manager_state").read_bytes()


def memory_says(why: str, directory: str = "/var/lib/kubelet") -> str:
    return (
        f"could not restore state from checkpoint: {why}, please drain this node and delete the memory manager "
        f'checkpoint file "{directory}/memory_manager_state" before restarting Kubelet'
    )


def cpu_says(why: str) -> str:
    return (
        f"could not restore state from checkpoint: {why}, please drain this node and delete the CPU manager "
        'checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
    )


def sealed(data: bytes) -> bytes:
    """A memory_manager_state with the checksum that fits it."""
    checkpoint = memory_checkpoint.parse(data)
    stored = memory_checkpoint.verify(replace(checkpoint, checksum=1)).computed
    return seal.write(replace(checkpoint, checksum=stored))


def sealed_cpu(data: bytes) -> bytes:
    """Likewise a cpu_manager_state, whatever its CPU lists say."""
    checkpoint = cpu_checkpoint.unmarshal(data)
    stored = cpu_checkpoint.verify(replace(checkpoint, checksum=1)).computed
    return seal.write(replace(checkpoint, checksum=stored))


def test_a_sound_file_is_taken_and_a_missing_one_is_made() -> None:
    state = memory_checkpoint.parse(MEMORY).state
    assert memory_start_error(MEMORY, policy="Static", machine=without_assignments(state.machine)) is None
    assert memory_start_error(None, policy="Static") is None
    assert cpu_start_error(CPU, policy="static") is None
    assert cpu_start_error(None, policy="static") is None


def test_a_recorded_kubelet_said_the_same_of_a_wrong_checksum() -> None:
    log = (RUNS / "standalone-restart-errors/kubelet.k3-checksum.log").read_text()
    recorded = re.search(r'err="start memory manager error: ((?:[^"\\]|\\.)*)"', log)
    assert recorded is not None
    assert memory_start_error(MEMORY.replace(b'"size":1', b'"size":2'), policy="Static") == recorded[1].replace(
        '\\"', '"'
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (MEMORY[:-1], "unexpected end of JSON input"),
        (b"\0\0\0", r"invalid character '\x00' looking for beginning of value"),
        (MEMORY + b"x", "invalid character 'x' after top-level value"),
        (b"\xff" + MEMORY, "invalid character 'ÿ' looking for beginning of value"),
        (b'{"policyName":7}', "json: cannot unmarshal number into Go struct field policyName"),
        (b'{"checksum":-1}', "json: cannot unmarshal number -1 into Go struct field checksum"),
        (b'{"checksum":1.5}', "json: cannot unmarshal number 1.5 into Go struct field checksum"),
        (b'{"entries":[]}', "json: cannot unmarshal array into Go struct field entries"),
        (b'{"machineState":{"0":true}}', "json: cannot unmarshal bool into Go struct field machineState.0"),
        (b'{"machineState":"x"}', "json: cannot unmarshal string into Go struct field machineState"),
        (b'{"policyName":{}}', "json: cannot unmarshal object into Go struct field policyName"),
        (b'{"policyName":"Static","machineState":{},"checksum":1}', "checkpoint is corrupted"),
    ],
)
def test_the_file_is_read_then_its_checksum_is_compared(data: bytes, why: str) -> None:
    assert memory_start_error(data, policy="None", directory="/k/") == memory_says(why, "/k")


def test_the_policy_is_compared_after_the_checksum_and_before_the_content() -> None:
    why = '[memorymanager] configured policy "None" differs from state checkpoint policy "Static"'
    assert memory_start_error(MEMORY, policy="None", machine={}) == memory_says(why)
    assert cpu_start_error(CPU, policy="none") == cpu_says(
        'configured policy "none" differs from state checkpoint policy "static"'
    )
    assert memory_start_error(MEMORY) is None


def test_the_content_is_compared_last() -> None:
    assert memory_start_error(MEMORY, policy="Static", machine={}) is not None
    state = memory_checkpoint.parse(MEMORY).state
    machine = dict(without_assignments(state.machine))
    table = machine[0].memory_map["memory"]
    machine[0] = structs.replace(
        machine[0], memory_map={"memory": structs.replace(table, total=table.total + 1 & UINT64)}
    )
    assert memory_start_error(MEMORY, policy="Static", machine=machine) == DIFFERENT
    lost = sealed(b'{"policyName":"Static","entries":{"u":{"c":[]}}}')
    assert memory_start_error(lost, policy="Static", machine=machine) == (
        "[memorymanager] machine state can not be empty when it has memory assignments"
    )


def test_a_file_with_pod_entries_is_corrupted_for_a_kubelet_without_the_gate() -> None:
    machine = without_assignments(memory_checkpoint.parse(POD_LEVEL).state.machine)
    assert memory_start_error(POD_LEVEL, policy="Static", machine=machine, pod_level=True) is None
    assert memory_start_error(POD_LEVEL, policy="Static") == memory_says("checkpoint is corrupted")
    assert cpu_start_error(POD_LEVEL_CPU, policy="static", pod_level=True) is None
    assert cpu_start_error(POD_LEVEL_CPU, policy="static") == cpu_says("checkpoint is corrupted")


def test_a_checksum_of_0_is_corrupt_before_1_36() -> None:
    unsealed = b'{"policyName":"Static","machineState":{},"checksum":0}'
    assert memory_start_error(unsealed, policy="Static") is None
    assert memory_start_error(unsealed, policy="Static", version=(1, 32)) == memory_says("checkpoint is corrupted")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.3", 'strconv.Atoi: parsing "1.3": invalid syntax'),
        ("a", 'strconv.Atoi: parsing "a": invalid syntax'),
        (" 1", 'strconv.Atoi: parsing " 1": invalid syntax'),
        ("1,", 'strconv.Atoi: parsing "": invalid syntax'),
        ("1-", 'strconv.Atoi: parsing "": invalid syntax'),
        ("-1", 'strconv.Atoi: parsing "": invalid syntax'),
        ("1-2-3", 'strconv.Atoi: parsing "2-3": invalid syntax'),
        ("3-1", 'invalid range "3-1" (3 > 1)'),
        ("99999999999999999999", 'strconv.Atoi: parsing "99999999999999999999": value out of range'),
    ],
)
def test_a_text_that_is_no_cpu_list_is_refused_with_its_place(text: str, why: str) -> None:
    default = sealed_cpu(b'{"policyName":"none","defaultCpuSet":"%s"}' % text.encode())
    assert cpu_start_error(default, policy="none") == cpu_says(f'could not parse default cpu set "{text}": {why}')
    held = b'{"policyName":"none","defaultCpuSet":"1","entries":{"pod":{"c1":"2","c2":"%s"}}}' % text.encode()
    assert cpu_start_error(sealed_cpu(held), policy="none") == cpu_says(
        f'could not parse cpuset "{text}" for container "c2" in pod "pod": {why}'
    )
    assert cpu_start_error(held, policy="other") == cpu_says(
        'configured policy "other" differs from state checkpoint policy "none"'
    )
    assert cpu_start_error(held.replace(b"{", b'{"checksum":5,', 1), policy="none") == cpu_says(
        "checkpoint is corrupted"
    )


def test_the_cpu_managers_own_check_comes_last() -> None:
    topology = CPUTopology({cpu: CPUInfo(0, 0, cpu, 0) for cpu in range(8)})
    manager = CPUPolicy(topology, CpuSet.of(0), CPUOptions())
    assert cpu_start_error(CPU, policy="static", manager=manager) is None
    fewer = structs.replace(manager, topology=CPUTopology({cpu: CPUInfo(0, 0, cpu, 0) for cpu in range(7)}))
    assert cpu_start_error(CPU, policy="static", manager=fewer) == (
        'current set of available CPUs "0-6" doesn\'t match with CPUs in state "0-7"'
    )


@pytest.mark.parametrize(
    "data", [b'{"policyName":"\xff"}', b'{"checksum":1,"checksum":1}', b'{"machineState":{"-1":{}}}', b"null"]
)
def test_what_go_reads_and_no_kubelet_writes_has_no_known_answer(data: bytes) -> None:
    with pytest.raises(ParseError):
        memory_start_error(data, policy="Static")


@given(st.binary(max_size=80) | st.text('[]{}:,"0123456789.eE+-truefalsn \\u', max_size=40).map(str.encode))
def test_of_any_bytes_something_is_said_or_nothing_is_known(data: bytes) -> None:
    for says in (memory_start_error, cpu_start_error):
        try:
            text = says(data, policy="x")
        except ParseError:
            continue
        assert text is not None
        assert text.startswith("could not restore state from checkpoint: ")
