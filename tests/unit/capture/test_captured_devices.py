"""A capture keeps what leads from containers to their PCI devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from hosts.node_tree import NodeTree
from hosts.sysfs_tree import SysfsTree
from numaudit.capture.archive import unpacked
from numaudit.capture.tree import capture
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.snapshot.processes import ContainerDevices

GPU, NIC, PASSED, HCA = "0000:3b:00.0", "0000:af:02.1", "0000:d8:00.0", "0000:5e:00.0"
OWN, HOSTS = 4026532000, 4026531840


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A container with a device by each way, and one without any."""
    root = tmp_path / "host"
    tree, sysfs = NodeTree(root), SysfsTree(root)
    pod = tree.pod("prod", "train-0")
    pid = tree.process_of(tree.container(pod, "train"))
    tree.container(pod, "idle")
    sysfs.pci(GPU, "030200", 1)
    sysfs.nvidia(GPU, 0)
    sysfs.pci(PASSED, "010802", -1)
    sysfs.iommu_group(12, (511, 0), PASSED)
    sysfs.pci(HCA, "020700", 0)
    sysfs.file("char", 231, 192, HCA, "infiniband_verbs/uverbs0")
    below = sysfs.pci(NIC, "020000", 0, driver="virtio-pci") / "virtio3"
    below.mkdir()
    bus = root / "sys/bus/virtio/devices"
    bus.mkdir(parents=True)
    (bus / "virtio3").symlink_to(os.path.relpath(below, bus))
    sysfs.interrupts(NIC, {38: "0", 39: "5"})
    (root / "proc/interrupts").write_text("   CPU0 CPU1\n 38: 1 2 PCI-MSIX eth\n 39: 0 0 PCI-MSIX eth\n")
    for numbers in ("char/195:0", "char/511:0", "char/231:192", "char/1:3"):
        sysfs.open(pid, numbers)
    sysfs.namespace(1, HOSTS)
    sysfs.namespace(pid, OWN)
    (root / "numaudit").mkdir()
    (root / f"numaudit/network-{OWN}.txt").write_text("net1 virtio virtio3\n")
    return Host(root)


def devices(host: Host) -> Mapping[str, ContainerDevices]:
    """By container."""
    observer = Observer.of(host)
    everyone = frozenset(one.id for one in observer.observe().containers)
    taken = observer.observe(devices=DeviceRequest(60.0, everyone))
    return {one.path: taken.devices[one.id] for one in taken.containers}


def test_the_copy_has_the_devices_of_the_host(host: Host, tmp_path: Path) -> None:
    there = devices(host)
    assert sorted(device.address for one in there.values() for device in one.items) == sorted((GPU, HCA, NIC, PASSED))
    capture(host, tmp_path / "copy")
    assert devices(Host.under(tmp_path / "copy")) == there


def test_an_archive_has_them_too_and_no_link_leads_out_of_it(host: Host, tmp_path: Path) -> None:
    capture(host, tmp_path / "copy.tar.xz")
    with unpacked(tmp_path / "copy.tar.xz") as tree:
        assert devices(Host.under(tree)) == devices(host)


def test_only_files_of_devices_are_kept_of_what_a_process_has_open(host: Host, tmp_path: Path) -> None:
    (pid,) = [file.parent.name for file in host.proc.glob("*/fd")]
    (host.proc / pid / "fd/99").symlink_to("/home/secret.txt")
    capture(host, tmp_path / "copy")
    kept = {os.readlink(one) for one in (tmp_path / "copy/proc" / pid / "fd").iterdir()}  # noqa: PTH115 (not there)
    assert kept == {f"../../../dev/char/{numbers}" for numbers in ("195:0", "511:0", "231:192")}
