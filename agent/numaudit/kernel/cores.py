"""Cores of the CPU as the kernel reports them, and which of their PMUs it drives.

Sources: arch/*/kernel/cpu*.c (/proc/cpuinfo), arch/arm64/kernel/cpuinfo.c (midr_el1), and
Documentation/ABI/testing/sysfs-bus-event_source-devices*.
"""

from __future__ import annotations

import re
from pathlib import Path

from numaudit.kernel import files
from numaudit.kernel.host import Host, number_at, text_at
from numaudit.pmu.choose import CorePmu, Cores
from numaudit.pmu.identity import CpuIdentity, MachineKind, is_guest, parse_cpuinfo, parse_midr
from numaudit.topology.machine import Machine

_CORE_PMU = re.compile(r"cpu|cpu_core|cpu_atom|cpu_lowpower|armv[89]_\w{1,40}", re.ASCII)
_LARGEST_CPUINFO = 64 << 20
"""Bytes. Thousands of CPUs make several MB."""


def read_cores(host: Host, machine: Machine) -> Cores:
    """Facts about the cores before an event is opened. What cannot be read is absent."""
    cpuinfo = text_at(host.proc / "cpuinfo", _LARGEST_CPUINFO) or ""
    dmi = host.sys / "class/dmi/id"
    sockets = {cpu.socket for cpu in machine.cpus}
    return Cores(
        cpus=parse_cpuinfo(cpuinfo) or _by_midr(host),
        pmus=core_pmus(host),
        nodes=len(machine.with_cpus | machine.without_cpu_list),
        sockets=None if None in sockets or not sockets else len(sockets),
        is_guest=is_guest(cpuinfo),
        kind=MachineKind(text_at(dmi / "sys_vendor") or None, text_at(dmi / "product_name") or None),
        nmi_watchdog={"0": False, "1": True}.get(text_at(host.proc / "sys/kernel/nmi_watchdog") or ""),
    )


def core_pmus(host: Host) -> tuple[CorePmu, ...]:
    """The PMUs of cores, by name; those of sockets and devices are left out."""
    return tuple(
        CorePmu(folder.name, kind, frozenset(_names(folder / "events")))
        for folder in event_sources(host)
        if _CORE_PMU.fullmatch(folder.name) and (kind := number_at(folder / "type")) is not None
    )


def event_sources(host: Host) -> tuple[Path, ...]:
    """The folder of each PMU that the kernel drives, by name: of cores, sockets, devices and software."""
    folder = host.sys / "bus/event_source/devices"
    return tuple(folder / name for name in _names(folder))


def cores_hertz(host: Host) -> float | None:
    """The clock for which the cores are rated, of the first CPU that says; None = none does.

    Source: Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst (kHz).
    """
    for name in ("base_frequency", "cpuinfo_max_freq"):
        for file in files.glob(host.cpus, f"cpu[0-9]*/cpufreq/{name}"):
            if (khz := number_at(file)) is not None:
                return khz * 1e3
    return None


def _by_midr(host: Host) -> tuple[CpuIdentity, ...]:
    registers = files.glob(host.cpus, "cpu[0-9]*/regs/identification/midr_el1")
    found = (parse_midr(text) for file in registers if (text := text_at(file)) is not None)
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(files.names(folder))
    except OSError:
        return []
