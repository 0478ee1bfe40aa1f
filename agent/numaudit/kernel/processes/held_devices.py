"""/proc/PID/fd: the accelerators and network adapters that a process has open, with their nodes.

The PCI device of a file: of NVIDIA's driver by `Device Minor` in /proc/driver/nvidia/gpus/ADDRESS/information, of VFIO
by /sys/kernel/iommu_groups/GROUP/devices, of others by their class in sysfs. Source: sysfs-bus-pci (numa_node).
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from numaudit.kernel.host import Host, read_bytes
from numaudit.ranks.told import HeldDevice

_MOST_FILES = 4096
"""Open files of a process that are looked at."""
_NVIDIA = re.compile(r"/dev/nvidia(\d{1,4})", re.ASCII)
_VFIO = re.compile(r"/dev/vfio/(\d{1,6})", re.ASCII)
_VERBS = re.compile(r"/dev/infiniband/(uverbs\d{1,4})", re.ASCII)
_RENDER = re.compile(r"/dev/dri/(renderD\d{1,4})", re.ASCII)
_MINOR = re.compile(rb"^Device Minor:\s*(\d{1,4})\s*$", re.MULTILINE)
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", re.ASCII)


class HeldDevices:
    """Of the processes of one tick."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._by_file: dict[str, HeldDevice | None] = {}
        self._nvidia: dict[int, str] | None = None

    def of(self, pid: int) -> tuple[HeldDevice, ...]:
        """Each device once. Raises OSError when the process has ended, or its files may not be seen."""
        found: dict[HeldDevice, None] = {}
        with os.scandir(f"{self._host.proc}/{pid}/fd") as entries:
            for entry in islice(entries, _MOST_FILES):
                try:
                    file = os.readlink(entry.path)  # noqa: PTH115 (thousands of files)
                except OSError:  # it was closed meanwhile
                    continue
                device = self._device(file) if file.startswith("/dev/") else None
                if device is not None:
                    found[device] = None
        return tuple(found)

    def _device(self, file: str) -> HeldDevice | None:
        if file not in self._by_file:
            self._by_file[file] = self._read(file)
        return self._by_file[file]

    def _read(self, file: str) -> HeldDevice | None:
        if match := _NVIDIA.fullmatch(file):
            address = self._of_nvidia().get(int(match[1]))
            folder = self._host.sys / "bus/pci/devices" / (address or "-")
            return None if address is None else HeldDevice("gpu", address, _node(folder))
        if match := _VFIO.fullmatch(file):
            return self._in_group(match[1])
        if match := _VERBS.fullmatch(file):
            return _of_class(self._host.sys / "class/infiniband_verbs" / match[1] / "device", "infiniband")
        if match := _RENDER.fullmatch(file):
            return _of_class(self._host.sys / "class/drm" / match[1] / "device", "gpu")
        return None

    def _of_nvidia(self) -> dict[int, str]:
        """Minor number -> PCI address."""
        if self._nvidia is None:
            self._nvidia = {}
            for file in sorted(self._host.proc.glob("driver/nvidia/gpus/*/information")):
                try:
                    minor = _MINOR.search(read_bytes(file))
                except OSError:
                    continue
                if minor is not None and _ADDRESS.fullmatch(file.parent.name):
                    self._nvidia[int(minor[1])] = file.parent.name
        return self._nvidia

    def _in_group(self, group: str) -> HeldDevice | None:
        folder = self._host.sys / "kernel/iommu_groups" / group / "devices"
        try:
            names = sorted(one.name for one in folder.iterdir() if _ADDRESS.fullmatch(one.name))
        except OSError:
            return None
        return HeldDevice("vfio", names[0], _node(folder / names[0])) if names else None


def _of_class(link: Path, kind: str) -> HeldDevice | None:
    """`link`: a device's folder by its class, which is a link to that of its PCI address."""
    address = link.resolve().name
    if not _ADDRESS.fullmatch(address):
        return None
    return HeldDevice("gpu" if kind == "gpu" else "infiniband", address, _node(link))


def _node(folder: Path) -> int | None:
    """None = the firmware does not say (-1), or the file is missing."""
    try:
        node = int(read_bytes(folder / "numa_node")[:8])
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
