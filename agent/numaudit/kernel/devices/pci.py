"""/sys/bus/pci/devices: the PCI devices of the host, their nodes, the device nodes that lead to them, and their
message-signalled interrupts: on which CPUs they run, and how often each has fired since boot.

The deepest PCI address in the path of a device in sysfs is that of its function. NVIDIA's driver has no files in sysfs:
those are found by `Device Minor` in /proc/driver/nvidia/gpus/ADDRESS/information. Source: sysfs-bus-pci (numa_node,
msi_irqs), Documentation/core-api/irq/irq-affinity.rst, Documentation/filesystems/proc.rst (/proc/interrupts).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes, read_text
from numaudit.ranks.declaration import DeviceKind, HeldDevice
from numaudit.snapshot.processes import Interrupts
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet

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
_VGA = 0x0300
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

    def all(self) -> Iterator[HeldDevice]:
        """Each network and storage device, GPU or accelerator. Raises OSError.

        A VGA-compatible one is left out: on a server it is the management controller's screen.
        """
        for address in sorted(files.names(self._folder, MOST_DEVICES)):
            folder = self._folder / address
            if ADDRESS.fullmatch(address) and _base_class(folder) in _KINDS and _class(folder) != _VGA:
                device = self.at(address, "")
                if device is not None:
                    yield device

    def behind(self, path: str) -> HeldDevice | None:
        """The device whose address is the deepest in a path of sysfs."""
        found = ADDRESS.findall(path)
        return self.at(found[-1], path) if found else None

    @cached_property
    def of_use(self) -> tuple[HeldDevice, ...]:
        """Network adapters, accelerators and storage, by address."""
        found = (self.at(address, "") for address in _names(self._folder) if ADDRESS.fullmatch(address))
        return tuple(sorted((one for one in found if one and one.kind != "other"), key=lambda one: one.address))

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
    found = _class(folder)
    return None if found is None else found >> 8


def _class(folder: Path) -> int | None:
    """With the subclass."""
    try:
        return int(read_bytes(folder / "class")[:16], 16) >> 8
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


_MOST_INTERRUPTS = 4096
"""Interrupts of one device."""
_LARGEST = 64 << 20


class InterruptReader:
    """Those of one tick; /proc/interrupts is read once, and only where a device has some."""

    def __init__(self, host: Host, machine: Machine) -> None:
        self._host, self._machine = host, machine

    def of(self, address: str) -> Interrupts | None:
        """By node. None = the device has none, or it is gone."""
        numbers = self._numbers(address)
        by_node: dict[int, int] = {}
        fired: dict[int, int] = {}
        for number in numbers:
            cpus = self._cpus(number)
            nodes = None if cpus is None else self._machine.nodes_of_cpus(cpus)
            if nodes is None or len(nodes) != 1:  # it may run on several, or that is not known
                continue
            (node,) = nodes
            by_node[node] = by_node.get(node, 0) + 1
            if self._fired.get(number):
                fired[node] = fired.get(node, 0) + 1
        return Interrupts(len(numbers), by_node, fired) if numbers else None

    def _numbers(self, address: str) -> list[int]:
        try:
            names = files.names(self._host.sys / "bus/pci/devices" / address / "msi_irqs", _MOST_INTERRUPTS)
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)

    def _cpus(self, number: int) -> CpuSet | None:
        """The CPUs that really handle it; before Linux 4.15, or where the controller does not say, those that may."""
        for name in ("effective_affinity_list", "smp_affinity_list"):
            try:
                cpus = CpuSet.parse(read_text(self._host.proc / "irq" / str(number) / name))
            except (OSError, ParseError):
                continue
            if cpus:
                return cpus
        return None

    @cached_property
    def _fired(self) -> Mapping[int, int]:
        try:
            return parse_interrupts(read_bytes(self._host.proc / "interrupts", _LARGEST))
        except OSError:
            return {}


def parse_interrupts(text: bytes) -> dict[int, int]:
    """Number of an interrupt -> how often it has fired since boot, on all CPUs."""
    lines = text.split(b"\n")
    cpus = len(lines[0].split())
    found: dict[int, int] = {}
    for line in lines[1:]:
        name, _, rest = line.partition(b":")
        name = name.strip()
        if name.isdigit() and len(name) < 10:
            counts = rest.split(maxsplit=cpus)[:cpus]
            if len(counts) == cpus and all(map(bytes.isdigit, counts)):
                found[int(name)] = sum(map(int, counts))
    return found
