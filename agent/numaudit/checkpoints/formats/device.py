"""`kubelet_internal_checkpoint`: the checkpoint of the Device Manager, bit for bit.

The devices of a container are kept by NUMA node. The checksum covers `Data` only.

Source: pkg/kubelet/cm/devicemanager/checkpoint/{checkpoint,checkpointv1}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from numaudit.encoding import go_json
from numaudit.encoding.checksum import Verification, checksum, identify, render_list, render_map
from numaudit.encoding.go_json import Reader, Uint64
from numaudit.topology.nodeset import NodeSet

NO_NODE = -1
"""The key of devices that named no NUMA node."""

DevicesPerNuma = Mapping[Annotated[int, Meta(ge=NO_NODE, le=NodeSet.limit - 1)], tuple[str, ...] | None]


class PodDevices(Struct, frozen=True):
    """The devices of one resource that one container holds. None = Go's nil."""

    pod_uid: str = field(name="PodUID")
    container_name: str = field(name="ContainerName")
    resource_name: str = field(name="ResourceName")
    device_ids: DevicesPerNuma | None = field(name="DeviceIDs")
    """Node (or NO_NODE) -> device ids."""
    alloc_resp: bytes | None = field(name="AllocResp")
    """The plugin's answer: a ContainerAllocateResponse in protobuf."""

    @property
    def nodes(self) -> NodeSet:
        """The nodes of these devices, where they are known."""
        return NodeSet.from_ids(node for node, ids in (self.device_ids or {}).items() if node != NO_NODE and ids)


class _Data(Struct, frozen=True, rename="pascal"):
    pod_device_entries: tuple[PodDevices, ...] | None = ()
    registered_devices: Mapping[str, tuple[str, ...] | None] | None = field(default_factory=dict)


class _File(Struct, frozen=True, rename="pascal"):
    data: _Data = _Data()
    checksum: Uint64 = 0


_FILE = Reader(_File)


class DeviceCheckpoint(Struct, frozen=True):
    """The file's content. None = Go's nil, which the kubelet writes for "no entries"."""

    entries: tuple[PodDevices, ...] | None
    registered: Mapping[str, tuple[str, ...] | None] | None
    """Resource name -> healthy devices."""
    checksum: int
    unknown: Mapping[str, object] = field(default_factory=dict)
    """Path -> value of keys that are none of the format's; the kubelet passes over them."""

    @classmethod
    def of(
        cls, entries: tuple[PodDevices, ...] | None, registered: Mapping[str, tuple[str, ...] | None]
    ) -> DeviceCheckpoint:
        """The file that a kubelet would write, checksum included."""
        unsealed = cls(entries, registered, 0)
        return replace(unsealed, checksum=checksum(_render(unsealed)))


def parse(data: bytes) -> DeviceCheckpoint:
    """Read the file. The checksum is not checked: see `verify`. Raises ParseError naming the path."""
    unknown: dict[str, object] = {}
    file = _FILE.read(data, unknown)
    return DeviceCheckpoint(file.data.pod_device_entries, file.data.registered_devices, file.checksum, unknown)


def write(checkpoint: DeviceCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. The stored checksum is written as it is."""
    entries = checkpoint.entries
    listed = None if entries is None else tuple(map(_written, entries))
    return go_json.dump(_File(_Data(listed, go_json.go_map(checkpoint.registered)), checkpoint.checksum))


def plain_content(checkpoint: DeviceCheckpoint) -> dict[str, object]:
    """The whole file as plain values."""
    return msgspec.json.decode(write(checkpoint), type=dict[str, object])


def verify(checkpoint: DeviceCheckpoint) -> Verification:
    """Is the stored checksum that of the data?"""
    return identify(checkpoint.checksum, [("V1", _render(checkpoint))])


def _written(entry: PodDevices) -> PodDevices:
    return replace(entry, device_ids=go_json.go_map(entry.device_ids))


def _render(checkpoint: DeviceCheckpoint) -> str:
    entries, registered = checkpoint.entries, checkpoint.registered
    listed = render_list(None if entries is None else map(_render_entry, entries))
    known = render_map(
        None if registered is None else [(name, render_list(ids)) for name, ids in sorted(registered.items())]
    )
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed}"
        f" RegisteredDevices:(map[string][]string){known}}}"
    )


def _render_entry(entry: PodDevices) -> str:
    ids = entry.device_ids
    devices = render_map(None if ids is None else [(node, render_list(listed)) for node, listed in sorted(ids.items())])
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name}"
        f" ResourceName:(string){entry.resource_name} DeviceIDs:(checkpoint.DevicesPerNUMA){devices}"
        f" AllocResp:([]uint8){render_list(entry.alloc_resp)}}}"
    )
