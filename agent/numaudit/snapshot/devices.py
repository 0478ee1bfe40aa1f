"""PCI devices of a container: what leads to each, and where its interrupts run. Values of a tick; None = not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaudit.encoding.value import Value
from numaudit.ranks.told import HeldDevice

HeldBy = Literal["descriptor", "network-namespace", "device-list"]


class Interrupts(Value, frozen=True):
    """Message-signalled interrupts of a device."""

    interrupts: int
    """Number of them."""
    by_node: Mapping[int, int]
    """Number of those that run on each node; those that run on CPUs of several nodes are left out."""
    fired_by_node: Mapping[int, int]
    """Number of these that have fired since boot."""


class ContainerDevice(HeldDevice, frozen=True):
    """A PCI device of a container."""

    held_by: tuple[HeldBy, ...]
    """descriptor: a process has a file of it open; network-namespace: its interface is in the container's namespace;
    device-list: the cgroup lets its file be opened, and not every file."""
    interfaces: tuple[str, ...] = ()
    """Names of its network interfaces in the container's namespace."""
    interrupts: Interrupts | None = None
    """null = it has none that are message-signalled."""

    @property
    def title(self) -> str:
        """network adapter 0000:3b:02.1 (net1), for people."""
        names = f" ({', '.join(self.interfaces)})" if self.interfaces else ""
        return f"{self.in_words}{names}"


class UnreadDevices(Value, frozen=True):
    """A way to devices that could not be followed."""

    what: HeldBy
    """The way, as `heldBy` has it."""
    reason: str
    """Reason, in words."""


class ContainerDevices(Value, frozen=True):
    """The PCI devices of one container."""

    items: tuple[ContainerDevice, ...]
    """By their addresses."""
    unread: tuple[UnreadDevices, ...]
    """Ways that could not be followed; empty = there are no more devices."""
    promised: Mapping[str, HeldDevice]
    """The device plugin's name of a device (a PCI address, or NVIDIA's UUID) -> the device, where sysfs knows it."""
