"""The CDI specifications of a host: found, read again when they change, and looked up by a device's qualified name.

Drivers write a file under another name and rename it, so it is whole. One that is not, or is no specification, is named
and passed over.

Source: cncf-tags/container-device-interface, pkg/cdi/{cache,spec-dirs}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from numaudit.errors import ParseError
from numaudit.kernel import files as host_files
from numaudit.kernel.host import Host, explain, read_bytes
from numaudit.kubelet.dra import cdi
from numaudit.kubelet.dra.cdi import LARGEST_SPEC, CdiDevice

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

    def read(self) -> CdiSpecs:
        """Read what is new or has changed."""
        devices: dict[str, CdiDevice] = {}
        conflicts: dict[str, tuple[str, ...]] = {}
        problems: list[str] = []
        seen: set[Path] = set()
        size = 0
        for directory in DIRECTORIES:
            files: dict[str, tuple[str, ...]] = {}
            for path, stamp in _files(self.host, directory, problems):
                size += stamp[2]
                if size > MOST_BYTES:
                    problems.append(
                        f"more than {MOST_BYTES >> 20} MiB of CDI files: {path.name} and others are not read"
                    )
                    break
                seen.add(path)
                found = self._devices(path, stamp)
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
            return ()
        except OSError as error:
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
