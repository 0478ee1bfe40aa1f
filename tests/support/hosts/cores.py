"""A host's files as far as they describe its cores and their PMU."""

from __future__ import annotations

from pathlib import Path

from numaudit.kernel.host import Host

NO_SUCH_PMU = 9999
"""A type that no PMU of any kernel has."""


def cpuinfo(model: int, flags: str = "fpu") -> str:
    """Of a Xeon of that model; 0x8f is Sapphire Rapids."""
    return f"vendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\nstepping : 8\nflags : {flags}\n"


def host_of(root: Path, text: str, pmu: int | None, nodes: int = 2) -> Host:
    """With that /proc/cpuinfo, and a PMU `cpu` of that type; None = without one."""
    files = {
        "sys/devices/system/node/online": f"0-{nodes - 1}\n",
        "sys/devices/system/cpu/online": f"0-{nodes - 1}\n",
        "proc/cpuinfo": text,
        "proc/sys/kernel/nmi_watchdog": "1\n",
    }
    if pmu is not None:
        files["sys/bus/event_source/devices/cpu/type"] = f"{pmu}\n"
    for number in range(nodes):
        folder = f"sys/devices/system/node/node{number}"
        files[f"{folder}/meminfo"] = f"Node {number} MemTotal:  1024 kB\n"
        files[f"{folder}/cpulist"] = f"{number}\n"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Host(root)
