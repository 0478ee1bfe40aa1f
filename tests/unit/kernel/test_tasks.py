"""What a process is, where it may run, and what the kernel says of cores and their PMUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.tasks import (
    Placing,
    ProcessMemory,
    parse_memory,
    parse_placing,
    parse_task,
    read_memory,
)
from numaudit.pmu.choose import CorePmu
from numaudit.pmu.identity import CpuIdentity
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet


def line(start: int, name: bytes = b"a) S 1 (b") -> bytes:
    """One line of /proc/PID/stat."""
    return b"1 (%s) S %s0 0 0 0 20 0 1 0 %d 9 9 %s\n" % (name, b"1 " * 10, start, b"1 " * 16)


def test_the_kernels_own_line_is_read() -> None:
    found = parse_task(Path("/proc/self/stat").read_bytes())
    assert found.started > 0
    assert found.state == "R"


@given(st.binary(max_size=15), st.integers(0, 10**9))
def test_any_name_leaves_the_fields_as_they_are(name: bytes, start: int) -> None:
    stat = line(start, name.replace(b"\n", b"?"))
    found = parse_task(stat)
    assert (found.name, found.state, found.started) == (name.replace(b"\n", b"?"), "S", start)


def test_a_task_has_its_parent_its_time_and_the_cpu_it_ran_on_last() -> None:
    line = b"7 (a) S 1) R 3 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 4242 %s17 6 0 0\n" % (b"1 " * 15)
    assert parse_task(line) == (b"a) S 1", "R", 3, 200, 4242, 6)


@given(st.binary(max_size=200))
def test_any_other_task_is_refused_or_read(text: bytes) -> None:
    try:
        parse_task(text)
    except (IndexError, ValueError):
        return


STATUS = b"Name:\tRssAnon:\nVmRSS:\t   41620 kB\nRssAnon:\t   31496 kB\nRssFile:\t    8076 kB\nRssShmem:\t 2048 kB\n"


def test_sizes_are_bytes() -> None:
    assert parse_memory(STATUS) == ProcessMemory(31496 << 10, 8076 << 10, 2 << 20)


def test_the_kernels_own_text_is_read() -> None:
    sizes = read_memory(Host(), os.getpid())
    assert sizes.anon > 0
    assert sizes.file > 0


def test_a_kernel_thread_has_no_sizes() -> None:
    with pytest.raises(ParseError, match="RssAnon"):
        parse_memory(b"Name:\tkthreadd\nState:\tS (sleeping)\n")


@given(st.binary(max_size=200))
def test_any_other_text_is_refused_or_read(text: bytes) -> None:
    try:
        assert min(parse_memory(text)) >= 0
    except ParseError as error:
        assert "RssAnon" in str(error)


def test_a_process_that_has_ended_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="status"):
        read_memory(Host(), 1 << 22)


PLACING = (
    b"Name:\tSeccomp:\nNSpid:\t812\t7\t1\nThreads:\t33\nCapEff:\t00000000a80425fb\nSeccomp:\t2\nSeccomp_filters:\t1\n"
    b"Cpus_allowed:\tf0\nCpus_allowed_list:\t4-7\nMems_allowed_list:\t0-1\n"
)


def test_a_thread_has_its_affinity_its_nodes_and_what_it_may_change() -> None:
    found = parse_placing(PLACING)
    assert found == Placing(CpuSet.parse("4-7"), NodeSet.of(0, 1), 2, False, 33, (812, 7, 1))
    assert parse_placing(b"CapEff:\t000001ffffffffff\n").sys_nice


def test_what_a_kernel_does_not_show_is_none() -> None:
    assert parse_placing(b"Name:\tx\nThreads:\t1\n") == Placing(None, None, None, None, 1, ())


@given(st.binary(max_size=80), st.sampled_from([b"Seccomp", b"CapEff", b"NSpid", b"Cpus_allowed_list", b"Threads"]))
def test_any_figure_that_is_none_is_refused_or_read(text: bytes, field: bytes) -> None:
    try:
        parse_placing(field + b":\t" + text + b"\n")
    except ParseError:
        return


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
