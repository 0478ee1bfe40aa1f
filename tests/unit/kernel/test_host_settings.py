"""Settings of the kernel and facts of the firmware, read from a made-up host."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaudit.capture.tree import capture
from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.host_settings import numa_words, parse_zoneinfo, read_host_settings, without_secrets
from numaudit.snapshot.host_settings import HostSettings, Zone
from numaudit.topology.nodeset import CpuSet

ZONEINFO = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 133719
  pages free     3840
        boost    0
        min      14
        low      17
        high     20
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 17099)
  pagesets
    cpu: 0
              count:    0
              high:     0
              min: 99
Node 0, zone    DMA32
  pages free     11
        min      2980
        high     4000
        managed  772915
        protection: (0, 0, 14080)
Node 0, zone  Movable
  pages free     0
        min      0
        managed  0
        protection: (0, 0, 0)
Node 1, zone   Normal
        min      13900
        managed  3604480
        protection: (0, 0, 0)
"""
FILES = {
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda password=hunter2 numa=fake=4 isolcpus=2-3 quiet\n",
    "proc/version": "Linux version 6.12.9-amd64 (someone@somewhere)\n",
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor\n",
    "proc/zoneinfo": ZONEINFO,
    "proc/sys/vm/numa_stat": "0\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer [defer+madvise] madvise never\n",
    "sys/devices/system/cpu/isolated": "2-3\n",
    "sys/devices/system/cpu/present": "0-7\n",
    "sys/firmware/acpi/tables/SRAT": "",
    "sys/firmware/acpi/tables/SSDT12": "",
    "sys/firmware/acpi/tables/data/BERT": "",
    "sys/bus/pci/devices/0000:3b:00.0/class": "0x020000\n",
    "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
    "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "host" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "host"


def read(tree: Path) -> HostSettings:
    return read_host_settings(Host.under(tree))


def test_every_setting_of_a_host_is_read(tree: Path) -> None:
    found = read(tree)
    assert found.unread == {}
    assert found.kernel == (6, 12)
    assert found.command_line == ("numa=fake=4", "isolcpus=2-3")
    assert found.sysctls == {"vm.numa_stat": 0, "kernel.numa_balancing": 1}
    assert (found.huge_pages, found.defrag) == ("madvise", "defer+madvise")
    assert found.isolated_cpus == CpuSet.of(2, 3)
    assert found.present_cpus == CpuSet.from_ids(range(8))
    assert found.acpi_tables == frozenset({"SRAT", "SSDT"})
    assert found.is_guest is True
    assert [(one.kind, one.address, one.numa_node) for one in found.devices or ()] == [("network", "0000:3b:00.0", 1)]


def test_a_zone_without_pages_is_left_out_and_queues_of_cpus_are_no_watermarks() -> None:
    assert parse_zoneinfo(ZONEINFO) == {
        0: (Zone("DMA", 3840, 14, (0, 3019, 17099)), Zone("DMA32", 772915, 2980, (0, 0, 14080))),
        1: (Zone("Normal", 3604480, 13900, (0, 0, 0)),),
    }


def test_what_fragmentation_adds_to_the_watermark_for_a_while_is_not_kept() -> None:
    raised = ZONEINFO.replace("boost    0", "boost    9", 1)
    assert parse_zoneinfo(raised)[0][0].min == parse_zoneinfo(ZONEINFO)[0][0].min - 9


def test_a_zone_without_a_watermark_is_not_guessed() -> None:
    with pytest.raises(ParseError, match="zone Normal of node 1 has no min watermark"):
        parse_zoneinfo("Node 1, zone   Normal\n        managed  3604480\n")


def test_a_file_that_is_not_understood_is_unread_and_the_others_are_read(tree: Path) -> None:
    (tree / "sys/devices/system/cpu/isolated").write_text("all\n")
    found = read(tree)
    assert "all" in found.unread["isolated_cpus"]
    assert (found.isolated_cpus, found.kernel) == (None, (6, 12))


def test_the_screen_of_a_management_controller_is_no_gpu_and_an_accelerator_is(tree: Path) -> None:
    for address, class_ in (("0000:03:00.0", "0x030000"), ("0000:04:00.0", "0x030200"), ("0000:05:00.0", "0x120000")):
        folder = tree / "sys/bus/pci/devices" / address
        folder.mkdir()
        (folder / "class").write_text(f"{class_}\n")
        (folder / "numa_node").write_text("0\n")
    gpus = [one.address for one in read(tree).devices or () if one.kind == "gpu"]
    assert gpus == ["0000:04:00.0", "0000:05:00.0"]


def test_a_capture_has_the_same_settings_and_no_secret(tree: Path, tmp_path: Path) -> None:
    (tree / "proc/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (tree / "sys/fs/cgroup").mkdir(parents=True)
    (tree / "sys/firmware/acpi/tables/SRAT").write_text("content")
    capture(Host.under(tree), tmp_path / "copy")
    assert read(tmp_path / "copy") == read(tree)
    assert (tmp_path / "copy/proc/cmdline").read_text() == "numa=fake=4 isolcpus=2-3\n"
    assert (tmp_path / "copy/sys/firmware/acpi/tables/SRAT").read_text() == ""


def test_a_capture_from_before_has_only_what_it_always_had(tree: Path) -> None:
    (tree / "proc/cmdline").unlink()
    found = read(tree)
    assert (found.kernel, found.is_guest, len(found.devices or ())) == ((6, 12), True, 1)
    assert (found.zones, found.sysctls, found.acpi_tables) == (None, {}, None)
    assert "was not captured" in found.unread["zones"]


def test_parameters_that_may_hold_secrets_are_dropped() -> None:
    line = "root=UUID=1 ip=10.0.0.1 numa=off numa_secret=x acpi=off hugepages=0:4,1:4 mem=4G systemd.setenv=TOKEN=1"
    assert numa_words(line) == ("numa=off", "acpi=off", "hugepages=0:4,1:4", "mem=4G")
    assert without_secrets(line.encode()) == b"numa=off acpi=off hugepages=0:4,1:4 mem=4G\n"
