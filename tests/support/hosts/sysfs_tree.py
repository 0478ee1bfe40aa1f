"""A made-up sysfs with PCI devices, and processes that have their files open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SysfsTree:
    """The tree of a host, with links where sysfs has links."""

    root: Path

    @property
    def devices(self) -> Path:
        return self.root / "sys/bus/pci/devices"

    def system(self, folder: str, files: Mapping[str, str]) -> None:
        """Files of a folder below devices/system, such as node/node0; a name that ends with a slash is a folder."""
        for name, text in files.items():
            path = self.root / "sys/devices/system" / folder / name
            (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                path.write_text(text)
        (self.root / "sys/devices/system" / folder).mkdir(parents=True, exist_ok=True)

    def pci(self, address: str, class_: str, node: int | None, driver: str = "") -> Path:
        """A device; `node` None = without numa_node, as before Linux 3.15 or without ACPI."""
        folder = self.root / "sys/devices/pci0000:00" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"0x{class_}\n")
        if node is not None:
            (folder / "numa_node").write_text(f"{node}\n")
        if driver:
            drivers = self.root / "sys/bus/pci/drivers" / driver
            drivers.mkdir(parents=True, exist_ok=True)
            _link(folder / "driver", drivers)
        _link(self.devices / address, folder)
        return folder

    def file(self, type_: str, major: int, minor: int, address: str, name: str) -> None:
        """A device's file, below its device."""
        below = self.root / "sys/devices/pci0000:00" / address / name
        below.mkdir(parents=True)
        _link(self.root / f"sys/dev/{type_}/{major}:{minor}", below)

    def iommu_group(self, group: int, file: tuple[int, int], *addresses: str) -> None:
        """A group of VFIO with its file."""
        virtual = self.root / f"sys/devices/virtual/vfio/{group}"
        virtual.mkdir(parents=True)
        _link(self.root / f"sys/dev/char/{file[0]}:{file[1]}", virtual)
        for address in addresses:
            folder = self.root / f"sys/kernel/iommu_groups/{group}/devices"
            _link(folder / address, self.root / "sys/devices/pci0000:00" / address)

    def nvidia(self, address: str, minor: int, uuid: str = "GPU-0") -> None:
        """What NVIDIA's driver says of a device."""
        folder = self.root / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t A100\nGPU UUID:\t {uuid}\nDevice Minor: \t {minor}\n")

    def open(self, pid: int, numbers: str) -> None:
        """Let a process have the file open, in a captured tree; such as char/195:1."""
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(len(list(folder.iterdir())))).symlink_to(f"../../../dev/{numbers}")

    def interrupts(self, address: str, cpus: Mapping[int, str]) -> None:
        """Message-signalled interrupts, each with the CPUs that handle it."""
        folder = self.root / "sys/devices/pci0000:00" / address / "msi_irqs"
        folder.mkdir(exist_ok=True)
        for number, where in cpus.items():
            (folder / str(number)).write_text("msix\n")
            irq = self.root / f"proc/irq/{number}"
            irq.mkdir(parents=True, exist_ok=True)
            (irq / "effective_affinity_list").write_text(f"{where}\n")

    def namespace(self, pid: int, number: int) -> None:
        """The network namespace of a process."""
        folder = self.root / f"proc/{pid}/ns"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "net").symlink_to(f"net:[{number}]")


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
