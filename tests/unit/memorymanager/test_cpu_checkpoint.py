"""cpu_manager_state: three formats, read, verified and written bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.checkpoints.formats.cpu import CpuCheckpoint, OldFormat, accepts, parse, verify
from numaudit.checkpoints.formats.seal import write
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.errors import ParseError
from numaudit.topology.nodeset import CpuSet

BY_ID = (
    b'{"policyName":"none","defaultCpuSet":"1-3","entries":{"containerID1":"4-6","containerID2":"1-3"},"checksum":%d}'
)
BY_POD = (
    b'{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"1-3"}},'
    b'%s"checksum":%d}'
)
POD_ENTRIES = b'"podEntries":{"pod":{"cpuSet":"4-6"}},'


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (BY_POD % (b"", 3610638499), "V2"),
        (BY_POD % (POD_ENTRIES, 2649431787), "V3"),
        (b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}', "V2"),
        (BY_POD % (b"", 0), "no checksum"),
        (BY_POD % (b"", 3610638498), None),
        (BY_POD % (POD_ENTRIES, 3610638499), "V2"),
    ],
)
def test_the_checksum_tells_the_format(data: bytes, form: str | None) -> None:
    checkpoint = parse(data)
    assert verify(checkpoint).form == form
    assert write(checkpoint) == data


def test_the_key_of_the_default_set_is_read_in_any_case() -> None:
    data = BY_POD % (b"", 3610638499)
    assert parse(data.replace(b"defaultCpuSet", b"defaultCPUSet")) == parse(data)


def test_values_are_those_of_the_file() -> None:
    state = parse(BY_POD % (POD_ENTRIES, 2649431787)).state
    assert state == CPUState(
        CpuSet.of(1, 2, 3),
        {"pod": {"container1": CpuSet.of(4, 5, 6), "container2": CpuSet.of(1, 2, 3)}},
        {"pod": CpuSet.of(4, 5, 6)},
    )


def test_a_file_that_knows_containers_by_their_id_is_too_old_to_be_read() -> None:
    with pytest.raises(OldFormat, match="containers are known by their id, as until Kubernetes"):
        parse(BY_ID % 3680390589)


def test_null_is_not_the_same_as_empty() -> None:
    data = b'{"policyName":"none","defaultCpuSet":"",%s"checksum":1353318690}'
    assert verify(parse(data % b'"entries":{},')).form == "V2"
    assert verify(parse(data % b'"entries":null,')).form is None


def test_a_pod_that_is_null_is_nil_and_reading_goes_on() -> None:
    nil = parse(b'{"policyName":"none","defaultCpuSet":"","entries":{"uid":null},"checksum":0}')
    empty = parse(b'{"policyName":"none","defaultCpuSet":"","entries":{"uid":{}},"checksum":0}')
    assert verify(nil).computed != verify(empty).computed
    assert write(nil) == b'{"policyName":"none","defaultCpuSet":"","entries":{"uid":null},"checksum":0}'
    assert nil.state.entries == {"uid": {}}


def test_unknown_keys_are_named_with_their_path() -> None:
    data = BY_POD % (b'"podEntries":{"pod":{"cpuSet":"4-6","x":1}},"y":2,', 2649431787)
    assert sorted(parse(data).unknown) == ["podEntries.pod.x", "y"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"defaultCpuSet":"0-"}', r"defaultCpuSet: not a CPU list such as 0-3,8: '0-'"),
        (b'{"defaultCpuSet":"0-7:2/4"}', "defaultCpuSet: not a CPU list"),
        (b'{"defaultCpuSet":" 1"}', "defaultCpuSet: not a CPU list"),
        (b'{"defaultCpuSet":"3-1"}', "defaultCpuSet: not a CPU list .* .3-1"),
        (b'{"defaultCpuSet":"70000"}', "defaultCpuSet: CPUs .70000. are not within 0..65535"),
        (b'{"entries":{"uid":{"app":"x"}}}', "entries.uid.app: not a CPU list"),
        (b'{"entries":{"uid":{"app":["1"]}}}', "entries.uid.app: expected a text, found a list"),
        (b'{"entries":{"id":"1","uid":{"app":"1"}}}', "entries.uid: expected a text, found an object"),
        (b'{"entries":[]}', "entries: expected an object, found a list"),
        (b'{"podEntries":{"uid":{"cpuSet":"x"}}}', "podEntries.uid.cpuSet: not a CPU list"),
        (b'{"entries":{"uid":{"a":"1","a":"2"}}}', 'entries.uid: the key "a" occurs twice'),
    ],
)
def test_what_no_kubelet_wrote_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(data)


def test_who_reads_which_format() -> None:
    assert all(accepts(form, version=(1, 28)) for form in ("V2", "no checksum"))
    assert accepts("V3", version=(1, 36), pod_level=True)
    assert not accepts("V3", version=(1, 36), pod_level=False)
    assert not accepts("V3", version=(1, 35), pod_level=True)
    assert not accepts(None)


cpus = st.frozensets(st.integers(0, 300), max_size=12).map(CpuSet.from_ids)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
states = st.builds(
    CPUState,
    cpus,
    st.dictionaries(names, st.dictionaries(names, cpus, max_size=3), max_size=4),
    st.dictionaries(names, cpus, max_size=3),
)


@given(names, states, st.booleans())
def test_what_is_written_is_read_back_and_verifies(policy: str, state: CPUState, pod_level: bool) -> None:
    checkpoint = CpuCheckpoint.of(policy, state, pod_level=pod_level)
    read = parse(write(checkpoint))
    assert read == checkpoint
    assert verify(read).form == ("V3" if pod_level else "V2")
    assert read.state == (state if pod_level else replace(state, pod_entries={}))


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: b'{"defaultCpuSet":"' + text.encode() + b'"}'))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        checkpoint = parse(data)
    except ParseError as refused:
        assert str(refused)
        return
    assert parse(write(checkpoint)).state == checkpoint.state
