"""Specifications of the Container Device Interface (CDI): what a driver has the runtime put into a container. Those of
a host are found, read again when they change, and looked up by a device's qualified name, `vendor/class=device`.

The formats are JSON and YAML; here only environments and device files are read, for nothing else says what a resource
claim promises.

Drivers write a file under another name and rename it, so it is whole. One that is not, or is no specification, is named
and passed over.

Source: cncf-tags/container-device-interface, SPEC.md (0.8.0), pkg/cdi/{cache,spec-dirs}.go, pkg/parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from numaudit.encoding import yaml_values
from numaudit.encoding.yaml_values import YamlLimits
from numaudit.errors import InputError, ParseError
from numaudit.kernel import files as host_files
from numaudit.kernel.host import Host, explain, read_bytes

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


class _Edits(Struct, rename="camel"):
    env: tuple[str, ...] | None = None


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
        found[qualified] = CdiDevice(qualified, edits.env or ())
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


DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""Static and dynamic. A device in the later one replaces that of the same name in the earlier one."""
_SUFFIXES = (".json", ".yaml")


class CdiSpecs(Struct, frozen=True):
    """The devices that specifications define, and what could not be read."""

    devices: Mapping[str, CdiDevice] = field(default_factory=dict)
    """By qualified name."""
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Qualified name -> the files of one directory that all define it; a runtime then refuses the device."""
    problems: tuple[str, ...] = ()


_Stamp = tuple[int, int, int]


class CdiFiles(Struct):
    """Follows the specifications of one host."""

    host: Host
    _read_as: object = None
    """The files and their stamps at the newest reading; None = not all could be read."""
    _specs: CdiSpecs = CdiSpecs()

    def read(self) -> CdiSpecs:
        """Read all of them when one is new or has changed; the same value while nothing has."""
        problems: list[str] = []
        listed = [_files(self.host, directory, problems) for directory in DIRECTORIES]
        state = (listed, tuple(problems))
        if state != self._read_as:
            self._read_as = state
            self._specs = self._merged(listed, problems)
        return self._specs

    def _merged(self, listed: Sequence[Sequence[tuple[Path, _Stamp]]], problems: list[str]) -> CdiSpecs:
        devices: dict[str, CdiDevice] = {}
        conflicts: dict[str, tuple[str, ...]] = {}
        for found_here in listed:
            files: dict[str, tuple[str, ...]] = {}
            for path, _ in found_here:
                for one in self._devices(path, problems):
                    files[one.name] = (*files.get(one.name, ()), self.host.name_of(path))
                    devices[one.name] = one
            for name, defined_in in files.items():
                conflicts.pop(name, None)
                if len(defined_in) > 1:
                    conflicts[name] = defined_in
        return CdiSpecs(devices, conflicts, tuple(problems))

    def _devices(self, path: Path, problems: list[str]) -> tuple[CdiDevice, ...]:
        shown = self.host.name_of(path)
        try:
            return parse(read_bytes(path, LARGEST_SPEC), shown)
        except ParseError as error:
            problems.append(str(error))
        except OSError as error:  # the next time it may be read
            self._read_as = None
            if not isinstance(error, FileNotFoundError):
                problems.append(explain(error, shown))
        return ()


def files(host: Host) -> list[Path]:
    """The specifications of a host, for a capture."""
    return [path for directory in DIRECTORIES for path, _ in _files(host, directory, [])]


def _files(host: Host, directory: str, problems: list[str]) -> list[tuple[Path, _Stamp]]:
    folder = host.at(directory)
    found: list[tuple[Path, _Stamp]] = []
    try:
        for name in host_files.names(folder):
            if not name.endswith(_SUFFIXES) or name.startswith("."):
                continue
            try:
                status = host_files.status(folder / name)
            except FileNotFoundError:  # it went meanwhile
                continue
            except OSError as error:
                problems.append(explain(error, f"{directory}/{name}"))
                continue
            found.append((folder / name, (status.st_ino, status.st_mtime_ns, status.st_size)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(explain(error, directory))
    return sorted(found)
