"""Is it a virtual machine, whose, and which of those show a PMU? By the names that the firmware gives (SMBIOS).

Sources: Linux's Documentation/ABI/testing/sysfs-firmware-dmi-tables; aws/aws-graviton-getting-started,
perfrunbook/debug_hw_perf.md; Google Cloud's documentation of the flag --performance-monitoring-unit; QEMU's
documentation of CPU features; VMware's of virtualized CPU performance counters; Xen's of the option vpmu.
"""

from __future__ import annotations

from msgspec import Struct

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
