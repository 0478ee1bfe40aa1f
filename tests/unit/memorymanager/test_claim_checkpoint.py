"""dra_manager_state: resource claims, read, verified and written bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.claims import (
    Claim,
    ClaimCheckpoint,
    ClaimDevice,
    DevelopmentFormat,
    parse,
    verify,
    write,
)
from numaudit.checkpoints.start.outlook import KubeletAtStart, examine
from numaudit.errors import ParseError

UID = "7d1f0c52-5b8e-4f0a-9a53-2f6f3b0f0a11"
POD = "139cdb46-f989-4f17-9561-ca10cfb509a6"
DEVICE = ClaimDevice("node-a", "cpudevnuma001", None, ("cpus",), (f"dra.k8s.io/cpu=claim-{UID}",))
CLAIM = Claim(UID, "cpus-10", "default", (POD,), {"dra.cpu": (DEVICE,)})
ONE = (Path(__file__).parents[2] / "support/kubelets/dra/dra_manager_state").read_bytes()
EMPTY = (
    b'{"Data":"{\\"kind\\":\\"DRACheckpoint\\",\\"apiVersion\\":\\"checkpoint.dra.kubelet.k8s.io/v1\\",'
    b'\\"ClaimInfoStateList\\":null}","Checksum":4010664294}'
)
BEFORE_1_31 = b'{"version":"v1","entries":[{"ClaimUID":"u"}],"checksum":2117021837}'


def sealed(data: object) -> bytes:
    """A file of this content, whose checksum fits."""
    text = data if isinstance(data, str) else json.dumps(data)
    return json.dumps({"Data": text, "Checksum": crc32(text.encode())}).encode()


def document(**changed: object) -> dict[str, object]:
    return {
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": [],
        **changed,
    }


def test_a_kubelets_file_is_read_verified_and_written_bit_for_bit() -> None:
    checkpoint = parse(ONE)
    assert checkpoint.claims == (CLAIM,)
    assert (verify(checkpoint).form, checkpoint.checksum) == ("V1", 3844708988)
    assert write(checkpoint) == ONE
    assert write(ClaimCheckpoint.of((CLAIM,))) == ONE


def test_a_node_without_claims_has_null_in_its_file() -> None:
    checkpoint = parse(EMPTY)
    assert checkpoint.claims is None
    assert verify(checkpoint).is_valid
    assert write(ClaimCheckpoint.of(None)) == EMPTY


def test_a_file_is_known_by_its_name_or_by_the_keys_in_its_text() -> None:
    assert checkpoints.kind_of("dra_manager_state", b"") == checkpoints.CLAIMS
    assert checkpoints.kind_of("copy", ONE) == checkpoints.CLAIMS
    assert checkpoints.kind(checkpoints.parse(checkpoints.CLAIMS, ONE)) == checkpoints.CLAIMS


def test_a_changed_digit_breaks_the_checksum() -> None:
    changed = ONE.replace(b"cpudevnuma001", b"cpudevnuma002")
    found = verify(parse(changed))
    assert (found.form, found.stored) == (None, 3844708988)
    assert found.computed != found.stored


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"PoolName": "p", "DeviceName": "d", "RequestNames": None, "CDIDeviceIDs": None}, (None, None, None)),
        ({"ShareID": "s-1", "RequestNames": ["a"], "CDIDeviceIDs": []}, ("s-1", ("a",), ())),
    ],
    ids=["before share ids, nothing injected", "a share of a device"],
)
def test_parts_of_a_device_may_be_missing(device: object, expected: object) -> None:
    claim = {"ClaimUID": "u", "PodUIDs": None, "DriverState": {"dra.cpu": {"Devices": [device]}}}
    (found,) = parse(sealed(document(ClaimInfoStateList=[claim]))).claims or ()
    (one,) = (found.drivers or {})["dra.cpu"] or ()
    assert (one.share_id, one.requests, one.cdi_ids) == expected
    assert found.pod_uids is None


def test_a_claim_that_is_not_prepared_has_no_devices() -> None:
    claim = {"ClaimUID": "u", "PodUIDs": {}, "DriverState": {"dra.cpu": {"Devices": None}, "dra.net": {}}}
    (found,) = parse(sealed(document(ClaimInfoStateList=[claim]))).claims or ()
    assert found.drivers == {"dra.cpu": None, "dra.net": None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (document(apiVersion="checkpoint.dra.kubelet.k8s.io/v2"), "of apiVersion checkpoint.dra.kubelet.k8s.io/v2"),
        (document(kind="Checkpoint"), "Data is a Checkpoint of apiVersion checkpoint.dra.kubelet.k8s.io/v1"),
        (
            {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", "Entries": []},
            "no ClaimInfoStateList, but Data.Entries",
        ),
        ({}, r"Data is a document of apiVersion \(none\)"),
    ],
    ids=["version", "kind", "entries", "empty"],
)
def test_a_development_version_is_named_and_not_guessed(content: object, message: str) -> None:
    with pytest.raises(DevelopmentFormat, match=message):
        parse(sealed(content))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b'{"Data":5,"Checksum":1}', "Data: expected a text, found 5"),
        (b'{"Data":"","Checksum":4294967296}', "Checksum: expected a whole number from 0 to 4294967295"),
        (sealed("{"), "Data: not JSON"),
        (sealed([]), "Data: expected an object, found a list"),
        (sealed(document(ClaimInfoStateList={})), "Data.ClaimInfoStateList: expected a list"),
        (
            sealed(document(ClaimInfoStateList=[{"PodUIDs": ["u"]}])),
            r"Data.ClaimInfoStateList\[0\].PodUIDs: expected an object",
        ),
        (
            sealed(document(ClaimInfoStateList=[{"DriverState": {"d": {"Devices": [{"RequestNames": "r"}]}}}])),
            r"DriverState.d.Devices\[0\].RequestNames: expected a list",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_path(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(data)


def test_unknown_keys_are_named_with_their_path() -> None:
    claim = {"ClaimUID": "u", "Later": 1}
    found = parse(sealed(document(ClaimInfoStateList=[claim])))
    assert [*found.unknown] == ["Data.ClaimInfoStateList[0].Later"]
    outlook = examine(found, verify(found), None, KubeletAtStart())
    assert [(one.name, one.severity) for one in outlook.findings] == [("newer-key", "info")]
    assert (outlook.starts_now, outlook.starts_after_reboot) == ("yes", "yes")


def test_the_form_of_1_30_is_corrupt_to_newer_kubelets_only() -> None:
    """Source: kubernetes/kubernetes#127653."""
    found = parse(BEFORE_1_31)
    assert found.is_before_1_31
    outlook = examine(found, verify(found), None, KubeletAtStart((1, 34)))
    assert (outlook.starts_now, outlook.is_valid) == ("no", False)
    assert "the form of Kubernetes 1.30" in next(one.message for one in outlook.findings if one.severity == "error")
    assert examine(found, verify(found), None, KubeletAtStart((1, 30))).starts_now == "unknown"


