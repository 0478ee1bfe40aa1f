"""Hardware that knows from where memory is used, and that numaudit finds but does not read.

Sources: Documentation/ABI/testing/sysfs-bus-event_source-devices*, Documentation/filesystems/resctrl.rst,
drivers/perf/.
"""

from __future__ import annotations

import re
from contextlib import suppress

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.cores import core_pmus, event_sources
from numaudit.kernel.host import Host, read_text
from numaudit.pmu.bandwidth import parse_config, remote_is_total_less_local
from numaudit.pmu.identity import flags, parse_cpuinfo

_SAMPLERS = re.compile(r"ibs_op|arm_spe_\d{1,4}", re.ASCII)
_FABRIC = re.compile(
    r"(uncore_upi|uncore_qpi|uncore_cha|uncore_ha|amd_df|amd_umc|nvidia_scf_pmu|nvidia_cnvlink_pmu)(_\d{1,4})?"
    r"|(hisi)_sccl\d{1,4}_hha\d{1,4}",
    re.ASCII,
)
_SYSTEM = "fs/resctrl"


class NoFigures(Unavailable):
    """Such hardware is here or not; either way there are no figures of it."""

    def __init__(self, found: str | None, missing: str) -> None:
        self.text = missing if found is None else f"found: {found}; numaudit does not read it"
        self.word = "no-hardware" if found is None else "not-read"
        super().__init__(self.text)


def check_data_sources(host: Host) -> str:
    """Precise samples of loads with the source of their data. Raises NotRead."""
    found = [f"{pmu.name}/mem-loads" for pmu in core_pmus(host) if "mem-loads" in pmu.events]
    found += [folder.name for folder in event_sources(host) if _SAMPLERS.fullmatch(folder.name)]
    raise NoFigures(", ".join(found) or None, "no precise samples of loads (PEBS mem-loads, ibs_op, arm_spe)")


def check_bandwidth(host: Host) -> str:
    """Memory bandwidth monitoring. Raises NotRead, OSError."""
    cpuinfo = read_text(host.proc / "cpuinfo", limit=64 << 20)
    if not {"cqm_mbm_local", "cqm_mbm_total"} <= flags(cpuinfo):
        raise NoFigures(None, "the CPU does not monitor memory bandwidth (no cqm_mbm_local and cqm_mbm_total)")
    if not files.is_folder(host.sys / _SYSTEM / "info"):
        raise NoFigures("cqm_mbm_local and cqm_mbm_total, but resctrl is not mounted", "")
    vendor = next((cpu.vendor for cpu in parse_cpuinfo(cpuinfo)), None)
    total = ""
    with suppress(OSError):  # not every CPU can be told what to count
        total = read_text(host.sys / _SYSTEM / "info/L3_MON/mbm_total_bytes_config")
    gives = "is" if remote_is_total_less_local(vendor, parse_config(total)) else "is not"
    raise NoFigures(
        f"resctrl is mounted, with cqm_mbm_local and cqm_mbm_total; total - local {gives} the remote part", ""
    )


def check_fabric(host: Host) -> str:
    """Counters of links between sockets and of home agents: of sockets, never of containers. Raises NotRead."""
    matches = (_FABRIC.fullmatch(folder.name) for folder in event_sources(host))
    kinds = dict.fromkeys(match[1] or "hisi_hha" for match in matches if match is not None)
    missing = "no counters of links between sockets or of home agents"
    raise NoFigures(", ".join(kinds) or None, missing)
