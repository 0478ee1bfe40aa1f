"""Ways to damage a checkpoint of the kubelet, each with a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.file import CPU, DEVICES, MEMORY, CheckpointKind, write
from numaudit.kernel.host import LARGEST_FILE, Host
from numaudit.kubelet.sources import checkpoints

Damage = Callable[[bytes], bytes]

_CHECKSUMS = (b'"checksum":', b'"Checksum":')
_NUMBERS = (b'"total":', *_CHECKSUMS)
_AFFINITIES = ((b'"numaAffinity":[', b"%d,"), (b'"app":"', b"%d,"))


def _replaced(names: tuple[bytes, ...], by: bytes) -> Damage:
    """Every one of the names with something behind it."""

    def damage(data: bytes) -> bytes:
        for name in names:
            data = data.replace(name, name + by)
        return data

    return damage


def _node(number: int) -> Damage:
    """One more node, or CPU, in front of each list."""

    def damage(data: bytes) -> bytes:
        for name, form in _AFFINITIES:
            data = data.replace(name, name + form % number)
        return data

    return damage


def _without_checksum(damage: Damage, **fields: object) -> Damage:
    """Kubernetes 1.36 does not verify a checksum of 0, so it reads what is inside."""

    def damaged(data: bytes) -> bytes:
        return json.dumps({**json.loads(damage(data)), **fields, "checksum": 0}).encode()

    return damaged


def _of_wrong_type(data: bytes) -> bytes:
    for name in (b'"policyName":', b'"Data":'):
        data = data.replace(name, name + b'5,"other":')
    return data


def _same(data: bytes) -> bytes:
    return data


DAMAGES: Mapping[str, Damage] = {
    "another checksum": _replaced(_CHECKSUMS, b"1"),
    "cut": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "empty": lambda _: b"",
    "blank": lambda _: b" \n",
    "null": lambda _: b"null",
    "a list": lambda _: b"[1,2]",
    "braces": lambda _: b"{}",
    "bytes": lambda _: b"\x00\xff\x01" * 100,
    "not UTF-8": lambda data: data.replace(b"tatic", b"t\xfftic").replace(b"Data", b"D\xffta"),
    "a wrong type": _of_wrong_type,
    "numbers that are too large": _replaced(_NUMBERS, b"99999999999999999999"),
    "a checksum of more digits than Python reads": _replaced(_CHECKSUMS, b"9" * 4301),
    "a huge affinity": _node(99999999999),
    "an affinity to a node that Go knows": _node(100000),
    "an affinity below 0": _node(-1),
    "an affinity to a node that is missing": _without_checksum(_node(63)),
    "a key twice": lambda data: data.replace(b"{", b'{"policyName":"None",', 1),
    "deep": lambda _: b"[" * 100000,
    "entries in another shape": lambda data: json.dumps({**json.loads(data), "entries": [1], "Data": [1]}).encode(),
    "of another policy": _without_checksum(_same, policyName="Other"),
    "without its machine": _without_checksum(_same, machineState={}, defaultCpuSet=""),
    "groups that overlap": _without_checksum(lambda data: data.replace(b'"cells":[0]', b'"cells":[0,1]')),
    "too large": lambda data: data + b" " * (LARGEST_FILE + 1),
}


def files_of(host: Host) -> Mapping[CheckpointKind, Path]:
    """The three checkpoints of a tree, in which the devices' is made where the kubelet had none."""
    paths = checkpoints.paths(host)
    if not paths[DEVICES].exists():
        paths[DEVICES].parent.mkdir(exist_ok=True)
        held = (PodDevices("uid", "app", "vendor.com/nic", {1: ("a",)}, b""),)
        paths[DEVICES].write_bytes(write(DeviceCheckpoint.of(held, {"vendor.com/nic": ("a", "b")})))
    return paths


KINDS: tuple[CheckpointKind, ...] = (MEMORY, CPU, DEVICES)
