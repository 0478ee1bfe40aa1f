"""PCI devices by the numbers of their files, their plugins' names and interfaces, and their interrupts by node."""

from __future__ import annotations

import os
import pty
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.sysfs_tree import SysfsTree
from numaudit.kernel.devices import descriptors
from numaudit.kernel.devices.descriptors import captured_numbers, captured_target, open_files
from numaudit.kernel.devices.pci import FileNumbers, InterruptReader, PciDevices, parse_interrupts
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import syscall
from numaudit.ranks.declaration import HeldDevice
from numaudit.snapshot.processes import Interrupts
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

GPU, VF, DISK, ROOT_PORT = "0000:3b:00.0", "0000:af:02.1", "0000:d8:00.0", "0000:d7:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> SysfsTree:
    tree = SysfsTree(tmp_path)
    tree.pci(GPU, "030200", 1)
    tree.pci(VF, "020000", 0)
    tree.pci(DISK, "010802", -1)
    tree.pci(ROOT_PORT, "060400", 1)
    return tree


def char(major: int, minor: int) -> FileNumbers:
    return FileNumbers("char", major, minor)


def test_the_deepest_address_of_a_path_is_the_device(sysfs: SysfsTree) -> None:
    inner = sysfs.root / "sys/devices/pci0000:d7/0000:d7:00.0" / DISK / "nvme/nvme0"
    inner.mkdir(parents=True)
    folder = sysfs.root / "sys/dev/char"
    folder.mkdir(parents=True)
    (folder / "246:0").symlink_to(os.path.relpath(inner, folder))
    assert PciDevices(Host(sysfs.root)).of_file(char(246, 0)) == (HeldDevice("storage", DISK, None),)


def test_devices_of_use_are_adapters_accelerators_and_storage_by_address(sysfs: SysfsTree) -> None:
    sysfs.pci("0000:00:1f.0", "ff0000", 0)
    assert PciDevices(Host(sysfs.root)).of_use == (
        HeldDevice("gpu", GPU, 1), HeldDevice("network", VF, 0), HeldDevice("storage", DISK, None),
    )  # fmt: skip
    assert PciDevices(Host(sysfs.root / "nothing")).of_use == ()


def test_every_device_of_a_vfio_group_is_held_but_no_bridge(sysfs: SysfsTree) -> None:
    sysfs.iommu_group(7, (511, 3), ROOT_PORT, GPU, VF)
    found = PciDevices(Host(sysfs.root)).of_file(char(511, 3))
    assert found == (HeldDevice("vfio", GPU, 1), HeldDevice("vfio", VF, 0))


def test_a_device_of_vfio_has_a_file_of_its_own_on_newer_kernels(sysfs: SysfsTree) -> None:
    sysfs.file("char", 234, 0, VF, "vfio-dev/vfio0")
    assert PciDevices(Host(sysfs.root)).of_file(char(234, 0)) == (HeldDevice("vfio", VF, 0),)


def test_a_mediated_device_is_on_its_parent(sysfs: SysfsTree) -> None:
    sysfs.iommu_group(8, (511, 4))
    mediated = sysfs.root / "sys/devices/pci0000:00" / GPU / "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    mediated.mkdir()
    group = sysfs.root / "sys/kernel/iommu_groups/8/devices"
    group.mkdir(parents=True)
    (group / mediated.name).symlink_to(os.path.relpath(mediated, group))
    assert PciDevices(Host(sysfs.root)).of_file(char(511, 4)) == (HeldDevice("vfio", GPU, 1),)


@pytest.mark.parametrize(("id_", "address"), [(GPU, GPU), ("0000:3B:00.0", GPU), ("GPU-5a-7", GPU), (VF, VF)])
def test_a_plugin_names_a_device_by_its_address_or_nvidias_uuid(sysfs: SysfsTree, id_: str, address: str) -> None:
    sysfs.nvidia(GPU, 0, "GPU-5a-7")
    found = PciDevices(Host(sysfs.root)).of_id(id_)
    assert found is not None
    assert found.address == address


@pytest.mark.parametrize("id_", ["", "dev1", "../" + GPU, GPU + "/..", "0000:3b:00.9", "GPU-none", "0000:ff:00.0"])
def test_another_name_is_no_device(sysfs: SysfsTree, id_: str) -> None:
    sysfs.nvidia(GPU, 0)
    assert PciDevices(Host(sysfs.root)).of_id(id_) is None


