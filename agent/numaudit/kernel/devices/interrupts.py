"""Message-signalled interrupts of a PCI device: on which CPUs they run, and how often each has fired since boot.

Source: Documentation/ABI/testing/sysfs-bus-pci (msi_irqs), Documentation/core-api/irq/irq-affinity.rst,
Documentation/filesystems/proc.rst (/proc/interrupts).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from numaudit.container_devices import Interrupts
from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes, read_text
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet

_MOST = 4096
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
            names = files.names(self._host.sys / "bus/pci/devices" / address / "msi_irqs", _MOST)
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
            return parse(read_bytes(self._host.proc / "interrupts", _LARGEST))
        except OSError:
            return {}


def parse(text: bytes) -> dict[int, int]:
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
