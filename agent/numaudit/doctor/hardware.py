"""Hardware that knows from where memory is used, and that numaudit finds but does not read.

Sources: Documentation/ABI/testing/sysfs-bus-event_source-devices*, Documentation/filesystems/resctrl.rst,
drivers/perf/.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

from numaudit.kernel import files
from numaudit.kernel.cores import core_pmus, event_sources
from numaudit.kernel.host import Host, read_text
from numaudit.pmu.identity import flags, parse_cpuinfo
from numaudit.snapshot import Check

_SAMPLERS = re.compile(r"ibs_op|arm_spe_\d{1,4}", re.ASCII)
_FABRIC = re.compile(
    r"(uncore_upi|uncore_qpi|uncore_cha|uncore_ha|amd_df|amd_umc|nvidia_scf_pmu|nvidia_cnvlink_pmu)(_\d{1,4})?"
    r"|(hisi)_sccl\d{1,4}_hha\d{1,4}",
    re.ASCII,
)
_RESCTRL = "fs/resctrl/info"
_EVENTS_OF_TOTAL = re.compile(r"\b\d{1,9}=(0x[0-9a-fA-F]{1,8})\b", re.ASCII)
"""Of one L3 domain in mbm_total_bytes_config (`0=0x7f;1=0x7f`)."""
_VICTIMS = 1 << 6
"""Dirty lines that leave the cache, for memory of any node."""


class Unread(NamedTuple):
    """Hardware of one kind. There are no figures of it, whether it is here or not."""

    found: str | None
    """None = it is not here."""
    missing: str = ""
    """In words, when it is not here."""

    def check(self, name: str) -> Check:
        """The check of that name."""
        if self.found is None:
            return Check(name, "missing", self.missing, reason="no-hardware")
        return Check(name, "missing", f"found: {self.found}; numaudit does not read it", reason="not-read")


def data_sources(host: Host) -> Unread:
    """Precise samples of loads with the source of their data."""
    found = [f"{pmu.name}/mem-loads" for pmu in core_pmus(host) if "mem-loads" in pmu.events]
    found += [folder.name for folder in event_sources(host) if _SAMPLERS.fullmatch(folder.name)]
    return Unread(", ".join(found) or None, "no precise samples of loads (PEBS mem-loads, ibs_op, arm_spe)")


def memory_bandwidth(host: Host) -> Unread:
    """Memory bandwidth monitoring, and whether total - local would give the remote part. Raises OSError."""
    cpuinfo = read_text(host.proc / "cpuinfo", limit=64 << 20)
    if not {"cqm_mbm_local", "cqm_mbm_total"} <= flags(cpuinfo):
        return Unread(None, "the CPU does not monitor memory bandwidth (no cqm_mbm_local and cqm_mbm_total)")
    if not files.is_folder(host.sys / _RESCTRL):
        return Unread("cqm_mbm_local and cqm_mbm_total, but resctrl is not mounted")
    vendor = next((cpu.vendor for cpu in parse_cpuinfo(cpuinfo)), None)
    total = ""
    with suppress(OSError):  # not every CPU can be told what to count
        total = read_text(host.sys / _RESCTRL / "L3_MON/mbm_total_bytes_config")
    gives = "is" if _remote_is_total_less_local(vendor, total) else "is not"
    return Unread(f"resctrl is mounted, with cqm_mbm_local and cqm_mbm_total; total - local {gives} the remote part")


def _remote_is_total_less_local(vendor: str | None, config: str) -> bool:
    """On Intel always. On AMD only where no domain counts victims as total, which has to be configured."""
    events = [int(bits, 16) for bits in _EVENTS_OF_TOTAL.findall(config)]
    return vendor == "GenuineIntel" or (
        vendor == "AuthenticAMD" and bool(events) and not any(one & _VICTIMS for one in events)
    )


def fabric(host: Host) -> Unread:
    """Counters of links between sockets and of home agents: of sockets, never of containers."""
    matches = (_FABRIC.fullmatch(folder.name) for folder in event_sources(host))
    kinds = dict.fromkeys(match[1] or "hisi_hha" for match in matches if match is not None)
    return Unread(", ".join(kinds) or None, "no counters of links between sockets or of home agents")
