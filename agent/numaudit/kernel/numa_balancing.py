"""NUMA balancing as the kernel itself shows it: is it on, and what has it done?

Source: Documentation/admin-guide/sysctl/kernel.rst (numa_balancing), mm/vmstat.c, mm/memcontrol.c (memory_stats),
kernel/sched/sched.h (NUMA_BALANCING_ flags).
"""

from __future__ import annotations

from dataclasses import dataclass

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_text

_NORMAL, _MEMORY_TIERING = 1, 2
_VMSTAT = ("numa_pte_", "numa_huge_pte_", "numa_hint_faults", "numa_pages_migrated", "pgmigrate_")
_MEMORY_STAT = ("numa_pte_", "numa_hint_faults", "numa_pages_migrated")


@dataclass(frozen=True, slots=True)
class Mode:
    """kernel.numa_balancing."""

    flags: int

    @property
    def samples_accesses(self) -> bool:
        """Does the kernel take samples of memory accesses on every node?"""
        return bool(self.flags & _NORMAL)

    @property
    def is_tiering_only(self) -> bool:
        """It only looks at nodes of slow memory, to move hot pages off them."""
        return self.flags & (_NORMAL | _MEMORY_TIERING) == _MEMORY_TIERING


def read_mode(host: Host) -> Mode | None:
    """The mode now; None when this kernel has no NUMA balancing. Raises OSError, ParseError."""
    try:
        text = read_text(host.proc / "sys/kernel/numa_balancing").strip()
    except FileNotFoundError:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ParseError(f"kernel.numa_balancing is {text[:40]!r}, not a number")
    return Mode(int(text))


def read_vmstat(host: Host) -> dict[str, int]:
    """What NUMA balancing and migrations have done on this host since boot: faults and base pages. Raises OSError."""
    return parse(read_text(host.proc / "vmstat"), _VMSTAT)


def parse_memory_stat(text: str) -> dict[str, int]:
    """The same of one cgroup with its descendants; empty on kernels before 6.12 or so.

    Each event counts for the cgroup that the page is charged to, whoever used it.
    """
    return parse(text, _MEMORY_STAT)


def parse(text: str, prefixes: tuple[str, ...]) -> dict[str, int]:
    """Lines `name value` whose name begins so. Raises ParseError when the value of such a line is no number."""
    found = {}
    for line in text.splitlines():
        if line.startswith(prefixes):
            name, _, value = line.partition(" ")
            if not (value.isascii() and value.isdigit() and len(value) < 21):
                raise ParseError(f"not a counter: {line[:80]!r}")
            found[name] = int(value)
    return found
