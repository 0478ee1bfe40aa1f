"""The hardware's part of a capture: enough to support a CPU that numaudit does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numaudit.kernel.cores import event_sources
from numaudit.kernel.files import glob
from numaudit.kernel.host import Host

CPUINFO = "cpuinfo"
_PROC = ("sys/kernel/nmi_watchdog", "sys/kernel/perf_event_paranoid")
_PMU = ("type", "cpumask", "format/*", "events/*", "caps/*")
_FIRMWARE = ("sys_vendor", "product_name")
"""The other files there are serial numbers, or for root alone."""
_MONITORING = "fs/resctrl/info/L3_MON/*"
_SERIAL = b"Serial"


def files(host: Host) -> Iterator[Path]:
    """Whichever exist; CPUINFO is to be copied by `without_serial`."""
    yield from (host.proc / name for name in _PROC)
    for source in event_sources(host):
        for pattern in _PMU:
            yield from glob(source, pattern)
    yield from glob(host.cpus, "cpu[0-9]*/regs/identification/midr_el1")
    yield from (host.sys / "class/dmi/id" / name for name in _FIRMWARE)
    yield from glob(host.sys, _MONITORING)


def without_serial(cpuinfo: bytes) -> bytes:
    """/proc/cpuinfo of some boards has their serial number."""
    lines = cpuinfo.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(_SERIAL))
