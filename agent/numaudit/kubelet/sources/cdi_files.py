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
from numaudit.kubelet.parsers.cdi import LARGEST_SPEC, MOST_DEVICES, CdiDevice

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""Static and dynamic. A device in the later one replaces that of the same name in the earlier one."""
MOST_FILES = 2000
"""Of one directory; a node has one for each claim at most."""
MOST_BYTES = 32 << 20
"""Of all files of a host that are kept."""
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
    _known: dict[Path, tuple[_Stamp, tuple[CdiDevice, ...] | str]] = field(default_factory=dict)
    """File -> its devices, or the reason why there are none."""

    _has_failed: bool = False
    """A file could not be read this time; the next may do."""
    _read_as: object = None
    _specs: CdiSpecs = CdiSpecs()

    def read(self) -> CdiSpecs:
        """Read what is new or has changed; the same value while nothing has."""
        problems: list[str] = []
        listed = [_files(self.host, directory, problems) for directory in DIRECTORIES]
        state = (listed, tuple(problems))
        if state != self._read_as:
            self._specs = self._merged(listed, problems)
            self._read_as = None if self._has_failed else state
        return self._specs

    def _merged(self, listed: Sequence[Sequence[tuple[Path, _Stamp]]], problems: list[str]) -> CdiSpecs:
        devices: dict[str, CdiDevice] = {}
        conflicts: dict[str, tuple[str, ...]] = {}
        is_full = False
        seen: set[Path] = set()
        size = number = 0
        self._has_failed = False
        for found_here in listed:
            files: dict[str, tuple[str, ...]] = {}
            for path, stamp in found_here:
                size += stamp[2]
                found = () if size > MOST_BYTES else self._devices(path, stamp)
                number += 0 if isinstance(found, str) else len(found)
                is_full = size > MOST_BYTES or number > MOST_DEVICES
                if is_full:
                    most = (
                        f"{MOST_BYTES >> 20} MiB of CDI files" if size > MOST_BYTES else f"{MOST_DEVICES} CDI devices"
                    )
                    problems.append(f"more than {most}: {path.name} and others are not read")
                    break
                seen.add(path)
                if isinstance(found, str):
                    problems.append(found)
                    continue
                for one in found:
                    files[one.name] = (*files.get(one.name, ()), self.host.name_of(path))
                    devices[one.name] = one
            for name, defined_in in files.items():
                conflicts.pop(name, None)
                if len(defined_in) > 1:
                    conflicts[name] = defined_in
            if is_full:
                break
        self._known = {path: one for path, one in self._known.items() if path in seen}
        return CdiSpecs(devices, conflicts, tuple(problems))

    def _devices(self, path: Path, stamp: _Stamp) -> tuple[CdiDevice, ...] | str:
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        shown = self.host.name_of(path)
        found: tuple[CdiDevice, ...] | str
        try:
            found = cdi.parse(read_bytes(path, LARGEST_SPEC), shown)
        except FileNotFoundError:
            self._has_failed = True
            return ()
        except OSError as error:
            self._has_failed = True
            return explain(error, shown)
        except ParseError as error:
            found = str(error)
        self._known[path] = (stamp, found)
        return found


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
            if len(found) == MOST_FILES:
                problems.append(f"more than {MOST_FILES} files in {directory}: the others are not read")
                break
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
