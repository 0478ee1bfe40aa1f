"""/sys/bus/pci/devices: the PCI devices of the host, their nodes, and the device nodes that lead to them.

The deepest PCI address in the path of a device in sysfs is that of its function. NVIDIA's driver has no files in sysfs:
those are found by `Device Minor` in /proc/driver/nvidia/gpus/ADDRESS/information. Source: sysfs-bus-pci (numa_node).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes
from numaudit.ranks.told import DeviceKind, HeldDevice

FileType = Literal["char", "block"]
MOST_DEVICES = 65536
"""Entries of a folder of sysfs that are looked at."""
_NVIDIA_MAJOR = 195
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)
_NUMBERS = re.compile(r"(\d{1,7}):(\d{1,7})", re.ASCII)
_GROUP = re.compile(r"/vfio/(?:noiommu-)?(\d{1,7})$", re.ASCII)
_MINOR = re.compile(rb"^Device Minor:\s*(\d{1,7})\s*$", re.MULTILINE)
_UUID = re.compile(rb"^GPU UUID:\s*(GPU-[0-9a-fA-F-]{1,64})\s*$", re.MULTILINE)
_NETWORK, _DISPLAY, _ACCELERATOR, _STORAGE, _BRIDGE, _SERIAL_BUS = 0x02, 0x03, 0x12, 0x01, 0x06, 0x0C
_KINDS: dict[int, DeviceKind] = {
    _NETWORK: "network",
    _DISPLAY: "gpu",
    _ACCELERATOR: "gpu",
    _STORAGE: "storage",
}
"""By the base class of PCI."""
_NO_HOLDINGS = (_BRIDGE, _SERIAL_BUS)
"""Behind these are other devices (USB, I2C), which have no place of their own."""


class FileNumbers(NamedTuple):
    """Numbers of a device's file."""

    type: FileType
    major: int
    minor: int


class _Gpu(NamedTuple):
    minor: int | None
    uuid: str | None
    address: str


class PciDevices:
    """Those of one tick; what was asked before is remembered."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._folder = host.sys / "bus/pci/devices"
        self._by_numbers: dict[FileNumbers, tuple[HeldDevice, ...]] = {}

    @property
    def host(self) -> Host:
        return self._host

    def of_file(self, numbers: FileNumbers) -> tuple[HeldDevice, ...]:
        """The device behind a file; several behind one of VFIO's groups, none behind a file of no PCI device."""
        if numbers not in self._by_numbers:
            self._by_numbers[numbers] = tuple(self._read(numbers))
        return self._by_numbers[numbers]

    def of_id(self, id_: str) -> HeldDevice | None:
        """The device that a plugin calls by its PCI address or NVIDIA's UUID; None = by another name, or it is gone."""
        if ADDRESS.fullmatch(id_):
            address = id_.lower() if len(id_) > len("00:00.0") else id_
            return self.at(address, "")
        return next((self.at(gpu.address, "") for gpu in self._gpus if gpu.uuid == id_), None)

    def at(self, address: str, path: str) -> HeldDevice | None:
        """`path`: of the file in sysfs. None = there is no such device, or others hang on it."""
        folder = self._folder / address
        base = _base_class(folder)
        if base in _NO_HOLDINGS or not files.is_folder(folder):
            return None
        kind: DeviceKind = "infiniband" if "/infiniband" in path else _KINDS.get(base or -1, "other")
        return HeldDevice(kind, address, numa_node(folder))

    def behind(self, path: str) -> HeldDevice | None:
        """The device whose address is the deepest in a path of sysfs."""
        found = ADDRESS.findall(path)
        return self.at(found[-1], path) if found else None

    @cached_property
    def files(self) -> tuple[FileNumbers, ...]:
        """Of all files that lead to PCI devices."""
        numbers = [FileNumbers("char", _NVIDIA_MAJOR, gpu.minor) for gpu in self._gpus if gpu.minor is not None]
        types: tuple[FileType, ...] = ("char", "block")
        for type_ in types:
            for name in _names(self._host.sys / "dev" / type_):
                if match := _NUMBERS.fullmatch(name):
                    numbers.append(FileNumbers(type_, int(match[1]), int(match[2])))
        return tuple(one for one in numbers if self.of_file(one))

    @cached_property
    def missing_adapters(self) -> tuple[str, ...]:
        """Addresses of network adapters with a driver whose interfaces are not in the namespace that sysfs shows.

        Without any no other namespace has one. VFIO's have no interface at all.
        """
        found = []
        for address in _names(self._folder):
            folder = self._folder / address
            if ADDRESS.fullmatch(address) and _base_class(folder) == _NETWORK:
                driver = files.real_path(folder / "driver").rpartition("/")[2]
                if driver not in ("driver", "vfio-pci") and not any(_interfaces(folder)):
                    found.append(address)
        return tuple(found)

    def of_interface(self, bus: str, name: str) -> HeldDevice | None:
        """The device of a network interface whose parent has this name on this bus (virtio's are behind PCI's)."""
        if not bus or not name or "/" in bus + name or ".." in (bus, name):
            return None
        return self.behind(files.real_path(self._host.sys / "bus" / bus / "devices" / name))

    def _read(self, numbers: FileNumbers) -> Iterator[HeldDevice]:
        if (numbers.type, numbers.major) == ("char", _NVIDIA_MAJOR):
            gpus = (self.at(gpu.address, "") for gpu in self._gpus if gpu.minor == numbers.minor)
            yield from (one for one in gpus if one is not None)
            return
        path = files.real_path(self._host.sys / "dev" / numbers.type / f"{numbers.major}:{numbers.minor}")
        if match := _GROUP.search(path):
            yield from self._in_group(match[1])
            return
        device = self.behind(path)
        if device is not None:
            yield device if "/vfio-dev/" not in path else HeldDevice("vfio", device.address, device.numa_node)

    def _in_group(self, group: str) -> Iterator[HeldDevice]:
        folder = self._host.sys / "kernel/iommu_groups" / group / "devices"
        for name in sorted(_names(folder)):
            device = self.behind(f"/{name}" if ADDRESS.fullmatch(name) else files.real_path(folder / name))
            if device is not None:
                yield HeldDevice("vfio", device.address, device.numa_node)

    @cached_property
    def _gpus(self) -> tuple[_Gpu, ...]:
        found = []
        for address in _names(self._host.proc / "driver/nvidia/gpus"):
            try:
                text = read_bytes(self._host.proc / "driver/nvidia/gpus" / address / "information")
            except OSError:
                continue
            if ADDRESS.fullmatch(address):
                minor, uuid = _MINOR.search(text), _UUID.search(text)
                number = None if minor is None else int(minor[1])
                found.append(_Gpu(number, None if uuid is None else uuid[1].decode(), address.lower()))
        return tuple(found)


def numa_node(folder: Path) -> int | None:
    """None = the firmware does not say (-1), or the file is missing."""
    try:
        node = int(read_bytes(folder / "numa_node")[:8])
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _base_class(folder: Path) -> int | None:
    try:
        return int(read_bytes(folder / "class")[:16], 16) >> 16
    except (OSError, ValueError):
        return None


def _names(folder: Path) -> list[str]:
    """None where the folder is missing, or has gone."""
    try:
        return files.names(folder, MOST_DEVICES)
    except OSError:
        return []


def _interfaces(folder: Path) -> Iterator[str]:
    """Network interfaces of a device: below it, or below what virtio made of it."""
    yield from _names(folder / "net")
    for name in _names(folder):
        if name.startswith("virtio"):
            yield from _names(folder / name / "net")
