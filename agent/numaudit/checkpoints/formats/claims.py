"""`dra_manager_state`: the checkpoint of the DRA Manager, bit for bit.

The file has its content as a text, `Data`, and the CRC-32 of that text. It says which pods use a resource claim and
which devices a driver prepared for it; neither containers nor NUMA nodes are in it.

Source: pkg/kubelet/cm/dra/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from numaudit.errors import ParseError
from numaudit.gojson import json as go_json
from numaudit.gojson.json import Walk, field_names
from numaudit.gojson.spew import Verification

KIND, API_VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"

_UINT32 = 2**32 - 1
_TOP = field_names("Data", "Checksum")
_DATA = field_names("kind", "apiVersion", "ClaimInfoStateList")
_CLAIM = field_names("ClaimUID", "ClaimName", "Namespace", "PodUIDs", "DriverState")
_DRIVER = field_names("Devices")
_DEVICE = field_names("PoolName", "DeviceName", "ShareID", "RequestNames", "CDIDeviceIDs")
_NO_FIELDS = field_names()


class DevelopmentFormat(ParseError):
    """Its checksum fits, but it is of a kind or version that no release of the kubelet writes."""


class ClaimDevice(Struct, frozen=True):
    """One device of a claim. None = Go's nil."""

    pool: str
    name: str
    share_id: str | None
    """Of a device that several claims share by capacity."""
    requests: tuple[str, ...] | None
    """Names of the claim's requests that it answers."""
    cdi_ids: tuple[str, ...] | None
    """Qualified CDI names, such as `dra.k8s.io/cpu=claim-UID`."""


class Claim(Struct, frozen=True):
    """One resource claim of pods on this node. None = Go's nil."""

    uid: str
    name: str
    namespace: str
    pod_uids: tuple[str, ...] | None
    drivers: Mapping[str, tuple[ClaimDevice, ...] | None] | None
    """Driver -> its devices. No devices = allocated, and not (or no longer) prepared by that driver."""


class ClaimCheckpoint(Struct, frozen=True):
    """The file's content."""

    claims: tuple[Claim, ...] | None
    """None = Go's nil, or the content of a damaged file cannot be read."""
    data: str
    """The text that the checksum is of."""
    checksum: int
    unknown: tuple[str, ...] = ()
    """Paths of keys that are none of the format's; the kubelet passes over them."""
    refused: tuple[str, ...] = ()
    """Paths of entries that were left out, because their key is half of a surrogate pair."""

    @classmethod
    def of(cls, claims: tuple[Claim, ...] | None) -> ClaimCheckpoint:
        """The file that a kubelet would write, checksum included."""
        data = go_json.dump(_plain_data(claims)).decode()
        return cls(claims, data, crc32(data.encode()))

    @property
    def is_before_1_31(self) -> bool:
        """Does it have the form of Kubernetes 1.30, which newer kubelets read as corrupt?"""
        return not self.data and "entries" in {path.casefold() for path in self.unknown}


def parse(data: bytes) -> ClaimCheckpoint:
    """Read the file. The checksum is not checked: see `verify`. Raises ParseError naming the path, and
    DevelopmentFormat. Where the checksum does not fit, content that cannot be read counts as none.
    """
    walk = Walk()
    top = walk.struct(go_json.load(data), _TOP)
    text, checksum = walk.text(top, "Data"), walk.number(top, "Checksum", _UINT32)
    found = ClaimCheckpoint(None, text, checksum)
    try:
        found = replace(found, claims=_claims(text, walk))
    except ParseError:
        if verify(found).is_valid:
            raise
    return replace(found, unknown=tuple(walk.unknown), refused=tuple(walk.refused))


