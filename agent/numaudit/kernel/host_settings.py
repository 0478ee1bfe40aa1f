"""Settings of the kernel, and facts of firmware and hypervisor, that decide whether a promise of memory can hold.

All of these files are readable by everybody but where a security module says otherwise.

Source: Documentation/admin-guide/kernel-parameters.txt, Documentation/admin-guide/sysctl/{vm,kernel}.rst,
Documentation/admin-guide/mm/transhuge.rst, mm/vmstat.c (zoneinfo), drivers/base/cpu.c, drivers/acpi/sysfs.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.devices.pci import PciDevices
from numaudit.kernel.host import Host, explain, read_text
from numaudit.kernel.origin import kernel_of
from numaudit.pmu.identity import is_guest
from numaudit.ranks.declaration import HeldDevice
from numaudit.snapshot.host_settings import HostSettings, Zone
from numaudit.topology.nodeset import CpuSet

SYSCTLS = (
    "kernel.numa_balancing",
    "vm.numa_stat",
    "vm.oom_kill_allocating_task",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "vm.zone_reclaim_mode",
)
COMMAND_LINE = "cmdline"
"""In /proc; a capture has `numa_words` of it alone."""
ACPI_TABLES = "sys/firmware/acpi/tables/[A-Z]*"
"""Their names say enough; their content is root's."""
PATTERNS = (
    "proc/zoneinfo",
    *(f"proc/sys/{name.replace('.', '/')}" for name in SYSCTLS),
    *(f"sys/kernel/mm/transparent_hugepage/{name}" for name in ("enabled", "defrag")),
    *(f"sys/devices/system/cpu/{name}" for name in ("isolated", "present")),
)
"""All other files, below a host's root."""
PARAMETERS = re.compile(
    r"(?:numa|numa_balancing|acpi|hmat|isolcpus|nohz_full|movable_node|kernelcore|movablecore|mem|memmap"
    r"|maxcpus|nr_cpus|hugepages|hugepagesz|default_hugepagesz|hugetlb_cma|transparent_hugepage|efi)(?:=[\w.,:+@!%=-]*)?",
    re.ASCII,
)
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
_SELECTED = re.compile(r"\[([\w+-]{1,40})\]", re.ASCII)
_ZONE = re.compile(r"Node (\d{1,4}), zone +(\w{1,32})", re.ASCII)
_FIGURE = re.compile(r"(boost|min|managed) +(\d{1,19})", re.ASCII)
_PROTECTION = re.compile(r"protection: \((\d{1,19}(?:, \d{1,19})*)\)", re.ASCII)
_TABLE = re.compile(r"([A-Z0-9]{4})\d{0,3}", re.ASCII)
_LARGEST_ZONEINFO = 64 << 20
_ALWAYS_CAPTURED = ("kernel", "release", "is_guest", "devices")
_NOT_CAPTURED = "it was not captured: the capture was made by something else, or before numaudit kept it"


def read_host_settings(host: Host) -> HostSettings:
    """All of it, now. Raises nothing: what cannot be read is in `unread`."""
    unread: dict[str, str] = {}
    if not host.is_live and not files.is_file(host.proc / COMMAND_LINE):
        unread = {field: _NOT_CAPTURED for field in _READERS if field not in _ALWAYS_CAPTURED}
    values: dict[str, Any] = {}
    for field, read in _READERS.items():
        if field in unread:
            continue
        try:
            values[field] = read(host)
        except (FileNotFoundError, NotADirectoryError):  # this kernel has no such thing
            continue
        except (OSError, ParseError) as error:
            unread[field] = explain(error, host.name_of(Path(getattr(error, "filename", None) or host.root)))
    return HostSettings(unread=unread, **values)


def numa_words(command_line: str) -> tuple[str, ...]:
    """The kernel's parameters that bear on NUMA, memory or CPUs; others may hold secrets."""
    return tuple(word for word in command_line.split() if PARAMETERS.fullmatch(word))


def without_secrets(content: bytes) -> bytes:
    """The same of the file, for a capture."""
    return " ".join(numa_words(content.decode("utf-8", "replace"))).encode() + b"\n"


def parse_zoneinfo(text: str) -> dict[int, tuple[Zone, ...]]:
    """The zones of each node that have pages. Raises ParseError where one has no watermark."""
    found: dict[int, list[Zone]] = {}
    parts = _ZONE.split(text)
    for node, name, part in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        figures = {key: int(value) for key, value in _FIGURE.findall(part.partition("pagesets")[0])}
        if not figures.get("managed"):
            continue
        if "min" not in figures:
            raise ParseError(f"/proc/zoneinfo: zone {name} of node {node} has no min watermark")
        protection = _PROTECTION.search(part)
        kept = tuple(map(int, protection[1].split(", "))) if protection else ()
        found.setdefault(int(node), []).append(
            Zone(name, figures["managed"], figures["min"] - figures.get("boost", 0), kept)
        )
    return {node: tuple(zones) for node, zones in found.items()}


def _kernel(host: Host) -> tuple[int, int] | None:
    match = _RELEASE.match(kernel_of(host) or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _sysctls(host: Host) -> Mapping[str, int]:
    found = {}
    for name in SYSCTLS:
        try:
            text = read_text(host.proc / "sys" / name.replace(".", "/")).strip()
        except FileNotFoundError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 20:
            found[name] = int(text)
    return found


def _zones(host: Host) -> Mapping[int, tuple[Zone, ...]]:
    return parse_zoneinfo(read_text(host.proc / "zoneinfo", _LARGEST_ZONEINFO))


def _selected(name: str) -> Callable[[Host], str | None]:
    def read(host: Host) -> str | None:
        match = _SELECTED.search(read_text(host.sys / "kernel/mm/transparent_hugepage" / name))
        return None if match is None else match[1]

    return read


def _cpus(name: str) -> Callable[[Host], CpuSet]:
    return lambda host: CpuSet.parse(read_text(host.sys / "devices/system/cpu" / name).strip())


def _acpi_tables(host: Host) -> frozenset[str]:
    """Their names are for everybody, their content for root."""
    matches = (_TABLE.fullmatch(name) for name in files.names(host.sys / "firmware/acpi/tables"))
    return frozenset(match[1] for match in matches if match is not None)


def _is_guest(host: Host) -> bool | None:
    text = read_text(host.proc / "cpuinfo", _LARGEST_ZONEINFO)
    return is_guest(text) if "\nflags" in text else None


def _devices(host: Host) -> tuple[HeldDevice, ...]:
    return tuple(PciDevices(host).all())


_READERS: Mapping[str, Callable[[Host], object]] = {
    "kernel": _kernel,
    "release": kernel_of,
    "command_line": lambda host: numa_words(read_text(host.proc / COMMAND_LINE)),
    "zones": _zones,
    "sysctls": _sysctls,
    "huge_pages": _selected("enabled"),
    "defrag": _selected("defrag"),
    "isolated_cpus": _cpus("isolated"),
    "present_cpus": _cpus("present"),
    "acpi_tables": _acpi_tables,
    "is_guest": _is_guest,
    "devices": _devices,
}
"""Field of HostSettings -> its reader, which raises OSError or ParseError; FileNotFoundError = there is none."""