def test_an_adapter_with_a_driver_and_without_an_interface_is_missing(sysfs: SysfsTree) -> None:
    sysfs.pci("0000:01:00.0", "020000", 0, driver="ice")
    sysfs.pci("0000:01:00.1", "020000", 0, driver="vfio-pci")
    (sysfs.pci("0000:01:00.2", "020000", 0, driver="ice") / "net/eth2").mkdir(parents=True)
    (sysfs.pci("0000:01:00.3", "020000", 0, driver="virtio-pci") / "virtio3/net/eth3").mkdir(parents=True)
    assert PciDevices(Host(sysfs.root)).missing_adapters == ("0000:01:00.0",)


@pytest.mark.parametrize(("bus", "name"), [("..", GPU), ("pci", ".."), ("pci/devices", GPU), ("", GPU), ("pci", "")])
def test_an_interface_of_a_hostile_parent_has_no_device(sysfs: SysfsTree, bus: str, name: str) -> None:
    assert PciDevices(Host(sysfs.root)).of_interface(bus, name) is None


def test_an_interface_of_virtio_is_that_of_its_pci_device(sysfs: SysfsTree) -> None:
    below = sysfs.root / "sys/devices/pci0000:00" / VF / "virtio3"
    below.mkdir()
    folder = sysfs.root / "sys/bus/virtio/devices"
    folder.mkdir(parents=True)
    (folder / "virtio3").symlink_to(os.path.relpath(below, folder))
    assert PciDevices(Host(sysfs.root)).of_interface("virtio", "virtio3") == HeldDevice("network", VF, 0)


def test_a_device_that_vanishes_meanwhile_is_none(sysfs: SysfsTree) -> None:
    sysfs.file("char", 246, 0, DISK, "nvme/nvme0")
    pci = PciDevices(Host(sysfs.root))
    assert pci.files == (char(246, 0),)
    shutil.rmtree(sysfs.root / "sys/devices/pci0000:00")
    assert PciDevices(Host(sysfs.root)).of_file(char(246, 0)) == ()
    assert pci.of_id(GPU) is None


def test_this_process_has_the_device_files_open_that_it_opened() -> None:
    main, terminal = pty.openpty()
    with open(main, "rb"), open(terminal, "rb"), Path("/dev/null").open("rb") as null:  # noqa: PTH123 (descriptors)
        opened = {FileNumbers("char", *_numbers_of(one)) for one in (main, null.fileno())}
        assert not opened & set(open_files(Host(), os.getpid())), "/dev/ptmx and /dev/null lead to no device"
    for name in ("/dev/fuse", "/dev/loop-control", "/dev/vga_arbiter", "/dev/kvm", "/dev/cpu_dma_latency"):
        with suppress(OSError), Path(name).open("rb") as file:
            assert FileNumbers("char", *_numbers_of(file.fileno())) in set(open_files(Host(), os.getpid()))
            return
    pytest.skip("no file of a device may be opened here")


def _numbers_of(descriptor: int) -> tuple[int, int]:
    device = os.fstat(descriptor).st_rdev
    return os.major(device), os.minor(device)


@pytest.mark.parametrize(
    ("target", "is_asked"),
    [
        ("/dev/nvidia0", True),
        ("/new/dev/vfio/12", True),
        ("/dev/nullblk0", True),
        ("/dev/null", False),
        ("/dev/pts/0", False),
        ("/dev/shm/x", False),
        ("/home/device", False),
        ("socket:[/dev/1]", False),
    ],
)
def test_only_files_below_dev_are_asked_for_their_numbers(
    target: str, is_asked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A runtime that moves its root instead of turning it leaves a path above /dev."""
    asked: list[str] = []
    monkeypatch.setattr(syscall, "call", lambda name, *arguments: asked.append(name))
    (tmp_path / "3").symlink_to(target)
    folder = os.open(tmp_path, os.O_RDONLY)
    descriptors._numbers(folder, "3", True)
    os.close(folder)
    assert asked == (["statx"] if is_asked else [])


@given(st.text(max_size=60) | st.from_regex(r"(\.\./){2,4}dev/(char|block|shm)/[0-9]{1,9}:[0-9]{0,9}", fullmatch=True))
def test_any_target_of_a_captured_descriptor_is_a_device_s_file_or_none(target: str) -> None:
    found = captured_numbers(target)
    assert found is None or target == captured_target(found) or "0" in target


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
