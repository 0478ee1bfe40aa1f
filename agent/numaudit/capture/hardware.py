"""The hardware's part of a capture: enough to support a CPU that numaudit does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numaudit.kernel.files import glob
from numaudit.kernel.host import Host

CPUINFO = "cpuinfo"
PATTERNS = (
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/perf_event_paranoid",
    *(f"sys/bus/event_source/devices/*/{name}" for name in ("type", "cpumask", "format/*", "events/*", "caps/*")),
    "sys/devices/system/cpu/cpu[0-9]*/regs/identification/midr_el1",
    *(f"sys/class/dmi/id/{name}" for name in ("sys_vendor", "product_name")),  # others are serial numbers, or root's
)
"""Files of any host, below its root. CPUINFO is to be copied by `without_serial`."""
_SERIAL = b"Serial"


def files(host: Host) -> Iterator[Path]:
    """Whichever exist."""
    for pattern in PATTERNS:
        yield from glob(host.root, pattern)


def without_serial(cpuinfo: bytes) -> bytes:
    """/proc/cpuinfo of some boards has their serial number."""
    lines = cpuinfo.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(_SERIAL))
