"""Specifications of the Container Device Interface (CDI): what a driver has the runtime put into a container. Pure.

A device is called by its qualified name, `vendor/class=device`. The formats are JSON and YAML; here only environments
and device files are read, for nothing else says what a resource claim promises.

Source: cncf-tags/container-device-interface, SPEC.md (0.8.0), pkg/parser, specs-go.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError, ParseError

LARGEST_SPEC = 1 << 20
"""Bytes. One of a GPU driver for eight devices has some fifty thousand."""
_LIMITS = YamlLimits(LARGEST_SPEC, values=50_000, levels=30)
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


class _Node(Struct, rename="camel", omit_defaults=True):
    path: str = ""
    host_path: str = ""


class _Edits(Struct, rename="camel"):
    env: tuple[str, ...] | None = None
    device_nodes: tuple[_Node, ...] | None = None


class _Device(Struct, rename="camel"):
    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?\Z")]
    container_edits: _Edits | None = None


class _Spec(Struct, rename="camel"):
    kind: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_.-]*\Z")]
    version: Annotated[str, Meta(min_length=1)] = field(name="cdiVersion")
    devices: tuple[_Device, ...] | None = None


def parse(data: bytes, name: str) -> tuple[CdiDevice, ...]:
    """The devices of one file; `name` is the file's, for messages. Raises ParseError."""
    spec = _load(data, name)
    found: dict[str, CdiDevice] = {}
    for one in spec.devices or ():
        qualified, edits = f"{spec.kind}={one.name}", one.container_edits or _Edits()
        if qualified in found:
            raise ParseError(f"{name}: the device {one.name[:60]!r} is given twice")
        nodes = tuple(node.host_path or node.path for node in edits.device_nodes or ())
        found[qualified] = CdiDevice(qualified, edits.env or (), nodes)
    return tuple(found.values())


def without_secrets(data: bytes, name: str) -> bytes:
    """The file with what is read here and no other variables, as JSON. Raises ParseError."""
    spec = _load(data, name)
    for device in spec.devices or ():
        edits = device.container_edits or _Edits()
        kept = tuple(text for text in edits.env or () if text.startswith(_KEPT_ENV))
        device.container_edits = replace(edits, env=kept)
    return msgspec.json.encode(spec)


def _load(data: bytes, name: str) -> _Spec:
    """JSON is YAML as well, but is read much faster as what it is."""
    try:
        if name.endswith(".json"):
            return msgspec.json.decode(data, type=_Spec)
        return msgspec.convert(yaml_values.read(data, name, _LIMITS), _Spec)
    except InputError as error:
        raise ParseError(str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"{name}: no specification of CDI devices: {error}") from None
