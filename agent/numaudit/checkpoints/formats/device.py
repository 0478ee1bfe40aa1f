"""`kubelet_internal_checkpoint`: the checkpoint of the Device Manager, bit for bit.

Since Kubernetes 1.20 the devices of a container are kept by NUMA node; before, as a plain list.
The checksum covers `Data` only.

Source: pkg/kubelet/cm/devicemanager/checkpoint/{checkpoint,checkpointv1}.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from numaudit.gojson import json as go_json
from numaudit.gojson.json import Walk, field_names
from numaudit.gojson.spew import Verification, checksum, identify, render_list, render_map
from numaudit.topology.nodeset import NodeSet

NO_NODE = -1
"""The key of devices that named no NUMA node."""

DevicesPerNuma = Mapping[int, tuple[str, ...] | None]

_TOP = field_names("Data", "Checksum")
_DATA = field_names("PodDeviceEntries", "RegisteredDevices")
_ENTRY = field_names("PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp")
_NODE = re.compile(r"-1|0|[1-9][0-9]{0,3}", re.ASCII)


class PodDevices(Struct, frozen=True):
    """The devices of one resource that one container holds. None = Go's nil."""

    pod_uid: str
    container_name: str
    resource_name: str
    device_ids: DevicesPerNuma | tuple[str, ...] | None
    """Node (or NO_NODE) -> device ids; a plain tuple in a file from before Kubernetes 1.20."""
    alloc_resp: bytes | None
    """The plugin's answer: a ContainerAllocateResponse in protobuf."""

    @property
    def nodes(self) -> NodeSet:
        """The nodes of these devices, where they are known."""
        by_node = self.device_ids if isinstance(self.device_ids, Mapping) else {}
        return NodeSet.from_ids(node for node, ids in by_node.items() if node != NO_NODE and ids)


class DeviceCheckpoint(Struct, frozen=True):
    """The file's content. None = Go's nil, which the kubelet writes for "no entries"."""

    entries: tuple[PodDevices, ...] | None
    registered: Mapping[str, tuple[str, ...] | None] | None
    """Resource name -> healthy devices."""
    checksum: int
    unknown: tuple[str, ...] = ()
    """Paths of keys that are none of the format's; the kubelet passes over them."""
    refused: tuple[str, ...] = ()
    """Paths of entries that were left out, because their key is half of a surrogate pair."""

    @classmethod
    def of(
        cls, entries: tuple[PodDevices, ...] | None, registered: Mapping[str, tuple[str, ...] | None]
    ) -> DeviceCheckpoint:
        """The file that a kubelet would write, checksum included."""
        unsealed = cls(entries, registered, 0)
        return replace(unsealed, checksum=checksum(_render(unsealed)))

    @property
    def has_plain_lists(self) -> bool:
        """Is it from before Kubernetes 1.20?"""
        return any(isinstance(entry.device_ids, tuple) for entry in self.entries or ())


def parse(data: bytes) -> DeviceCheckpoint:
    """Read the file. The checksum is not checked: see `verify`. Raises ParseError naming the path."""
    walk = Walk()
    top = walk.struct(go_json.load(data), _TOP)
    walk.below("Data")
    fields = walk.struct(top.get("Data", {}), _DATA)
    entries = walk.field(fields, "PodDeviceEntries", partial(_parse_entries, walk), [])
    registered = walk.field(fields, "RegisteredDevices", partial(_parse_registered, walk), {})
    walk.up()
    return DeviceCheckpoint(entries, registered, walk.number(top, "Checksum"), tuple(walk.unknown), tuple(walk.refused))