def write(checkpoint: ClaimCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. Text and checksum are written as they are."""
    return go_json.dump({"Data": checkpoint.data, "Checksum": checkpoint.checksum})


def plain_content(checkpoint: ClaimCheckpoint) -> dict[str, object]:
    """The file as plain values, with the content of `Data` in place of its text."""
    return {"Data": _plain_data(checkpoint.claims), "Checksum": checkpoint.checksum}


def verify(checkpoint: ClaimCheckpoint) -> Verification:
    """Is the stored checksum that of the text?"""
    computed = crc32(checkpoint.data.encode())
    return Verification("V1" if computed == checkpoint.checksum else None, checkpoint.checksum, computed)


def _claims(text: str, outer: Walk) -> tuple[Claim, ...] | None:
    walk = Walk()
    walk.below("Data")
    try:
        document = go_json.load(text.encode())
    except ParseError as error:
        raise ParseError(f"Data: {error}") from None
    fields = walk.struct(document, _DATA)
    kind, version = walk.text(fields, "kind"), walk.text(fields, "apiVersion")
    if (kind, version) != (KIND, API_VERSION):
        raise DevelopmentFormat(f"Data is a {kind or 'document'} of apiVersion {version or '(none)'}")
    if "ClaimInfoStateList" not in fields:
        keys = ", ".join(walk.unknown[:3]) or "no other key"
        raise DevelopmentFormat(f"Data has no ClaimInfoStateList, but {keys}")
    claims = walk.field(fields, "ClaimInfoStateList", partial(_read_claims, walk))
    outer.unknown += walk.unknown
    outer.refused += walk.refused
    return claims


def _read_claims(walk: Walk, value: object) -> tuple[Claim, ...]:
    return tuple([_claim(walk, item) for item in walk.elements(value)])


def _claim(walk: Walk, value: object) -> Claim:
    fields = walk.struct(value, _CLAIM)
    return Claim(
        uid=walk.text(fields, "ClaimUID"),
        name=walk.text(fields, "ClaimName"),
        namespace=walk.text(fields, "Namespace"),
        pod_uids=walk.field(fields, "PodUIDs", partial(_set, walk)),
        drivers=walk.field(fields, "DriverState", partial(_drivers, walk)),
    )


def _set(walk: Walk, value: object) -> tuple[str, ...]:
    """Go's set of texts: an object of empty objects."""
    found = []
    for text, empty in walk.items(value):
        walk.struct(empty, _NO_FIELDS)
        found.append(text)
    return tuple(found)


def _drivers(walk: Walk, value: object) -> dict[str, tuple[ClaimDevice, ...] | None]:
    found: dict[str, tuple[ClaimDevice, ...] | None] = {}
    for name, state in walk.items(value):
        found[name] = walk.field(walk.struct(state, _DRIVER), "Devices", partial(_devices, walk))
    return found


def _devices(walk: Walk, value: object) -> tuple[ClaimDevice, ...]:
    return tuple([_device(walk, item) for item in walk.elements(value)])


def _device(walk: Walk, value: object) -> ClaimDevice:
    fields = walk.struct(value, _DEVICE)
    return ClaimDevice(
        pool=walk.text(fields, "PoolName"),
        name=walk.text(fields, "DeviceName"),
        share_id=None if fields.get("ShareID") is None else walk.text(fields, "ShareID"),
        requests=walk.field(fields, "RequestNames", walk.texts),
        cdi_ids=walk.field(fields, "CDIDeviceIDs", walk.texts),
    )


def _plain_data(claims: tuple[Claim, ...] | None) -> dict[str, object]:
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "ClaimInfoStateList": None if claims is None else [_plain_claim(one) for one in claims],
    }


def _plain_claim(claim: Claim) -> dict[str, object]:
    pods = claim.pod_uids
    return {
        "ClaimUID": claim.uid,
        "ClaimName": claim.name,
        "Namespace": claim.namespace,
        "PodUIDs": None if pods is None else {uid: {} for uid in sorted(pods)},
        "DriverState": go_json.plain_map(claim.drivers, _plain_driver),
    }


def _plain_driver(devices: tuple[ClaimDevice, ...] | None) -> dict[str, object]:
    return {"Devices": None if devices is None else [_plain_device(one) for one in devices]}


def _plain_device(device: ClaimDevice) -> dict[str, object]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.name,
        "ShareID": device.share_id,
        "RequestNames": device.requests,
        "CDIDeviceIDs": device.cdi_ids,
    }
