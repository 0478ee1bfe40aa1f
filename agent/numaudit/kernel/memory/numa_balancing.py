"""NUMA balancing as the kernel itself shows it: is it on, and what has it done?

Source: Documentation/admin-guide/sysctl/kernel.rst (numa_balancing), mm/vmstat.c, mm/memcontrol.c (memory_stats),
kernel/sched/sched.h (NUMA_BALANCING_ flags).
"""

from __future__ import annotations

import re

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host, read_text

_NORMAL = 1
_OF_CGROUPS = r"numa_(?:huge_)?pte_|numa_hint_faults|numa_pages_migrated|pgmigrate_"
_LINE, _HOSTS_LINE = (
    re.compile(rf"^((?:{names})\w*) (.*)$", re.M) for names in (_OF_CGROUPS, f"{_OF_CGROUPS}|pgdemote_|pgpromote_")
)
"""Memory moved between tiers is read by cgroup and node, from memory.numa_stat."""


class NumaBalancingMode(Struct, frozen=True):
    """kernel.numa_balancing."""

    flags: int

    @property
    def samples_accesses(self) -> bool:
        """Does the kernel sample memory of every node? Otherwise at most that of slow tiers.

        NUMA_BALANCING_MEMORY_TIERING alone leaves out the fast tier
        (mm/mprotect.c, change_pte_range), and 4 has neither flag.
        """
        return bool(self.flags & _NORMAL)


def read_mode(host: Host) -> NumaBalancingMode | None:
    """The mode now; None when this kernel has no NUMA balancing. Raises OSError, ParseError."""
    try:
        text = read_text(host.proc / "sys/kernel/numa_balancing").strip()
    except FileNotFoundError:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ParseError(f"kernel.numa_balancing is {text[:40]!r}, not a number")
    return NumaBalancingMode(int(text))


def read_vmstat(host: Host) -> dict[str, int]:
    """Counters of NUMA balancing and migrations of this host since boot: faults and base pages.

    Raises Unavailable when it is not shown, OSError.
    """
    try:
        return parse_vmstat(read_text(host.proc / "vmstat"))
    except FileNotFoundError:
        why = "/proc is mounted with subset=pid" if host.is_live else "the captured tree was made without it"
        raise Unavailable(f"/proc/vmstat does not exist: {why}") from None


def parse_vmstat(text: str) -> dict[str, int]:
    """The counters of a host. Raises ParseError."""
    return parse(text, _HOSTS_LINE)


def parse(text: str, line: re.Pattern[str] = _LINE) -> dict[str, int]:
    """The same lines of /proc/vmstat or memory.stat. Raises ParseError when the value of one is no number.

    memory.stat has them for one cgroup with its descendants, on Linux 6.12 and newer: each event counts for the
    cgroup that the page is charged to, whoever used it.
    """
    found = {}
    for name, value in line.findall(text):
        if not (value.isascii() and value.isdigit() and len(value) < 21):
            raise ParseError(f"not a counter: {name} {value[:40]!r}")
        found[name] = int(value)
    return found