def write(checkpoint: DeviceCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. The stored checksum is written as it is."""
    return go_json.dump(plain_content(checkpoint))


def plain_content(checkpoint: DeviceCheckpoint) -> dict[str, object]:
    """The whole file as plain values."""
    entries, registered = checkpoint.entries, checkpoint.registered
    return {
        "Data": {
            "PodDeviceEntries": None if entries is None else [_plain_entry(entry) for entry in entries],
            "RegisteredDevices": go_json.plain_map(registered),
        },
        "Checksum": checkpoint.checksum,
    }


def verify(checkpoint: DeviceCheckpoint) -> Verification:
    """Is the stored checksum that of the data? The format is `V1`, or `before 1.20` with plain lists."""
    form = "before 1.20" if checkpoint.has_plain_lists else "V1"
    return identify(checkpoint.checksum, [(form, _render(checkpoint))])


def _parse_entries(walk: Walk, value: object) -> tuple[PodDevices, ...]:
    entries = tuple([_parse_entry(walk, item) for item in walk.elements(value)])
    if len({isinstance(one.device_ids, tuple) for one in entries if one.device_ids}) > 1:
        walk.refuse("some DeviceIDs are lists (before Kubernetes 1.20), others are by NUMA node")
    return entries


def _parse_registered(walk: Walk, value: object) -> dict[str, tuple[str, ...] | None]:
    return {name: _parse_ids(walk, ids) for name, ids in walk.items(value)}


def _parse_entry(walk: Walk, value: object) -> PodDevices:
    entry = walk.struct(value, _ENTRY)
    return PodDevices(
        pod_uid=walk.text(entry, "PodUID"),
        container_name=walk.text(entry, "ContainerName"),
        resource_name=walk.text(entry, "ResourceName"),
        device_ids=walk.field(entry, "DeviceIDs", partial(_parse_devices, walk)),
        alloc_resp=_parse_bytes(walk, entry),
    )


def _parse_devices(walk: Walk, value: object) -> DevicesPerNuma | tuple[str, ...]:
    if isinstance(value, list):
        return walk.texts(value)
    devices = {_node(walk, key): _parse_ids(walk, ids) for key, ids in walk.items(value)}
    return dict(sorted(devices.items()))


def _node(walk: Walk, key: str) -> int:
    if not _NODE.fullmatch(key) or int(key) >= NodeSet.limit:
        walk.refuse(f"expected a node id from 0 to {NodeSet.limit - 1}, or -1 for none, as the key")
    return int(key)


def _parse_ids(walk: Walk, value: object) -> tuple[str, ...] | None:
    return None if value is None else walk.texts(value)


def _parse_bytes(walk: Walk, entry: Mapping[str, object]) -> bytes | None:
    if entry.get("AllocResp") is None:
        return None
    try:
        return base64.b64decode(walk.text(entry, "AllocResp").encode(), validate=True)
    except binascii.Error as error:
        walk.refuse(f"not base64: {error}", "AllocResp")


def _plain_entry(entry: PodDevices) -> dict[str, object]:
    devices: object = entry.device_ids
    if isinstance(entry.device_ids, Mapping):
        devices = go_json.plain_map(entry.device_ids)
    return {
        "PodUID": entry.pod_uid,
        "ContainerName": entry.container_name,
        "ResourceName": entry.resource_name,
        "DeviceIDs": devices,
        "AllocResp": None if entry.alloc_resp is None else base64.b64encode(entry.alloc_resp).decode(),
    }


def _render(checkpoint: DeviceCheckpoint) -> str:
    entries, registered = checkpoint.entries, checkpoint.registered
    plain = checkpoint.has_plain_lists
    listed = render_list(None if entries is None else [_render_entry(entry, plain) for entry in entries])
    known = render_map(
        None if registered is None else [(name, render_list(ids)) for name, ids in sorted(registered.items())]
    )
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed}"
        f" RegisteredDevices:(map[string][]string){known}}}"
    )


def _render_entry(entry: PodDevices, plain: bool) -> str:
    if isinstance(entry.device_ids, Mapping):
        devices = render_map((node, render_list(ids)) for node, ids in sorted(entry.device_ids.items()))
    else:
        devices = render_list(entry.device_ids)
    kind = "[]string" if plain else "checkpoint.DevicesPerNUMA"
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name}"
        f" ResourceName:(string){entry.resource_name} DeviceIDs:({kind}){devices}"
        f" AllocResp:([]uint8){render_list(entry.alloc_resp)}}}"
    )
