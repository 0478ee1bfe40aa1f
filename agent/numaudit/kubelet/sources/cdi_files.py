"""The CDI specifications of a host: found, read again when they change, and looked up by a device's qualified name.

Drivers write a file under another name and rename it, so it is whole. One that is not, or is no specification, is named
and passed over.

Source: cncf-tags/container-device-interface, pkg/cdi/{cache,spec-dirs}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import ParseError
from numaudit.kernel import files as host_files
from numaudit.kernel.host import Host, explain, read_bytes
from numaudit.kubelet.parsers import cdi
from numaudit.kubelet.parsers.cdi import LARGEST_SPEC, CdiDevice

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
            return cdi.parse(read_bytes(path, LARGEST_SPEC), shown)
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
