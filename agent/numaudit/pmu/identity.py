"""Identity of the CPU, parsed from the kernel's description of it; and of the machine, by the names that the firmware
gives (SMBIOS): is it virtual, whose, and does it show a PMU?

Sources: the kernel's arch/x86/kernel/cpu/proc.c, arch/arm64/kernel/cpuinfo.c, arch/powerpc/kernel/setup-common.c
(all show themselves as /proc/cpuinfo); Arm Architecture Reference Manual (MIDR_EL1); Linux's
Documentation/ABI/testing/sysfs-firmware-dmi-tables; aws/aws-graviton-getting-started, perfrunbook/debug_hw_perf.md;
Google Cloud's documentation of the flag --performance-monitoring-unit; QEMU's documentation of CPU features; VMware's
of virtualized CPU performance counters; Xen's of the option vpmu.
"""

from __future__ import annotations

import re

from msgspec import Struct

_PVR = re.compile(r"\(pvr ([0-9a-f]{1,4}) [0-9a-f]{1,4}\)", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,9}", re.ASCII)


class CpuIdentity(Struct, frozen=True):
    """One kind of CPU; None = of another architecture, or not told."""

    arch: str
    """As uname(2) calls the machine: x86_64, aarch64, ppc64le."""
    vendor: str | None = None
    """x86: GenuineIntel, AuthenticAMD, ..."""
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: int | None = None
    """ARM: who made the core, as is `part`."""
    part: int | None = None
    pvr: int | None = None
    """POWER: the upper half of the Processor Version Register."""

    def __str__(self) -> str:
        """Enough to add the CPU to the table of families."""
        if self.pvr is not None:
            return f"PVR {self.pvr:#06x}"
        if self.implementer is not None:
            return f"implementer {self.implementer:#x} part {_or_unknown(self.part, '#x')}"
        return (
            f"{self.vendor or 'unknown vendor'} family {_or_unknown(self.family, '#x')} "
            f"model {_or_unknown(self.model, '#x')} stepping {_or_unknown(self.stepping, 'd')}"
        )


def _or_unknown(value: int | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def parse_cpuinfo(text: str) -> tuple[CpuIdentity, ...]:
    """The kinds of CPUs in /proc/cpuinfo, each once. Empty for other architectures, and where it does not tell."""
    found = (_identity(_fields(block)) for block in text.split("\n\n"))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def parse_midr(text: str) -> CpuIdentity | None:
    """The content of regs/identification/midr_el1 in sysfs, such as `0x00000000413fd0c1`."""
    midr = _number(text.strip())
    if midr is None:
        return None
    return CpuIdentity("aarch64", implementer=midr >> 24 & 0xFF, part=midr >> 4 & 0xFFF)


def is_guest(cpuinfo: str) -> bool:
    """Does x86's CPU have the flag `hypervisor`? Other architectures do not say."""
    words = next((line.split() for line in cpuinfo.splitlines() if line.startswith("flags")), ())
    return "hypervisor" in words


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _identity(fields: dict[str, str]) -> CpuIdentity | None:
    if vendor := fields.get("vendor_id"):
        family, model, stepping = (_number(fields.get(name)) for name in ("cpu family", "model", "stepping"))
        return CpuIdentity("x86_64", vendor, family, model, stepping)
    if fields.get("CPU implementer"):
        implementer, part = (_number(fields.get(name)) for name in ("CPU implementer", "CPU part"))
        return CpuIdentity("aarch64", implementer=implementer, part=part)
    match = _PVR.search(fields.get("revision", ""))
    return None if match is None else CpuIdentity("ppc64le", pvr=int(match[1], 16))


def _number(text: str | None) -> int | None:
    return int(text, 0) if text is not None and _NUMBER.fullmatch(text) and not _is_padded(text) else None


def _is_padded(text: str) -> bool:
    """Of a decimal number that begins with 0 Python does not know the base."""
    return text.isdigit() and len(text) > 1 and text[0] == "0"


_PHYSICAL_WORD = "metal"


class VirtualKind(Struct, frozen=True):
    """Virtual machines of one maker."""

    title: str
    vendor: str
    """Prefix of sys_vendor."""
    product: str
    """Prefix of product_name; empty = any."""
    hint: str
    """Advice on how to get a PMU for such a machine."""


VIRTUAL_KINDS = (
    VirtualKind(
        "Amazon EC2",
        "Amazon EC2",
        "",
        "use a metal size, or one that owns a whole socket, such as 48xlarge; docs/measuring.md lists them",
    ),
    VirtualKind(
        "Google Compute Engine",
        "Google",
        "Google Compute Engine",
        "use a C4 instance with 96 or 192 vCPUs and --performance-monitoring-unit=enhanced, or a metal one",
    ),
    VirtualKind(
        "Microsoft Hyper-V or Azure",
        "Microsoft Corporation",
        "Virtual Machine",
        "on Hyper-V: Set-VMProcessor -Perfmon; of Azure's sizes none is documented to show a PMU",
    ),
    VirtualKind("VMware", "VMware", "", "switch on `Virtualize CPU performance counters` for this machine"),
    VirtualKind("Xen", "Xen", "", "boot the hypervisor with vpmu=on"),
    VirtualKind("QEMU", "QEMU", "", "run it with KVM and -cpu host,pmu=on"),
)
"""The first that fits is meant."""
_ANY_HINT = "switch its virtual PMU on, or use the host itself"


class MachineKind(Struct, frozen=True):
    """Kind of machine by its firmware; None = it does not say."""

    vendor: str | None = None
    """sys_vendor of /sys/class/dmi/id."""
    product: str | None = None
    """product_name."""

    @property
    def virtual(self) -> VirtualKind | None:
        """Return the kind of virtual machine; None = a physical machine, or a kind that is not in the table."""
        vendor, product = self.vendor or "", self.product or ""
        if _PHYSICAL_WORD in product:
            return None
        fitting = (one for one in VIRTUAL_KINDS if vendor.startswith(one.vendor) and product.startswith(one.product))
        return next(fitting, None)

    @property
    def hint(self) -> str:
        """Advice on how to give a virtual machine a PMU."""
        return _ANY_HINT if self.virtual is None else self.virtual.hint

    def __str__(self) -> str:
        return " ".join(one for one in (self.vendor, self.product) if one)
