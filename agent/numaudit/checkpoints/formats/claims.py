"""`dra_manager_state`: the checkpoint of the DRA Manager, bit for bit.

The file has its content as a text, `Data`, and the CRC-32 of that text. It says which pods use a resource claim and
which devices a driver prepared for it; neither containers nor NUMA nodes are in it.

Source: pkg/kubelet/cm/dra/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from zlib import crc32

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from numaudit.encoding import go_json
from numaudit.encoding.checksum import Verification
from numaudit.encoding.go_json import Reader
from numaudit.encoding.go_syntax import NotJson
from numaudit.errors import ParseError

KIND, API_VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


class DevelopmentFormat(ParseError):
    """Its checksum fits, but it is of a kind or version that no release of the kubelet writes."""


class ClaimDevice(Struct, frozen=True):
    """One device of a claim. None = Go's nil."""

    pool: str = field(name="PoolName")
    name: str = field(name="DeviceName")
    share_id: str | None = field(name="ShareID")
    """Of a device that several claims share by capacity."""
    requests: tuple[str, ...] | None = field(name="RequestNames")
    """Names of the claim's requests that it answers."""
    cdi_ids: tuple[str, ...] | None = field(name="CDIDeviceIDs")
    """Qualified CDI names, such as `dra.k8s.io/cpu=claim-UID`."""


class Claim(Struct, frozen=True):
    """One resource claim of pods on this node. None = Go's nil."""

    uid: str
    name: str
    namespace: str
    pod_uids: tuple[str, ...] | None
    drivers: Mapping[str, tuple[ClaimDevice, ...] | None] | None
    """Driver -> its devices. No devices = allocated, and not (or no longer) prepared by that driver."""


class _Nothing(Struct, frozen=True):
    """An element of Go's set of texts, which is an object of empty objects."""


class _Driver(Struct, frozen=True, rename="pascal"):
    devices: tuple[ClaimDevice, ...] | None


class _Claim(Struct, frozen=True):
    uid: str = field(name="ClaimUID")
    name: str = field(name="ClaimName")
    namespace: str = field(name="Namespace")
    pods: Mapping[str, _Nothing] | None = field(name="PodUIDs")
    drivers: Mapping[str, _Driver] | None = field(name="DriverState")

    @classmethod
    def of(cls, claim: Claim) -> _Claim:
        """In the order of the file."""
        pods = None if claim.pod_uids is None else {uid: _Nothing() for uid in sorted(claim.pod_uids)}
        return cls(claim.uid, claim.name, claim.namespace, pods, go_json.go_map(claim.drivers, _Driver))

    @property
    def claim(self) -> Claim:
        drivers = None if self.drivers is None else {name: one.devices for name, one in self.drivers.items()}
        return Claim(self.uid, self.name, self.namespace, None if self.pods is None else tuple(self.pods), drivers)


class _Header(Struct, frozen=True):
    kind: str
    api_version: str = field(name="apiVersion")


class _Data(_Header, frozen=True):
    claims: tuple[_Claim, ...] | UnsetType | None = field(name="ClaimInfoStateList", default=UNSET)

    @classmethod
    def of(cls, claims: tuple[Claim, ...] | None) -> _Data:
        return cls(KIND, API_VERSION, None if claims is None else tuple(map(_Claim.of, claims)))


class _File(Struct, frozen=True, rename="pascal"):
    data: str
    checksum: Annotated[int, Meta(ge=0, le=2**32 - 1)]


_HEADER, _DATA, _FILE = Reader(_Header, "Data"), Reader(_Data, "Data"), Reader(_File)


class ClaimCheckpoint(Struct, frozen=True):
    """The file's content."""

    claims: tuple[Claim, ...] | None
    """None = Go's nil, or the content of a damaged file cannot be read."""
    data: str
    """The text that the checksum is of."""
    checksum: int
    unknown: Mapping[str, object] = field(default_factory=dict)
    """Path -> value of keys that are none of the format's; the kubelet passes over them."""

    @classmethod
    def of(cls, claims: tuple[Claim, ...] | None) -> ClaimCheckpoint:
        """The file that a kubelet would write, checksum included."""
        data = go_json.dump(_Data.of(claims)).decode()
        return cls(claims, data, crc32(data.encode()))

    @property
    def is_before_1_31(self) -> bool:
        """Does it have the form of Kubernetes 1.30, which newer kubelets read as corrupt?"""
        return not self.data and "entries" in {path.casefold() for path in self.unknown}


def parse(data: bytes) -> ClaimCheckpoint:
    """Read the file. The checksum is not checked: see `verify`. Raises ParseError naming the path, and
    DevelopmentFormat. Where the checksum does not fit, content that cannot be read counts as none.
    """
    unknown: dict[str, object] = {}
    inner: dict[str, object] = {}
    file = _FILE.read(data, unknown)
    found = ClaimCheckpoint(None, file.data, file.checksum)
    try:
        found = replace(found, claims=_claims(file.data, inner))
    except ParseError:
        if verify(found).is_valid:
            raise
        inner = {}
    return replace(found, unknown=unknown | inner)


def write(checkpoint: ClaimCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. Text and checksum are written as they are."""
    return go_json.dump(_File(checkpoint.data, checkpoint.checksum))


def plain_content(checkpoint: ClaimCheckpoint) -> dict[str, object]:
    """The file as plain values, with the content of `Data` in place of its text."""
    return {"Data": msgspec.to_builtins(_Data.of(checkpoint.claims)), "Checksum": checkpoint.checksum}


def verify(checkpoint: ClaimCheckpoint) -> Verification:
    """Is the stored checksum that of the text?"""
    computed = crc32(checkpoint.data.encode())
    return Verification("V1" if computed == checkpoint.checksum else None, checkpoint.checksum, computed)


def _claims(text: str, unknown: dict[str, object]) -> tuple[Claim, ...] | None:
    try:
        header = _HEADER.read(text.encode(), {})
    except NotJson as error:
        raise ParseError(f"Data: {error}") from None
    kind, version = header.kind, header.api_version
    if (kind, version) != (KIND, API_VERSION):
        raise DevelopmentFormat(f"Data is a {kind or 'document'} of apiVersion {version or '(none)'}")
    claims = _DATA.read(text.encode(), unknown).claims
    if claims is UNSET:
        keys = ", ".join([*unknown][:3]) or "no other key"
        raise DevelopmentFormat(f"Data has no ClaimInfoStateList, but {keys}")
    return None if claims is None else tuple(one.claim for one in claims)
