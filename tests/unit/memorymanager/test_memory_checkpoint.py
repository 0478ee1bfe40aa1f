"""memory_manager_state: read, verified and written bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.memory import MemoryCheckpoint, accepts, parse, render, verify
from numaudit.checkpoints.formats.seal import write
from numaudit.containermanager.memory.replay import DIFFERENT, check_start
from numaudit.containermanager.memory.state import Block, MemoryState, MemoryTable, NUMANodeState
from numaudit.errors import ParseError

CAPTURED = sorted((FIXTURES / "kubelet-1.36").glob("*/*/memory_manager_state"))
CAPTURED_CPUS = sorted((FIXTURES / "kubelet-1.36").glob("*/*/cpu_manager_state"))
POD_LEVEL = FIXTURES / "kubelet-1.36/standalone-pod-level-resources/1/memory_manager_state"
CROSS = FIXTURES / "kubelet-1.36/standalone-restricted/1-cross/memory_manager_state"

UPSTREAM = (
    b'{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":2048,'
    b'"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}},"cells":[]}},"entries":{"pod":{"container1":'
    b'[{"numaAffinity":[0],"type":"memory","size":512}]}},%s"checksum":%d}'
)
TWO_BLOCKS = (
    b'{"policyName":"Static","machineState":{"0":{"numberOfAssignments":2,"memoryMap":{"hugepages-1Gi":{"total":2147483'
    b'648,"systemReserved":0,"allocatable":2147483648,"reserved":1073741824,"free":1073741824},"memory":{"total":1717986'
    b'9184,"systemReserved":1073741824,"allocatable":13958643712,"reserved":4294967296,"free":9663676416}},"cells":[0]},'
    b'"1":{"numberOfAssignments":0,"memoryMap":{"hugepages-1Gi":{"total":0,"systemReserved":0,"allocatable":0,"reserved"'
    b':0,"free":0},"memory":{"total":17179869184,"systemReserved":1073741824,"allocatable":16106127360,"reserved":0,"fre'
    b'e":16106127360}},"cells":[1]}},"entries":{"4e8dfe0e-0000-4000-8000-000000000001":{"db":[%s]}},"checksum":%d}'
)
MEMORY_BLOCK = b'{"numaAffinity":[0],"type":"memory","size":4294967296}'
HUGE_BLOCK = b'{"numaAffinity":[0],"type":"hugepages-1Gi","size":1073741824}'


@pytest.mark.parametrize("path", [*CAPTURED, *CAPTURED_CPUS], ids=lambda path: "/".join(path.parts[-3:]))
def test_what_a_kubelet_wrote_verifies_and_survives_reading_and_writing(path: Path) -> None:
    data = path.read_bytes()
    checkpoint = checkpoints.parse(checkpoints.kind_of(path.name, b""), data)
    plain, with_pods = ("V1", "V2") if path in CAPTURED else ("V2", "V3")
    assert checkpoints.verify(checkpoint).form == (with_pods if path.parent == POD_LEVEL.parent else plain)
    assert checkpoints.write(checkpoint) == data
    assert not checkpoint.unknown


def test_all_the_captured_files_are_there() -> None:
    assert len(CAPTURED) == len(CAPTURED_CPUS) == 9


def test_the_literals_of_the_kubelets_own_tests_verify() -> None:
    assert verify(parse(UPSTREAM % (b"", 4215593881))).form == "V1"
    pods = b'"podEntries":{"pod":{"memoryBlocks":[{"numaAffinity":[0],"type":"memory","size":512}]}},'
    assert verify(parse(UPSTREAM % (pods, 1278640530))).form == "V2"


@pytest.mark.parametrize(
    ("policy", "checksum", "form"),
    [("None", 4236770233, "V1"), ("Static", 3940083781, "V1"), ("None", 512582496, "V2"), ("Static", 3708929156, "V2")],
)
def test_a_fresh_file_is_told_apart_by_its_checksum_alone(policy: str, checksum: int, form: str) -> None:
    data = b'{"policyName":"%s","machineState":{},"checksum":%d}' % (policy.encode(), checksum)
    checkpoint = parse(data)
    assert verify(checkpoint).form == form
    assert write(checkpoint) == data
    assert MemoryCheckpoint.of(policy, MemoryState({}), pod_level=form == "V2") == checkpoint


def test_the_order_of_blocks_is_kept_and_counts() -> None:
    as_written = parse(TWO_BLOCKS % (MEMORY_BLOCK + b"," + HUGE_BLOCK, 2601328375))
    swapped = parse(TWO_BLOCKS % (HUGE_BLOCK + b"," + MEMORY_BLOCK, 2969052459))
    assert verify(as_written).form == verify(swapped).form == "V1"
    assert verify(replace(swapped, checksum=2601328375)).computed == 2969052459


def test_one_changed_digit_is_noticed() -> None:
    checkpoint = parse(CROSS.read_bytes().replace(b'"size":1468006400', b'"size":1468006401'))
    verification = verify(checkpoint)
    assert not verification.is_valid
    assert verification.stored == 3462717663
    assert verification.computed != 3462717663


def test_values_are_those_of_the_file() -> None:
    state = parse(CROSS.read_bytes()).state
    assert state.machine[1] == NUMANodeState(
        1,
        {
            "hugepages-1Gi": MemoryTable(0, 0, 0, 0, 0),
            "hugepages-2Mi": MemoryTable(33554432, 0, 33554432, 0, 33554432),
            "memory": MemoryTable(989007872, 104857600, 850595840, 694652928, 155942912),
        },
        (0, 1),
    )
    assert state.entries == {"d3c641155287298d49d5b4d96d7ddab9": {"app": (Block((0, 1), "memory", 1468006400),)}}


def test_nil_and_empty_are_told_apart() -> None:
    parts: tuple[bytes, ...] = (b"", b'"entries":{},', b'"entries":null,')
    files = [parse(b'{"policyName":"None","machineState":{},%s"checksum":4236770233}' % part) for part in parts]
    assert [file.entries for file in files] == [{}, {}, None]
    assert [verify(file).form for file in files] == ["V1", "V1", None]
    assert parse(b'{"machineState":null}').machine is None
    assert write(parse(b'{"machineState":null}')) == b'{"policyName":"","machineState":null,"checksum":0}'
    node = b'{"machineState":{"0":{%s}}}'
    missing, empty = parse(node % b'"memoryMap":{}'), parse(node % b'"memoryMap":{},"cells":[]')
    assert missing.machine is not None
    assert missing.machine[0].cells is None
    assert verify(missing).computed != verify(empty).computed


NIL_RENDERED = (
    "(*state.MemoryManagerCheckpoint){PolicyName:(string) MachineState:(state.NUMANodeMap)map[0:<*>"
    "{NumberOfAssignments:(int)0 MemoryMap:(map[v1.ResourceName]*state.MemoryTable)%s Cells:([]int)<nil>}] "
    "Entries:(state.ContainerMemoryAssignments)map[uid:%s] Checksum:(checksum.Checksum)0}"
)


@pytest.mark.parametrize(
    ("node", "pod", "rendered"),
    [
        ("", "{}", ("<nil>", "map[]")),
        ('"memoryMap":null', "{}", ("<nil>", "map[]")),
        ('"memoryMap":{}', "null", ("map[]", "<nil>")),
        ('"memoryMap":{}', '{"app":null}', ("map[]", "map[app:<nil>]")),
        ('"memoryMap":{}', '{"app":[]}', ("map[]", "map[app:[]]")),
    ],
)
def test_what_is_missing_inside_is_nil_and_reading_goes_on(node: str, pod: str, rendered: tuple[str, str]) -> None:
    data = f'{{"policyName":"","machineState":{{"0":{{{node}}}}},"entries":{{"uid":{pod}}},"checksum":1}}'
    checkpoint = parse(data.encode())
    assert render(checkpoint, "V1") == NIL_RENDERED % rendered
    assert render(parse(write(checkpoint)), "V1") == NIL_RENDERED % rendered
    assert verify(replace(checkpoint, checksum=verify(checkpoint).computed)).form == "V1"


def test_a_node_without_tables_is_not_the_machine() -> None:
    state = parse(b'{"machineState":{"0":{}},"entries":{"uid":{"app":null}}}').state
    refusal = check_start(state, {0: NUMANodeState(0, {"memory": MemoryTable(1, 0, 1, 0, 1)}, (0,))})
    assert refusal is not None
    assert refusal.message == DIFFERENT


def test_nodes_are_in_text_order_in_the_file_and_in_number_order_in_the_checksum() -> None:
    table = {"memory": MemoryTable(1, 0, 1, 0, 1)}
    machine = {id_: NUMANodeState(0, table, (id_,)) for id_ in (10, 9, 2)}
    data = write(MemoryCheckpoint.of("Static", MemoryState(machine)))
    assert list(json.loads(data)["machineState"]) == ["10", "2", "9"]
    assert verify(parse(data)).form == "V1"


def test_sizes_are_exact_up_to_64_bits() -> None:
    largest = 2**64 - 1
    table = {"memory": MemoryTable(largest, largest - 1, largest - 2, 2**53 + 1, 0)}
    checkpoint = MemoryCheckpoint.of("Static", MemoryState({0: NUMANodeState(2**63 - 1, table, (0,))}))
    assert parse(write(checkpoint)) == checkpoint


def test_a_checksum_of_64_bits_is_read_and_does_not_fit() -> None:
    verification = verify(parse(b'{"policyName":"None","machineState":{},"checksum":18446744073709551615}'))
    assert (verification.form, verification.stored, verification.computed) == (None, 2**64 - 1, 4236770233)


def test_keys_are_read_without_regard_to_case_as_in_go() -> None:
    data = CROSS.read_bytes()
    shouted = data.replace(b'"checksum"', b'"CHECKSUM"').replace(b'"numaAffinity"', b'"NUMAAFFINITY"')
    assert parse(shouted) == parse(data)
    kelvin = data.replace(b'"checksum"', '"chec\u212asum"'.encode())
    assert parse(kelvin) == parse(data)
    assert parse(data.replace(b'"numberOfAssignments"', '"numberOfA\xdfignments"'.encode())).unknown


def test_unknown_keys_are_named_with_their_path() -> None:
    data = CROSS.read_bytes().replace(b'"size":1468006400', b'"size":1468006400,"colour":{"a":1}')
    data = data.replace(b'"policyName"', b'"comment":[],"policyName"')
    checkpoint = parse(data)
    assert [*checkpoint.unknown] == ["comment", "entries.d3c641155287298d49d5b4d96d7ddab9.app[0].colour"]
    assert verify(checkpoint).form == "V1"


def test_names_are_escaped_as_go_does() -> None:
    name = 'a<b>&"\\\u2028\u2029\n\x01\x7f\u00e9\U0001f600'
    checkpoint = MemoryCheckpoint.of("Static", MemoryState({}, {name: {}}))
    data = write(checkpoint)
    assert rb'"a\u003cb\u003e\u0026\"\\\u2028\u2029\n\u0001' + b"\x7f\xc3\xa9\xf0\x9f\x98\x80" in data
    assert parse(data) == checkpoint
    assert verify(parse(data)).form == "V1"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON: Expecting value at character 0 of 0"),
        (b'{"policyName":"Sta', "not JSON: Unterminated string"),
        (b"{}{}", "not JSON: Extra data"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON: Unexpected UTF-8 BOM"),
        (b"null", "the document: expected an object, found null"),
        (b'{"checksum":NaN}', "not JSON: NaN"),
        (b'{"checksum":-1}', r"checksum: expected a whole number from 0 to 18446744073709551615, found -1"),
        (b'{"checksum":18446744073709551616}', "checksum: expected a whole number .* found 18446744073709551616"),
        (b'{"checksum":1.0}', r"checksum: .* found 1\.0"),
        (b'{"checksum":1e3}', "checksum: .* found 1000"),
        (b'{"checksum":"1"}', 'checksum: .* found "1"'),
        (b'{"checksum":true}', "checksum: .* found true"),
        (
            b'{"checksum":' + b"9" * 5000 + b"}",
            "not a checkpoint: a number of 5000 digits, 9999999999...: no field holds more than 20 digits",
        ),
        (b'{"policyName":7}', "policyName: expected a text, found 7"),
        (b'{"policyName":"\\ud800"}', "policyName: half of a surrogate pair"),
        (b'{"machineState":[]}', "machineState: expected an object, found a list"),
        (b'{"machineState":{"-1":{}}}', "machineState.-1: expected a number from"),
        (b'{"machineState":{"01":{}}}', "machineState.01: expected a number from"),
        (b'{"machineState":{"1024":{}}}', "machineState.1024: expected a number from 0 to 1023"),
        (b'{"machineState":{"0":null}}', "machineState.0: expected an object, found null"),
        (b'{"machineState":{"0":{"memoryMap":{},"cells":[1,-1]}}}', r"machineState.0.cells\[1\]: .* found -1"),
        (b'{"machineState":{"0":{"memoryMap":{"memory":null}}}}', "memoryMap.memory: expected an object, found null"),
        (b'{"machineState":{"0":{"memoryMap":{"memory":{"free":-5}}}}}', "machineState.0.memoryMap.memory.free: .* -5"),
        (b'{"checksum":-0}', r"checksum: expected a whole number .* found -0"),
        (b'{"entries":{"uid":{"app":[{"size":{}}]}}}', r"entries.uid.app\[0\].size: .* found an object"),
        (b'{"entries":{"uid":{"app":[{"numaAffinity":"0"}]}}}', r"app\[0\].numaAffinity: expected a list, found .0."),
        (b'{"entries":{},"entries":{}}', 'the document: the key "entries" occurs twice'),
        (b'{"entries":{"u":{"a":[],"a":[]}}}', 'entries.u: the key "a" occurs twice'),
        (b'{"checksum":1,"Checksum":2}', 'the document: the key "checksum" occurs twice .Go reads keys without case'),
        (b'{"podEntries":{"uid":[]}}', "podEntries.uid: expected an object, found a list"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_what_no_kubelet_wrote_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(data)


def test_who_reads_which_format() -> None:
    assert accepts("V1", version=(1, 21))
    assert not accepts("V2", version=(1, 36))
    assert accepts("V2", version=(1, 36), pod_level=True)
    assert not accepts("V2", version=(1, 35), pod_level=True)
    assert accepts("no checksum", version=(1, 36))
    assert not accepts("no checksum", version=(1, 35))
    assert not accepts("V1 (new type name)", version=(1, 35))
    assert not accepts(None)


def test_the_checksum_over_the_new_type_name_is_known() -> None:
    # FNV-1a of "(*state.MemoryManagerCheckpointV1){PolicyName:(string)None MachineState:(state.NUMANodeMap)map[] ...".
    text = (
        "(*state.MemoryManagerCheckpointV1){PolicyName:(string)None MachineState:(state.NUMANodeMap)map[] "
        "Entries:(state.ContainerMemoryAssignments)map[] Checksum:(checksum.Checksum)0}"
    )
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    data = b'{"policyName":"None","machineState":{},"checksum":%d}' % value
    assert verify(parse(data)).form == "V1 (new type name)"


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
sizes = st.integers(0, 2**64 - 1)
nodes = st.integers(0, 1023)
node_lists = st.none() | st.lists(nodes, max_size=4).map(tuple)
blocks = st.lists(st.builds(Block, node_lists, names, sizes), max_size=3).map(tuple)
tables = st.builds(MemoryTable, sizes, sizes, sizes, sizes, sizes)
machines = st.dictionaries(
    nodes, st.builds(NUMANodeState, st.integers(0, 2**63 - 1), st.dictionaries(names, tables, max_size=3), node_lists)
)
entries = st.dictionaries(names, st.dictionaries(names, blocks, max_size=3), max_size=4)
states = st.builds(MemoryState, machines, entries, st.dictionaries(names, blocks, max_size=3))


@given(names, states, st.booleans())
def test_what_is_written_is_read_back_and_verifies(policy: str, state: MemoryState, pod_level: bool) -> None:
    checkpoint = MemoryCheckpoint.of(policy, state, pod_level=pod_level)
    data = write(checkpoint)
    read = parse(data)
    verification = verify(read)
    assert write(read) == data
    assert read.state.machine == state.machine
    assert read.state.entries == state.entries
    assert read.state.pod_entries == (state.pod_entries if pod_level else {})
    # A pod without blocks is nil when read but was empty when its checksum was taken, in the kubelet as here.
    if not pod_level or all(state.pod_entries.values()):
        assert verification.form == ("V2" if pod_level else "V1")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        checkpoint = parse(data)
    except ParseError as refused:
        assert str(refused)
        return
    assert parse(write(checkpoint)).state == checkpoint.state


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.sampled_from(["0", "1"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(CAPTURED), st.data(), json_values)
def test_any_bytes_in_place_of_a_value_are_read_or_refused(path: Path, data: st.DataObject, other: object) -> None:
    document = json.loads(path.read_bytes())
    place, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = other
    try:
        checkpoint = parse(json.dumps(document).encode())
    except ParseError as refused:
        assert str(refused)
        return
    assert parse(write(checkpoint)).state == checkpoint.state
