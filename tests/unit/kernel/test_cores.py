"""What the kernel says of the cores and of their PMUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.pmu.choose import CorePmu
from numaudit.pmu.identity import CpuIdentity
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet

CPUINFO = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nstepping : 8\nflags : fpu{more}\n"


def _write(root: Path, files: dict[str, str]) -> Host:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Host(root)


def _machine(*sockets: int | None) -> Machine:
    nodes = (Node(0, CpuSet.parse("0-1"), 1 << 30), Node(1, CpuSet.parse("2"), 1 << 30), Node(2, memory=1 << 30))
    return Machine(nodes, tuple(Cpu(number, 0, socket) for number, socket in enumerate(sockets)))


def test_a_host_shows_its_cpu_and_the_pmus_of_its_cores_only(tmp_path: Path) -> None:
    devices = "sys/bus/event_source/devices"
    host = _write(
        tmp_path,
        {
            "proc/cpuinfo": CPUINFO.format(more=" hypervisor"),
            f"{devices}/cpu/type": "4\n",
            f"{devices}/cpu/events/mem-loads": "event=0xcd,umask=0x1,ldlat=3\n",
            f"{devices}/uncore_imc_0/type": "14\n",
            f"{devices}/software/type": "1\n",
            f"{devices}/armv8_pmuv3_0/type": "8\n",
            f"{devices}/armv8_pmuv3_0/events/remote_access": "event=0x0031\n",
        },
    )
    cores = read_cores(host, _machine(0, 0, 1))
    assert cores.cpus == (CpuIdentity("x86_64", "GenuineIntel", 6, 143, 8),)
    assert cores.pmus == (
        CorePmu("armv8_pmuv3_0", 8, frozenset({"remote_access"})),
        CorePmu("cpu", 4, frozenset({"mem-loads"})),
    )
    assert (cores.nodes, cores.sockets, cores.is_guest) == (2, 2, True)


def test_a_node_of_memory_alone_makes_no_cluster_of_a_socket(tmp_path: Path) -> None:
    """CXL or HBM beside two sockets: the events count neither as local nor as remote."""
    cores = read_cores(Host(tmp_path), _machine(0, 0, 1))
    assert (cores.nodes, cores.sockets, cores.has_clusters) == (2, 2, False)


@pytest.mark.parametrize("sockets", [(), (0, None)])
def test_sockets_that_the_kernel_does_not_tell_are_unknown(tmp_path: Path, sockets: tuple[int | None, ...]) -> None:
    assert read_cores(Host(tmp_path), _machine(*sockets)).sockets is None


def test_an_arm_machine_is_known_by_its_registers_too(tmp_path: Path) -> None:
    midr = "sys/devices/system/cpu/cpu{}/regs/identification/midr_el1"
    host = _write(tmp_path, {midr.format(number): "0x00000000413fd0c1\n" for number in range(2)})
    assert read_cores(host, _machine(0)).cpus == (CpuIdentity("aarch64", implementer=0x41, part=0xD0C),)


def test_a_host_that_shows_nothing_has_neither_cpu_nor_pmu(tmp_path: Path) -> None:
    cores = read_cores(Host(tmp_path), _machine(0))
    assert (cores.cpus, cores.pmus, cores.is_guest) == ((), (), False)
