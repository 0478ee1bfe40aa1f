"""kubelet_internal_checkpoint: the devices of containers, read, verified and written bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.checkpoints.formats.device import NO_NODE, DeviceCheckpoint, PodDevices, parse, verify, write
from numaudit.errors import ParseError
from numaudit.topology.nodeset import NodeSet

NIC = "vendor.example/nic"
ENTRY = PodDevices("u1", "c", NIC, {0: ("d1", "d2")}, bytes([26, 2, 111, 107]))
ONE = (
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"c","ResourceName":"vendor.example/nic","DeviceIDs":'
    b'{"0":["d1","d2"]},"AllocResp":"GgJvaw=="}],"RegisteredDevices":{"vendor.example/nic":["d1","d2"]}},'
    b'"Checksum":1202970318}'
)
EMPTY = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'


def test_a_file_is_read_verified_and_written() -> None:
    checkpoint = parse(ONE)
    assert checkpoint == DeviceCheckpoint((ENTRY,), {NIC: ("d1", "d2")}, 1202970318)
    assert checkpoint == DeviceCheckpoint.of((ENTRY,), {NIC: ("d1", "d2")})
    assert verify(checkpoint).form == "V1"
    assert write(checkpoint) == ONE


def test_no_entries_are_null() -> None:
    checkpoint = parse(EMPTY)
    assert checkpoint.entries is None
    assert verify(checkpoint).form == "V1"
    assert write(checkpoint) == EMPTY
    assert verify(parse(EMPTY.replace(b"null", b"[]"))).form is None


def test_the_nodes_of_devices_are_known_where_the_plugin_named_them() -> None:
    entry = PodDevices("u", "c", NIC, {NO_NODE: ("d3",), 1: ("d1",), 3: ("d2",), 5: ()}, None)
    assert entry.nodes == NodeSet.of(1, 3)
    assert PodDevices("u", "c", NIC, None, None).nodes == NodeSet()


def test_nodes_are_in_text_order_in_the_file() -> None:
    entry = PodDevices("u", "c", NIC, {10: ("a",), 2: ("b",), NO_NODE: ("c",)}, b"")
    data = write(DeviceCheckpoint.of((entry,), {}))
    assert b'"DeviceIDs":{"-1":["c"],"10":["a"],"2":["b"]},"AllocResp":""' in data
    assert verify(parse(data)).form == "V1"


def test_unknown_keys_are_named_with_their_path() -> None:
    data = ONE.replace(b'"PodUID"', b'"X":1,"PodUID"').replace(b'"Checksum"', b'"Y":1,"Checksum"')
    assert [*parse(data).unknown] == ["Y", "Data.PodDeviceEntries[0].X"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"Data":[]}', "Data: expected an object, found a list"),
        (b'{"Data":{"PodDeviceEntries":{}}}', "Data.PodDeviceEntries: expected a list, found an object"),
        (ONE.replace(b'"0":', b'"-2":'), r"Data.PodDeviceEntries\[0\].DeviceIDs.-2: expected a number from"),
        (ONE.replace(b'"0":', b'"4000":'), r"DeviceIDs.4000: expected a number from -1 to 1023"),
        (ONE.replace(b"GgJvaw==", b"GgJv*w=="), r"Data.PodDeviceEntries\[0\].AllocResp: not base64"),
        (ONE.replace(b"GgJvaw==", "Gg\u00e9".encode()), r"AllocResp: not base64"),
        (ONE.replace(b'"GgJvaw=="', b"5"), r"AllocResp: expected a text, found 5"),
        (ONE.replace(b'["d1","d2"]}', b'["d1",2]}', 1), r"DeviceIDs.0\[1\]: expected a text, found 2"),
        (ONE.replace(b"1202970318", b"-3"), "Checksum: expected a whole number"),
        (ONE.replace(b'"Checksum"', b'"checksum":1,"Checksum"'), 'the key "Checksum" occurs twice'),
        (ONE.replace(b'{"0":["d1","d2"]}', b'["d1","d2"]'), r"DeviceIDs: expected an object, found a list"),
    ],
)
def test_what_no_kubelet_wrote_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(data)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ids = st.none() | st.lists(names, max_size=3).map(tuple)
by_node = st.dictionaries(st.integers(-1, 1023), ids, max_size=3)
contents = st.none() | st.binary(max_size=20)


@given(
    st.none() | st.lists(st.builds(PodDevices, names, names, names, st.none() | by_node, contents)).map(tuple),
    st.dictionaries(names, ids, max_size=3),
)
def test_what_is_written_is_read_back_and_verifies(
    entries: tuple[PodDevices, ...] | None, registered: dict[str, tuple[str, ...] | None]
) -> None:
    checkpoint = DeviceCheckpoint.of(entries, registered)
    assert parse(write(checkpoint)) == checkpoint
    assert verify(checkpoint).form == "V1"


@given(st.binary(max_size=200) | st.binary(max_size=20).map(lambda noise: ONE.replace(b"GgJvaw==", noise)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        checkpoint = parse(data)
    except ParseError as refused:
        assert str(refused)
        return
    assert parse(write(checkpoint)) == checkpoint or checkpoint.unknown
