"""A capture takes what is needed to support a CPU that numaudit does not know."""

from __future__ import annotations

from pathlib import Path

from numaudit.capture.tree import capture
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine

DEVICES = "sys/bus/event_source/devices"
FILES = {
    "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nSerial\t\t: 10000000abcdef\n",
    "proc/sys/kernel/nmi_watchdog": "1\n",
    "proc/sys/kernel/perf_event_paranoid": "2\n",
    "sys/devices/system/node/online": "0\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  1024 kB\n",
    "sys/devices/system/cpu/online": "0\n",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0\n",
    "sys/devices/system/cpu/cpu0/regs/identification/midr_el1": "0x00000000413fd0c1\n",
    "sys/devices/armv8_pmuv3_0/type": "8\n",
    "sys/devices/armv8_pmuv3_0/format/event": "config:0-15\n",
    "sys/devices/armv8_pmuv3_0/events/remote_access": "event=0x0031\n",
    "sys/devices/armv8_pmuv3_0/cpumask": "0\n",
    "sys/devices/armv8_pmuv3_0/caps/slots": "0x00000008\n",
    "sys/devices/armv8_pmuv3_0/power/control": "auto\n",
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "m6g.metal\n",
    "sys/class/dmi/id/product_serial": "ec2-secret\n",
}


def _host(root: Path) -> Host:
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / DEVICES).mkdir(parents=True)
    (root / DEVICES / "armv8_pmuv3_0").symlink_to("../../../devices/armv8_pmuv3_0")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    return Host(root)


def test_the_copy_knows_the_cpu_and_its_pmu_as_the_host_does(tmp_path: Path) -> None:
    host = _host(tmp_path / "host")
    capture(host, tmp_path / "copy")
    copy = Host.under(tmp_path / "copy")
    cores = read_cores(copy, read_machine(copy))
    assert cores == read_cores(host, read_machine(host))
    assert [pmu.events for pmu in cores.pmus] == [frozenset({"remote_access"})]
    assert (str(cores.kind), cores.nmi_watchdog) == ("Amazon EC2 m6g.metal", True)


def test_the_copy_has_each_file_that_a_row_of_the_table_of_families_needs(tmp_path: Path) -> None:
    capture(_host(tmp_path / "host"), tmp_path / "copy")
    pmu = tmp_path / "copy" / DEVICES / "armv8_pmuv3_0"
    found = {str(file.relative_to(pmu)) for file in pmu.rglob("*") if file.is_file()}
    assert found == {"type", "format/event", "events/remote_access", "cpumask", "caps/slots"}
    for name in ("regs/identification/midr_el1", "topology/physical_package_id"):
        assert (tmp_path / "copy/sys/devices/system/cpu/cpu0" / name).is_file()
    assert (tmp_path / "copy/proc/sys/kernel/perf_event_paranoid").read_text() == "2\n"


def test_the_copy_has_no_serial_number(tmp_path: Path) -> None:
    capture(_host(tmp_path / "host"), tmp_path / "copy")
    texts = [file.read_text() for file in (tmp_path / "copy").rglob("*") if file.is_file()]
    assert texts
    assert not any("abcdef" in text or "secret" in text for text in texts)
