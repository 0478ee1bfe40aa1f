"""Interrupts of a device by node: /proc/interrupts, msi_irqs and the CPUs that handle each."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hosts.sysfs_tree import SysfsTree
from numaudit.kernel.devices.pci import InterruptReader, parse_interrupts
from numaudit.kernel.host import Host
from numaudit.snapshot.devices import Interrupts
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

NIC = "0000:31:00.0"
MACHINE = Machine((Node(0, CpuSet.parse("0")), Node(1, CpuSet.parse("1"))))
TEXT = b"""\
           CPU0       CPU1
  4:          2          0   IO-APIC   4-edge      ttyS0
 37:          0          0  PCI-MSIX-0000:31:00.0   0-edge      virtio1-config
 38:         12          5  PCI-MSIX-0000:31:00.0   1-edge      virtio1-input.0
 39:          0        700  PCI-MSIX-0000:31:00.0   2-edge      virtio1-output.0
NMI:          0          0   Non-maskable interrupts
ERR:          0
"""


def test_counts_of_all_cpus_are_added_up() -> None:
    assert parse_interrupts(TEXT) == {4: 2, 37: 0, 38: 17, 39: 700}


def test_a_name_of_digits_is_no_count() -> None:
    assert parse_interrupts(b"  CPU0\n 9: 3 7 acpi\n 10: x 1\n 11:\n") == {9: 3}


@given(st.binary(max_size=200))
def test_any_file_of_interrupts_is_read(text: bytes) -> None:
    assert all(count >= 0 for count in parse_interrupts(b"   CPU0  CPU1\n" + text).values())


def read(root: Path) -> Interrupts | None:
    return InterruptReader(Host(root), MACHINE).of(NIC)


def test_interrupts_are_counted_by_the_node_of_the_cpu_that_handles_them(tmp_path: Path) -> None:
    sysfs = SysfsTree(tmp_path)
    sysfs.pci(NIC, "020000", 1)
    sysfs.interrupts(NIC, {37: "1", 38: "0", 39: "0-1", 40: "", 41: "rubbish"})
    (tmp_path / "proc/interrupts").write_bytes(TEXT)
    assert read(tmp_path) == Interrupts(5, {0: 1, 1: 1}, {0: 1})


def test_where_the_controller_does_not_say_the_allowed_cpus_count(tmp_path: Path) -> None:
    sysfs = SysfsTree(tmp_path)
    sysfs.pci(NIC, "020000", 1)
    sysfs.interrupts(NIC, {38: ""})
    (tmp_path / "proc/irq/38/smp_affinity_list").write_text("0\n")
    assert read(tmp_path) == Interrupts(1, {0: 1}, {})


def test_a_device_without_interrupts_or_that_is_gone_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    SysfsTree(tmp_path).pci(NIC, "020000", 1)
    assert read(tmp_path) is None
