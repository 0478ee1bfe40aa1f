"""/proc/PID/fd: the numbers of the device files that a process has open.

Only files below /dev are looked at. A process may have put any file there, also one of a file system of its own that
never answers, so nothing is asked of a file system (AT_STATX_DONT_SYNC). In a capture they lead to dev/char/M:N.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterator
from itertools import islice
from stat import S_ISBLK, S_ISCHR

from numaudit.kernel import files
from numaudit.kernel.devices.pci import FileNumbers, FileType, PciDevices
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import syscall
from numaudit.ranks.declaration import HeldDevice

MOST_FILES = 4096
"""Open files of a process that are looked at."""
_BELOW_DEV = re.compile(r"/dev/(?!(?:null|zero|full|u?random|tty|ptmx|kmsg)$|pts/|shm/|mqueue/)")
"""Not only at the beginning: a runtime may have moved its root and not turned it (runc with --no-pivot)."""
_CAPTURED = re.compile(r"(?:\.\./){3}dev/(char|block)/(\d{1,7}):(\d{1,7})", re.ASCII)
_DONT_SYNC, _STATX_TYPE = 0x4000, 0x1
_STATX_SIZE, _MODE_OFFSET, _NUMBERS_OFFSET = 256, 28, 128


class HeldDevices:
    """The PCI devices that processes have open, in one tick."""

    def __init__(self, host: Host, pci: PciDevices | None = None) -> None:
        self._host = host
        self.pci = PciDevices(host) if pci is None else pci

    def of(self, pid: int) -> tuple[HeldDevice, ...]:
        """Each device once. Raises OSError when the process has ended, or its files may not be seen."""
        found: dict[HeldDevice, None] = {}
        for numbers in open_files(self._host, pid):
            found.update(dict.fromkeys(self.pci.of_file(numbers)))
        return tuple(found)


def open_files(host: Host, pid: int) -> Iterator[FileNumbers]:
    """Each once. Raises OSError when the process has ended, or its files may not be seen."""
    seen = set()
    folder = files.open_file(f"{host.proc}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, MOST_FILES):
                try:
                    numbers = _numbers(folder, entry.name, host.is_live)
                except OSError:  # it was closed meanwhile
                    continue
                if numbers is not None and numbers not in seen:
                    seen.add(numbers)
                    yield numbers
    finally:
        os.close(folder)


def captured_target(numbers: FileNumbers) -> str:
    """Target of a descriptor in a captured tree."""
    return f"../../../dev/{numbers.type}/{numbers.major}:{numbers.minor}"


def captured_numbers(target: str) -> FileNumbers | None:
    """The numbers in what `captured_target` made; None = of no device."""
    match = _CAPTURED.fullmatch(target)
    type_: FileType = "char" if match is not None and match[1] == "char" else "block"
    return None if match is None else FileNumbers(type_, int(match[2]), int(match[3]))


def _numbers(folder: int, name: str, is_live: bool) -> FileNumbers | None:
    """None = of no device. Raises OSError."""
    target = os.readlink(name, dir_fd=folder)
    if not is_live:
        return captured_numbers(target)
    if not target.startswith("/") or not _BELOW_DEV.search(target):
        return None
    path, result = ctypes.create_string_buffer(os.fsencode(name)), ctypes.create_string_buffer(_STATX_SIZE)
    syscall.call("statx", folder, ctypes.addressof(path), _DONT_SYNC, _STATX_TYPE, ctypes.addressof(result))
    (mode,) = struct.unpack_from("=H", result, _MODE_OFFSET)
    major, minor = struct.unpack_from("=II", result, _NUMBERS_OFFSET)
    if S_ISCHR(mode):
        return FileNumbers("char", major, minor)
    return FileNumbers("block", major, minor) if S_ISBLK(mode) else None
