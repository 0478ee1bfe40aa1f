"""Declarations of the processes of a container: values of one tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaudit.encoding.value import Value
from numaudit.ranks.declaration import Declaration

DeviceKind = Literal["gpu", "vfio", "infiniband", "network", "storage", "other"]
"""Kind of a PCI device: an accelerator, one that is passed through by VFIO, an adapter of InfiniBand or RoCE, another
network adapter, a disk or its controller, or another one."""
_IN_WORDS: Mapping[DeviceKind, str] = {
    "gpu": "GPU",
    "vfio": "VFIO device",
    "infiniband": "InfiniBand adapter",
    "network": "network adapter",
    "storage": "storage device",
    "other": "device",
}


class HeldDevice(Value, frozen=True):
    """A PCI device that a process has open."""

    kind: DeviceKind
    """gpu: an accelerator; vfio: a device that is passed through; infiniband: an adapter of InfiniBand or RoCE."""
    address: str
    """PCI address."""
    numa_node: int | None
    """null = the firmware does not say."""

    @property
    def in_words(self) -> str:
        """GPU 0000:3b:00.0, for people."""
        return f"{_IN_WORDS[self.kind]} {self.address}"


class ProcessTold(Value, frozen=True):
    """Declarations of one process, and its devices."""

    pid: int
    rank: int | None
    """Number in its job; null = its environment shows none, or may not be read."""
    declarations: tuple[Declaration, ...]
    """Of its memory and of its CPUs, or one of both; empty = none was found."""
    devices: tuple[HeldDevice, ...] = ()
    """Of a process with a declaration or a number."""
    unread: str | None = None
    """Reason why its environment was not read; null = it was."""
