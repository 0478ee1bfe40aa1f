"""Specifications of the Container Device Interface (CDI): what a driver has the runtime put into a container. Pure.

A device is called by its qualified name, `vendor/class=device`. The formats are JSON and YAML; here only environments
and device files are read, for nothing else says what a resource claim promises.

Source: cncf-tags/container-device-interface, SPEC.md (0.8.0), pkg/parser, specs-go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError, ParseError

LARGEST_SPEC = 1 << 20
"""Bytes. One of a GPU driver for eight devices has some fifty thousand."""
_LIMITS = YamlLimits(LARGEST_SPEC, values=50_000, levels=30)
MOST_DEVICES = 20_000
"""Of a host, so of a file. A node has a device or two for each claim, and some hundreds of a vendor's."""
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)
_KEPT_ENV = ("DRA_CPUSET_", "DRAMEMORY_")
"""Variables that a capture keeps: others may hold secrets."""


class CdiDevice(Struct, frozen=True):
    """One device of a specification, with what it puts into a container."""

    name: str
    """Qualified: `vendor/class=device`."""
    env: tuple[str, ...] = ()
    """NAME=VALUE each."""
    device_nodes: tuple[str, ...] = ()
    """Paths of device files on the host."""


def parse(data: bytes, name: str) -> tuple[CdiDevice, ...]:
    """The devices of one file; `name` is the file's, for messages. Raises ParseError."""
    document = _load(data, name)
    kind = _text(document, "kind", name)
    if not _KIND.fullmatch(kind):
        raise ParseError(f"{name}: kind {kind[:60]!r} is not vendor/class")
    _text(document, "cdiVersion", name)
    found: dict[str, CdiDevice] = {}
    listed = _list(document, "devices", name)
    if len(listed) > MOST_DEVICES:
        raise ParseError(f"{name}: there are more than {MOST_DEVICES} devices, which no node has")
    for number, value in enumerate(listed):
        where = f"{name}: devices[{number}]"
        device = _mapping(value, where)
        own = _text(device, "name", where)
        if not _DEVICE.fullmatch(own):
            raise ParseError(f"{where}.name {own[:60]!r} is not the name of a CDI device")
        qualified = f"{kind}={own}"
        if qualified in found:
            raise ParseError(f"{where}.name {own[:60]!r} is given twice")
        edits = _mapping(device.get("containerEdits") or {}, f"{where}.containerEdits")
        found[qualified] = CdiDevice(qualified, _env(edits, where), _device_nodes(edits, where))
    return tuple(found.values())


def without_secrets(data: bytes, name: str) -> bytes:
    """The file with what is read here and no other variables, as JSON. Raises ParseError."""
    devices = parse(data, name)
    document = _load(data, name)
    kept = [
        {
            "name": one.name.partition("=")[2],
            "containerEdits": {
                "env": [text for text in one.env if text.startswith(_KEPT_ENV)],
                "deviceNodes": [{"path": path} for path in one.device_nodes],
            },
        }
        for one in devices
    ]
    return msgspec.json.encode(
        {"cdiVersion": document["cdiVersion"], "kind": document["kind"], "devices": kept, "containerEdits": {}}
    )


def _load(data: bytes, name: str) -> Mapping[str, object]:
    """JSON is YAML as well, but is read much faster as what it is."""
    if len(data) > LARGEST_SPEC:
        raise ParseError(f"{name}: the file has more than {LARGEST_SPEC} bytes, which no specification has")
    if data.count(b"{") + data.count(b"[") + data.count(b",") > _LIMITS.values:
        raise ParseError(f"{name}: there are more than {_LIMITS.values} values, which no specification has")
    try:
        if name.endswith(".json"):
            return _mapping(msgspec.json.decode(data), name)
        return _mapping(yaml_values.read(data, name, _LIMITS), name)
    except InputError as error:
        raise ParseError(str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"{name}: not JSON: {error}") from None


def _env(edits: Mapping[str, object], where: str) -> tuple[str, ...]:
    found = _list(edits, "env", f"{where}.containerEdits")
    if not all(isinstance(one, str) for one in found):
        raise ParseError(f"{where}.containerEdits.env: expected texts")
    return tuple(str(one) for one in found)


def _device_nodes(edits: Mapping[str, object], where: str) -> tuple[str, ...]:
    nodes = [_mapping(one, f"{where}.deviceNodes") for one in _list(edits, "deviceNodes", f"{where}.containerEdits")]
    return tuple(str(one.get("hostPath") or one.get("path") or "") for one in nodes)


def _list(fields: Mapping[str, object], key: str, where: str) -> list[object]:
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ParseError(f"{where}.{key}: expected a list")
    return value


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ParseError(f"{where}: expected an object")
    return value


def _text(fields: Mapping[str, object], key: str, where: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise ParseError(f"{where}: {key} is missing or no text")
    return value