def test_a_kubelet_without_dra_does_not_read_the_file() -> None:
    found = parse(ONE.replace(b"cpus-10", b"cpus-11"))
    outlook = examine(found, verify(found), None, KubeletAtStart((1, 33), reads_claims=False))
    assert (outlook.starts_now, outlook.is_valid) == ("yes", False)
    assert "without the gate DynamicResourceAllocation does not read it" in outlook.findings[0].message


texts = st.text(st.characters(codec="utf-8"), max_size=8)
devices = st.builds(
    ClaimDevice,
    texts,
    texts,
    st.none() | texts,
    st.none() | st.lists(texts, max_size=2).map(tuple),
    st.none() | st.lists(texts, max_size=2).map(tuple),
)
claims = st.builds(
    Claim,
    texts,
    texts,
    texts,
    st.none() | st.lists(texts, max_size=2, unique=True).map(sorted).map(tuple),
    st.none() | st.dictionaries(texts, st.none() | st.lists(devices, max_size=2).map(tuple), max_size=2),
)


@given(st.none() | st.lists(claims, max_size=3).map(tuple))
def test_any_claims_come_back_from_their_file(made: tuple[Claim, ...] | None) -> None:
    data = write(ClaimCheckpoint.of(made))
    checkpoint = parse(data)
    assert checkpoint.claims == made
    assert verify(checkpoint).is_valid
    assert write(checkpoint) == data


@given(st.binary(max_size=40), st.integers(0, len(ONE)), st.integers(0, 20))
def test_any_damage_is_refused_or_breaks_the_checksum(inserted: bytes, at: int, removed: int) -> None:
    damaged = ONE[:at] + inserted + ONE[at + removed :]
    try:
        found = parse(damaged)
    except ParseError:
        return
    assert found.claims == (CLAIM,) or not verify(found).is_valid
