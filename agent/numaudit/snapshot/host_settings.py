"""Settings of the kernel, and facts of firmware and hypervisor, that decide whether a promise of memory can hold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from numaudit.ranks.declaration import HeldDevice
from numaudit.topology.nodeset import CpuSet


class Zone(Struct, frozen=True):
    """One memory zone of a node, in pages.

    Source: mm/vmstat.c (zoneinfo_show_print), Documentation/admin-guide/sysctl/vm.rst (lowmem_reserve_ratio).
    """

    name: str
    """DMA, DMA32, Normal, Movable, ..."""
    managed: int
    """Pages that the kernel hands out."""
    min: int
    """The min watermark: of the last free pages that only the kernel's own needs may take. Without what fragmentation
    adds to it for a while (watermark_boost)."""
    protection: tuple[int, ...] = ()
    """lowmem_reserve, by the zone that an allocation was meant for, in the kernel's order of zones."""


class HostSettings(Struct, frozen=True):
    """What is set on one host. None = this kernel or machine does not have it, or `unread` says why it is not known."""

    unread: Mapping[str, str] = field(default_factory=dict)
    """Field of this class -> why it could not be read."""
    kernel: tuple[int, int] | None = None
    """(6, 12)"""
    release: str | None = None
    """The same kernel in full: 6.12.117-amd64."""
    command_line: tuple[str, ...] | None = None
    """The kernel's parameters about NUMA, memory and CPUs, such as numa=off; all others are dropped: they may hold
    secrets."""
    zones: Mapping[int, tuple[Zone, ...]] | None = None
    """By node."""
    sysctls: Mapping[str, int] = field(default_factory=dict)
    """Name (vm.numa_stat) -> value; what the kernel does not have is missing."""
    huge_pages: str | None = None
    """The mode of transparent huge pages in force: always, madvise or never."""
    defrag: str | None = None
    """Their mode of making room: always, defer, defer+madvise, madvise or never."""
    isolated_cpus: CpuSet | None = None
    present_cpus: CpuSet | None = None
    """Those that are online or could be."""
    acpi_tables: frozenset[str] | None = None
    """Signatures: SRAT, SLIT, HMAT, ..."""
    is_guest: bool | None = None
    """Has the CPU the flag of a hypervisor? None = the CPU does not say (not x86)."""
    devices: tuple[HeldDevice, ...] | None = None
    """PCI devices for networks, storage and acceleration."""

    def sysctl(self, name: str) -> int | None:
        """None = this kernel has none of that name, or it is not known."""
        return self.sysctls.get(name)
