"""What differs between guests by the architecture of their CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """One kind of machine that QEMU emulates."""

    name: str
    """The kernel's name of it, as `uname -m` prints it."""
    debian: str
    """Debian's name of it."""
    kernel_packages: Mapping[str, str]
    """Series -> the package that depends on its newest build. Builds vanish from the archive, these stay.

    `16k-` before a series: with pages of 16 KiB.
    """
    qemu: str
    """The program that emulates it."""
    qemu_package: str
    """Of a foreign one it is only unpacked: the libraries are those of qemu-system-x86, which is installed."""
    machine: tuple[str, ...]
    """QEMU's options for the board, the CPU and the emulation."""
    command_line: str
    """Parameters of its kernel: the serial console, and what this board needs."""
    foreign: bool
    """The host's programs do not run on it, so it has a root of its own."""


# KVM is not tried: on hosts that are themselves virtual it may open and yet never boot. thread=multi is not
# safe in QEMU 7.2 when the kernel patches its own code, which is what attaching a BPF program does.
_EMULATION = ("-accel", "tcg,thread=single,tb-size=256")

# At addresses that stay the same, a library that is translated once is translated for all processes.
_QUICK = "norandmaps mitigations=off"

X86_64 = Architecture(
    name="x86_64",
    debian="amd64",
    kernel_packages={"6.1": "linux-image-cloud-amd64", "6.12": "linux-image-6.12-cloud-amd64"},
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    # Without ERMS and FSRM the kernel clears and copies pages by words: emulated, `rep stosb` goes byte by byte, and
    # touching new memory takes twice as long. Each change of SMAP's flag ends a translated block, and LA57 makes each
    # walk of the page tables a level longer.
    machine=(*_EMULATION, "-cpu", "max,-erms,-fsrm,-smap,-la57", "-M", "q35"),
    # On a busy host the emulated timer comes late, and a kernel that checks it panics: "IO-APIC + timer doesn't work".
    command_line=f"console=ttyS0 no_timer_check {_QUICK}",
    foreign=False,
)

AARCH64 = Architecture(
    name="aarch64",
    debian="arm64",
    kernel_packages={
        "6.1": "linux-image-cloud-arm64",
        "6.12": "linux-image-6.12-cloud-arm64",
        "16k-6.12": "linux-image-6.12-arm64-16k",
    },
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    # With icount the emulated PMU counts instructions, one in each 2 ns of the guest's time. `-cpu max` boots three
    # times slower, since its pointer authentication is emulated in full. Never sleep=off: the guest's clock would race
    # ahead whenever its CPUs wait.
    machine=(*_EMULATION, "-icount", "shift=1", "-cpu", "neoverse-n1", "-M", "virt,gic-version=3"),
    # At random addresses it has page tables of its own, which empties the emulated TLB at each system call.
    command_line=f"console=ttyAMA0 nokaslr kpti=off {_QUICK}",
    foreign=True,
)
