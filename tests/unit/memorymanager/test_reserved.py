"""--reserved-memory and reservedMemory: grammar, validation, the check against the node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.pods import quantities
from numaudit.containermanager.memory.reserved import (
    MemoryReservation,
    convert_reserved,
    parse_reserved_memory,
    read_reserved_memory,
    system_reserved,
    validate_against_node,
    validate_reserved_memory,
)
from numaudit.errors import InputError
from numaudit.topology.machine import Machine, Node

GI = 2**30
MI = 2**20
TWO_NODES = Machine((Node(0, memory=4 * GI), Node(1, memory=4 * GI)))


def reserve(node: int, **limits: str) -> MemoryReservation:
    return MemoryReservation(node, quantities({name.replace("_", "-"): text for name, text in limits.items()}))


def test_semicolons_part_nodes_and_commas_part_types() -> None:
    assert parse_reserved_memory(["0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=500M"]) == (
        reserve(0, memory="1Gi", hugepages_1Gi="2Gi"),
        reserve(1, memory="500M"),
    )


def test_the_flag_may_be_repeated_and_cleared() -> None:
    assert parse_reserved_memory(["0:memory=1Gi", "1:memory=1Gi"]) == (
        reserve(0, memory="1Gi"),
        reserve(1, memory="1Gi"),
    )
    assert parse_reserved_memory(["0:memory=1Gi", ""]) == ()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "memory=1Gi",
            "the reserved memory has incorrect format, "
            "expected numaNodeID:type=quantity[,type=quantity...], got memory=1Gi",
        ),
        (
            "0:memory=1Gi:x",
            "the reserved memory has incorrect format, "
            "expected numaNodeID:type=quantity[,type=quantity...], got 0:memory=1Gi:x",
        ),
        (
            "0:memory=1Gi;",
            "the reserved memory has incorrect format, expected numaNodeID:type=quantity[,type=quantity...], got ",
        ),
        ("a:memory=1Gi", "failed to convert the NUMA node ID, expected integer, got a"),
        ("0:", "the reserved limit has incorrect value, expected type=quantity, got "),
        ("0:memory", "the reserved limit has incorrect value, expected type=quantity, got memory"),
        ("0:memory=1=2", "the reserved limit has incorrect value, expected type=quantity, got memory=1=2"),
        ("0:cpu=1", 'memory type conversion error, unknown type: "cpu"'),
        ("0:memory=", "failed to parse the quantity: "),
        ("0:memory=1Gb", "failed to parse the quantity: 1Gb"),
        (
            "{numa-node=0, type=memory, limit=500MB}",
            "the reserved memory has incorrect format, expected numaNodeID:type=quantity[,type=quantity...], "
            "got {numa-node=0, type=memory, limit=500MB}",
        ),
    ],
)
def test_a_bad_flag_is_refused_with_the_kubelets_words(flag: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_reserved_memory([flag])
    assert str(refusal.value) == message


def test_the_configuration_file_says_the_same() -> None:
    read = read_reserved_memory(
        [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1Gi": 1073741824}}, {"limits": {"memory": "1Gi"}}]
    )
    assert read[0].limits["hugepages-1Gi"].as_int64 == GI
    assert read[1].numa_node == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "reservedMemory: must be a list, not dict"),
        (["x"], r"reservedMemory\[0\]: must be a mapping, not str"),
        ([{"numaNode": "0"}], r"reservedMemory\[0\].numaNode: must be a whole number"),
        ([{"numaNode": True}], r"reservedMemory\[0\].numaNode: must be a whole number"),
        ([{"node": 0}], "unknown field 'node'"),
        ([{"limits": {"memory": [1]}}], r"reservedMemory\[0\].limits.memory: must be a quantity"),
        ([{"limits": {"memory": "-1Gi"}}], r"limits.memory: must not be negative"),
    ],
)
def test_a_configuration_of_another_form_is_refused(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_reserved_memory(value)


def test_all_problems_are_reported_together() -> None:
    reservations = [reserve(0, memory="0", cpu="1"), reserve(0, memory="1Gi"), reserve(1, memory="1Gi")]
    assert validate_reserved_memory(reservations) == (
        'invalid configuration: reserved memory may not be zero for NUMA node 0 and resource "memory"',
        'invalid configuration: the limit type "cpu" for NUMA node 0 is not supported, '
        "only [memory hugepages-<HugePageSize>] is accepted",
        'invalid configuration: the reserved memory has a duplicate value for NUMA node 0 and resource "memory"',
    )
    assert validate_reserved_memory([reserve(0, memory="1Gi")]) == ()


def test_1_23_put_no_prefix_before_them() -> None:
    problems = validate_reserved_memory([reserve(0, memory="0")], version=(1, 23))
    assert problems == ('reserved memory may not be zero for NUMA node 0 and resource "memory"',)


def test_every_node_of_the_machine_has_an_entry() -> None:
    reserved = system_reserved(TWO_NODES, [reserve(1, memory="300Mi")], quantities({"memory": "300Mi", "cpu": "1"}))
    assert reserved == {0: {}, 1: {"memory": 300 * MI}}


def test_the_sum_over_the_nodes_is_what_counts() -> None:
    reservations = [reserve(0, memory="100Mi", hugepages_2Mi="4Mi"), reserve(1, memory="200Mi")]
    reserved = system_reserved(TWO_NODES, reservations, quantities({"memory": "300Mi", "hugepages-2Mi": "4Mi"}))
    assert reserved == {0: {"memory": 100 * MI, "hugepages-2Mi": 4 * MI}, 1: {"memory": 200 * MI}}


@pytest.mark.parametrize(
    ("reservations", "node_allocatable", "message"),
    [
        (
            [reserve(2, memory="1Gi")],
            {"memory": "1Gi"},
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
        ),
        (
            [reserve(0, memory="1Gi"), reserve(1, memory="1Gi")],
            {"memory": "1536Mi"},
            'the total amount "2Gi" of type "memory" is not equal to the value "1536Mi" '
            "determined by Node Allocatable feature",
        ),
        (
            [reserve(0, memory="1Gi")],
            {"memory": "1Gi", "hugepages-1Gi": "1Gi"},
            'the total amount "0" of type "hugepages-1Gi" is not equal to the value "1Gi" '
            "determined by Node Allocatable feature",
        ),
        (
            [reserve(0, memory="500M")],
            {"memory": "0.5Gi"},
            'the total amount "500M" of type "memory" is not equal to the value "512Mi" '
            "determined by Node Allocatable feature",
        ),
        (
            [reserve(0, memory="1.5Gi")],
            {"memory": "1536Mi"},
            "could not covert a variable of type Quantity to int64",
        ),
        ([], {}, "[memorymanager] you should specify the system reserved memory"),
        (
            [reserve(0, hugepages_2Mi="4Mi")],
            {"hugepages-2Mi": "4Mi"},
            "[memorymanager] you should specify the system reserved memory",
        ),
    ],
)
def test_the_node_must_agree(
    reservations: list[MemoryReservation], node_allocatable: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as refusal:
        system_reserved(TWO_NODES, reservations, quantities(node_allocatable))
    assert str(refusal.value) == message


def test_without_any_reservation_every_node_has_an_empty_one_until_the_policy_asks_for_memory() -> None:
    validate_against_node(TWO_NODES, [], {})
    assert convert_reserved(TWO_NODES, []) == {0: {}, 1: {}}
    pages = [reserve(0, hugepages_2Mi="4Mi")]
    validate_against_node(TWO_NODES, pages, quantities({"hugepages-2Mi": "4Mi", "cpu": "1"}))
    assert convert_reserved(TWO_NODES, pages) == {0: {"hugepages-2Mi": 4 * MI}, 1: {}}


def test_a_negative_reservation_is_refused() -> None:
    with pytest.raises(InputError, match="negative: -1Gi"):
        system_reserved(TWO_NODES, [reserve(0, memory="-1Gi"), reserve(1, memory="2Gi")], quantities({"memory": "1Gi"}))


def test_the_last_of_several_reservations_counts_although_their_sum_is_checked() -> None:
    reservations = [reserve(0, memory="1Gi"), reserve(0, memory="2Gi")]
    assert system_reserved(TWO_NODES, reservations, quantities({"memory": "3Gi"}))[0] == {"memory": 2 * GI}


@given(st.text(alphabet="01:;,=memoryhugepages-GiK ", max_size=40))
def test_any_flag_is_read_or_refused(text: str) -> None:
    try:
        reservations = parse_reserved_memory([text])
    except InputError as error:
        assert str(error)
        return
    assert (reservations == ()) == (text == "")
