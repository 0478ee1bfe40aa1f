"""/proc/cpuinfo: which CPU this is.

Source: the kernel's arch/x86/kernel/cpu/proc.c, arch/arm64/kernel/cpuinfo.c, arch/powerpc/kernel/setup-common.c.
"""

from __future__ import annotations

from numaudit.errors import Unavailable
from numaudit.kernel.host import Host, read_text

_IDENTIFYING = (
    *("vendor_id", "cpu family", "model", "stepping", "model name"),  # x86
    *("CPU implementer", "CPU variant", "CPU part", "CPU revision"),  # arm64
    *("cpu", "revision"),  # POWER
)


def cpu_model(host: Host) -> str:
    """The first CPU's identifying lines in one, such as `AuthenticAMD 26 2 1 AMD EPYC`. Raises OSError, Unavailable."""
    path = host.proc / "cpuinfo"
    values: dict[str, str] = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _IDENTIFYING:
            values.setdefault(name.strip(), value.strip())
    if not values:
        raise Unavailable(f"{path} does not say which CPU this is")
    return " ".join(values[name] for name in _IDENTIFYING if name in values)
