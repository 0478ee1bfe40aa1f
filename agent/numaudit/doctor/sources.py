"""From which node is memory used? The sources in their fallback order, the best first.

A source works when it was tried and noticed a test load: an event that can be opened may still count nothing.
To add one, write its check and add it to SOURCE_CHECKS; its values carry its name as their `source`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec import Struct

from numaudit.doctor.failed import failed
from numaudit.doctor.pmu import check_pmu
from numaudit.engine.collectors.base import require_v2
from numaudit.engine.collectors.probes.hint_faults import require_sampling
from numaudit.errors import NumauditError, Unavailable
from numaudit.evaluation.access import Source
from numaudit.kernel import files
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.cores import core_pmus, event_sources
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.memory.numa_balancing import read_vmstat
from numaudit.kernel.node import read_machine
from numaudit.pmu.identity import flags, parse_cpuinfo
from numaudit.probes.counters.reference_workload import reference_workload
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
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


Hardware = Literal["pmu", "datasrc", "mbm", "fabric"]

_LOAD = 16 << 20
"""Bytes that the load for hint faults uses, by two threads: of one thread the kernel takes no local samples."""
_SAMPLES_WITHIN = 4.0
"""Seconds. NUMA balancing first scans a new process after one second of its CPU time, and then each second."""
_SPIN = 0.05


class Trial(Struct, frozen=True):
    """Context in which sources are tested."""

    host: Host
    session: Session
    under_load: bool
    """May a check make a load of its own, for some seconds?"""


class SourceCheck(Struct, frozen=True):
    """One source. `check` says how it works here, or raises Unavailable with the reason when it does not.

    Hardware that numaudit does not read is a value.
    """

    source: Source | Hardware
    check: Callable[[Trial], str | Unread]


def check_sources(trial: Trial) -> tuple[Check, ...]:
    """Each source: whether it works, and if not why. One that fails stops no other."""
    return tuple(_try(one, trial) for one in SOURCE_CHECKS)


def _try(one: SourceCheck, trial: Trial) -> Check:
    name = f"access {one.source}"
    try:
        if not trial.host.is_live:
            raise ProbeRefusal(Reason.NOT_LIVE, f"{trial.host.root} is a captured tree")
        found = one.check(trial)
        return found.check(name) if isinstance(found, Unread) else Check(name, "ok", found)
    except (NumauditError, OSError, ValueError) as error:
        return failed(name, error)


def _check_hint_faults(trial: Trial) -> str:
    require_v2(find_hierarchies(trial.host))
    require_sampling(trial.host, read_machine(trial.host))
    before, own_before = _count_faults(trial.session), kernel_samples(trial.host)
    what = "NUMA balancing's samples of pages that are used, by CPU's node and memory's node"
    if not trial.under_load:
        return what
    with reference_workload(_LOAD, threads=2) as work:
        work.order("touch")
        deadline = time.monotonic() + _SAMPLES_WITHIN
        while time.monotonic() < deadline and _count_faults(trial.session) == before:
            time.sleep(0.05)
    seen, own = _count_faults(trial.session) - before, kernel_samples(trial.host) - own_before
    if seen:
        return f"{what}; it noticed a test load"
    if own:
        raise Unavailable(f"the kernel took {own} samples of a test load, and the probe counted none of them")
    raise Unavailable(f"the kernel took no sample of a test load within {_SAMPLES_WITHIN:g} s")


def _count_faults(session: Session) -> int:
    return sum(sum(row.values()) for row in session.read(HINT_FAULTS).faults.values())


def kernel_samples(host: Host) -> int:
    return read_vmstat(host).get("numa_hint_faults", 0)


def _check_expected(trial: Trial) -> str:
    """CPU time must grow while this very process spins, unless it is in the root cgroup, which is not counted."""
    require_v2(find_hierarchies(trial.host))
    before = _count_time(trial.session)
    what = "an estimate from where bytes are and where CPUs ran: the remote share if all bytes were used equally"
    if not trial.under_load:
        return what
    end = time.process_time() + _SPIN
    while time.process_time() < end:
        pass
    if _count_time(trial.session) > before:
        return f"{what}; it noticed a test load"
    if "0::/" in read_text(trial.host.proc / "self/cgroup").splitlines():
        return f"{what}; not tested under load, because this process is in the root cgroup"
    raise Unavailable("the probe cpu_time counted nothing while this process was busy")


def _count_time(session: Session) -> int:
    return sum(sum(row.values()) for row in session.read(CPU_TIME).by_node.values())


SOURCE_CHECKS: tuple[SourceCheck, ...] = (
    SourceCheck("pmu", lambda trial: check_pmu(trial.host, under_load=trial.under_load)),
    SourceCheck("datasrc", lambda trial: data_sources(trial.host)),
    SourceCheck("mbm", lambda trial: memory_bandwidth(trial.host)),
    SourceCheck("fabric", lambda trial: fabric(trial.host)),
    SourceCheck("hint_faults", _check_hint_faults),
    SourceCheck("expected", _check_expected),
)
