"""hint_faults: samples of memory accesses that NUMA balancing takes, by cgroup (bpf/hint_faults.bpf.c).

The kernel takes the access right from some pages of a task now and then; the next access to such a page faults,
and so shows from which node it came. What this cannot show:
- Of a process with one thread the kernel does not mark private pages that are on the node where it runs
  (mm/mprotect.c, change_pte_range): there are no local samples, so there is no remote ratio.
- Memory bound by a policy (MPOL_BIND without MPOL_F_NUMA_BALANCING), huge pages of the pool and pages that cannot
  move are never sampled.
- A sample stands for a page that was used, not for how often.
- A marked page faults once, for the thread that comes first, whoever else uses it. Who took its previous fault
  (last_cpupid) does not tell whether threads share it: a fault by a CPU of the page's own node does not write that
  (mm/mempolicy.c, mpol_misplaced).
Source: kernel/sched/fair.c (task_numa_fault), include/linux/sched/numa_balancing.h (TNF_ flags).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaudit.kernel import bpf
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, sum_per_cpu
from numaudit.kernel.host import Host
from numaudit.probes import function_entry
from numaudit.probes.bpf_probe import BpfProbe
from numaudit.probes.function_entry import Way
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.probe import Kind, Loss, Reading
from numaudit.probes.reasons import Refusal
from numaudit.snapshot import HintFault

_NAME = "hint_faults"
FUNCTION = "task_numa_fault"
_SKIP_TRACEPOINT = "sched_skip_cpuset_numa"
_ON_SKIP = "hint_faults_on_skip"
_ON_TRIAL = "hint_faults_on_trial"
_KEY = "=QHHI"  # struct hint_faults_key
_TRIAL = 1 << 31
"""The flag of what the trial counts."""
_FLAGS_PER_PAIR = 4
"""A container commonly sees local, shared, migrated and failed faults."""


@dataclass(frozen=True, slots=True)
class HintFaultCounts(Reading):
    """Hint faults of the tasks in each cgroup since load."""

    faults: Mapping[int, Mapping[HintFault, int]] = field(default_factory=dict)
    skipped: Mapping[int, int] = field(default_factory=dict)
    """Scans that the kernel left out because cpuset.mems is one node: such a cgroup has no samples."""
    forgotten: int = 0
    """Counters deleted: their cgroup ended, or belongs to no container."""

    @property
    def events(self) -> int:
        return sum(sum(row.values()) for row in self.faults.values()) + self.lost.get("map-full", 0)


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load."""
    types = function_entry.read_btf(host)
    found = types if isinstance(types, Refusal) else types.function(FUNCTION)
    entry = function_entry.programs(_NAME, FUNCTION, found)
    registers = function_entry.registers()
    return ProbeRequest(
        name=_NAME,
        programs=(
            *entry.wanted,
            Program(_ON_SKIP, ProgramType.RAW_TRACEPOINT),
            Program(_ON_TRIAL, ProgramType.RAW_TRACEPOINT),
        ),
        refused=entry.refused,
        maps=("hint_faults_count", "hint_faults_skipped", "probe_narrowed", "probe_watched"),
        entries={
            "hint_faults_count": cgroups * nodes * _FLAGS_PER_PAIR,
            "hint_faults_skipped": cgroups,
            "probe_watched": cgroups,
        },
        numbers={"HINT_FAULTS_SECOND_REGISTER": registers[1], "HINT_FAULTS_FOURTH_REGISTER": registers[3]},
    )


class HintFaults(BpfProbe):
    """The running probe."""

    tables = ("count", "skipped")

    def __init__(self, host: Host, loaded: LoadedProbe, ways: Sequence[Way] = function_entry.WAYS) -> None:
        """Attach by the first way that works. Raises Refusal, and OSError when a map cannot be used."""
        self._ways = ways
        self._forgotten = 0
        super().__init__(host, loaded)

    @property
    def how(self) -> str:
        return self.hook

    def read(self) -> HintFaultCounts:
        missed = self._missed([function_entry.program_name(_NAME, way) for way in function_entry.WAYS])
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": missed}
        count = self._maps["count"]
        found = decode(count.read(), self._maps["skipped"].read(), count.cpus, lost)
        return replace(found, watched=self._watched, forgotten=self._forgotten)

    def forget(self, cgroups: Collection[int]) -> int:
        counted = self._forget("count", cgroups)
        self._forgotten += counted
        return counted + self._forget("skipped", cgroups)

    def _attach(self) -> None:
        attached = function_entry.attach(self._host, self._loaded, _NAME, FUNCTION, self._ways)
        self.hook = f"{attached.way} on {FUNCTION}"
        self._hooks.append(attached.descriptor)
        try:
            self._attach_raw_tracepoint(_SKIP_TRACEPOINT, _ON_SKIP)
        except Refusal as refusal:
            if not _is_absent(refusal):  # a kernel without it samples every task
                raise

    def _try_out(self, times: int) -> None:
        """Count faults that never were, and forget them."""
        count = self._maps["count"]
        try:
            for _ in range(times):
                bpf.run(self._loaded.programs[_ON_TRIAL])
        finally:
            for key in count.read_keys():
                if struct.unpack(_KEY, key)[3] == _TRIAL:
                    count.delete(key)


HINT_FAULTS = Kind(_NAME, request, HintFaults, ns_per_event=400.0, gives_way=4, can_narrow=True)


def _is_absent(refusal: Refusal) -> bool:
    return isinstance(refusal.__cause__, OSError) and refusal.__cause__.errno == errno.ENOENT


def decode(
    entries: Iterable[Entries], skipped: Iterable[Entries], cpus: int, lost: Mapping[Loss, int] | None = None
) -> HintFaultCounts:
    """Map entries as the kernel packs them, per-CPU values of `cpus` u64, into sums by cgroup."""
    faults: dict[int, dict[HintFault, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        for (cgroup, cpu_node, memory_node, flags), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            faults.setdefault(cgroup, {})[HintFault(cpu_node, memory_node, flags)] = count
    skips: dict[int, int] = {}
    for chunk in skipped:
        keys = struct.iter_unpack("=Q", chunk.keys)
        skips.update((key, count) for (key,), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True))
    return HintFaultCounts(faults, skips, lost=lost or {})
