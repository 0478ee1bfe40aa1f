"""The hardware in a capture: enough to support a CPU that numaudit does not know, PCI devices with their interrupts,
and what leads from processes to them.

Where sysfs and procfs have links a capture has links too, but none that lead out of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

from numaudit.errors import Unavailable
from numaudit.kernel.devices import network
from numaudit.kernel.devices.descriptors import captured_target, open_files
from numaudit.kernel.devices.pci import ADDRESS, FileNumbers, PciDevices
from numaudit.kernel.files import glob, is_link, real_path
from numaudit.kernel.host import Host

CPUINFO = "cpuinfo"
PATTERNS = (
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/perf_event_paranoid",
    *(f"sys/bus/event_source/devices/*/{name}" for name in ("type", "cpumask", "format/*", "events/*", "caps/*")),
    "sys/devices/system/cpu/cpu[0-9]*/regs/identification/midr_el1",
    *(f"sys/class/dmi/id/{name}" for name in ("sys_vendor", "product_name")),  # others are serial numbers, or root's
)
"""Files of any host, below its root. CPUINFO is to be copied by `without_serial`."""
_SERIAL = b"Serial"
_PCI = "sys/bus/pci/devices"
_INIT = 1
_FILES = ("class", "numa_node", "msi_irqs/*")
_IRQ = ("effective_affinity_list", "smp_affinity_list")


class Link(NamedTuple):
    """A link of the capture."""

    path: PurePath
    target: str
    """Relative to the link's folder."""


def files(host: Host) -> Iterator[Path]:
    """Whichever exist."""
    for pattern in PATTERNS:
        yield from glob(host.root, pattern)
    folder = host.root / _PCI
    interrupts = set()
    for device in glob(folder, "*"):
        for pattern in _FILES:
            yield from glob(device, pattern)
        interrupts |= {file.name for file in glob(device, "msi_irqs/*")}
    for number in sorted(interrupts):
        yield from (host.proc / "irq" / number / name for name in _IRQ)
    if interrupts:
        yield host.proc / "interrupts"
    yield from glob(host.proc, "driver/nvidia/gpus/*/information")


def without_serial(cpuinfo: bytes) -> bytes:
    """/proc/cpuinfo of some boards has their serial number."""
    lines = cpuinfo.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(_SERIAL))


@dataclass(slots=True)
class CapturedWays:
    """Links and texts that lead to the devices of a running host."""

    host: Host
    texts: dict[PurePath, str] = field(default_factory=dict)
    _files: dict[FileNumbers, None] = field(default_factory=dict)
    """Files that some process has open."""
    _pci: PciDevices = field(init=False)

    def __post_init__(self) -> None:
        self._pci = PciDevices(self.host)

    def links(self) -> Iterator[Link]:
        """Of the processes first; a process that has ended, or may not be looked at, has none."""
        for process in glob(self.host.proc, "[0-9]*"):
            try:
                yield from self._of_process(int(process.name))
            except (OSError, ValueError):
                continue
        for numbers in self._files:
            name = PurePath(f"sys/dev/{numbers.type}/{numbers.major}:{numbers.minor}")
            yield from self._resolved(name)
        for device in glob(self.host.sys, "kernel/iommu_groups/*/devices/*"):
            yield from self._resolved(PurePath("sys", *device.relative_to(self.host.sys).parts))

    def _of_process(self, pid: int) -> Iterator[Link]:
        """Raises OSError."""
        if self._pci.missing_adapters:
            number = network.namespace(self.host, pid)
            if pid == _INIT or number != network.namespace(self.host, _INIT):
                yield Link(PurePath(f"proc/{pid}/ns/net"), f"net:[{number}]")
                yield from self._namespace(pid, number)
        for position, numbers in enumerate(open_files(self.host, pid)):
            if self._pci.of_file(numbers):
                self._files[numbers] = None
                yield Link(PurePath(f"proc/{pid}/fd/{position}"), captured_target(numbers))

    def _namespace(self, pid: int, number: int) -> Iterator[Link]:
        """The text of its interfaces, and links to their devices."""
        file = network.captured_file(number)
        if pid == _INIT or file in self.texts:
            return
        try:
            found = network.interfaces(self.host, pid, number)
        except (OSError, Unavailable):  # the reader of the capture says that it is not there
            return
        self.texts[file] = network.as_text(found)
        for one in found:
            if one.bus != "pci":
                yield from self._resolved(PurePath(f"sys/bus/{one.bus}/devices/{one.device}"))

    def _resolved(self, link: PurePath) -> Iterator[Link]:
        """A link of sysfs, through the folder that the capture has for its PCI device, if it has one."""
        if not is_link(self.host.root / link):  # as for a file of NVIDIA's driver
            return
        path = real_path(self.host.root / link)
        addresses = list(ADDRESS.finditer(path))
        if addresses:
            inside = f"{_PCI}/{path[addresses[-1].start() :]}"
        elif path.startswith(f"{real_path(self.host.sys)}/"):
            inside = f"sys/{path.removeprefix(f'{real_path(self.host.sys)}/')}"
        else:
            return
        yield Link(link, os.path.relpath(inside, link.parent))
