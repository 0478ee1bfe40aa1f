"""hint_faults: samples of memory accesses that NUMA balancing takes, by cgroup (bpf/hint_faults.bpf.c).

The kernel takes the access right from some pages of a task now and then; the next access to such a page faults,
and so tells from which node it came. What this cannot show:
- Of a process with one thread the kernel does not mark private pages that are on the node where it runs
  (mm/mprotect.c, change_pte_range): there are no local samples, so there is no remote ratio.
- Memory bound by a policy (MPOL_BIND without MPOL_F_NUMA_BALANCING), huge pages of the pool and pages that cannot
  move are never sampled.
- A sample stands for a page that was used, not for how often.
Source: kernel/sched/fair.c (task_numa_fault), include/linux/sched/numa_balancing.h (TNF_ flags).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numaudit.kernel import bpf
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, Map, sum_per_cpu
from numaudit.kernel.host import Host
from numaudit.probes import counters, function_entry, reasons
from numaudit.probes.function_entry import Attached, Way
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.reasons import Refusal
from numaudit.snapshot import HintFault

NAME = "hint_faults"
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
class HintFaultsByNode:
    """Hint faults of the tasks in each cgroup itself since load, by cgroup id. Descendants are not added."""

    faults: Mapping[int, Mapping[HintFault, int]] = field(default_factory=dict)
    skipped: Mapping[int, int] = field(default_factory=dict)
    """Scans that the kernel left out because cpuset.mems is one node: such a cgroup has no samples."""
    dropped: int = 0
    """Faults not counted because the map was full."""
    missed: int = 0
    """Faults not counted because another BPF program was running on that CPU."""
    forgotten: int = 0
    """Counters deleted: their cgroup ended, or is nobody's."""

    @property
    def events(self) -> int:
        """How often the program ran for what is counted here."""
        return sum(sum(row.values()) for row in self.faults.values()) + self.dropped

    def since(self, earlier: HintFaultsByNode) -> HintFaultsByNode:
        """What came between two reads. A cgroup without news is left out."""
        return HintFaultsByNode(
            counters.added(self.faults, earlier.faults),
            counters.added_to_row(self.skipped, earlier.skipped),
            self.dropped - earlier.dropped,
            self.missed - earlier.missed,
            self.forgotten - earlier.forgotten,
        )


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load for so many cgroups and nodes."""
    types = function_entry.read_btf(host)
    found = types if isinstance(types, Refusal) else types.function(FUNCTION)
    entry = function_entry.programs(NAME, FUNCTION, found)
    registers = function_entry.registers()
    return ProbeRequest(
        name=NAME,
        programs=(
            *entry.wanted,
            Program(_ON_SKIP, ProgramType.RAW_TRACEPOINT),
            Program(_ON_TRIAL, ProgramType.RAW_TRACEPOINT),
        ),
        refused=entry.refused,
        maps=(
            "hint_faults_count",
            "hint_faults_skipped",
            "hint_faults_dropped",
            "hint_faults_narrowed",
            "hint_faults_watched",
        ),
        defines={
            "HINT_FAULTS_ENTRIES": cgroups * nodes * _FLAGS_PER_PAIR,
            "HINT_FAULTS_CGROUPS": cgroups,
            "HINT_FAULTS_SECOND_REGISTER": registers[1],
            "HINT_FAULTS_FOURTH_REGISTER": registers[3],
        },
    )


class HintFaults:
    """The running probe. Reading raises OSError."""

    def __init__(self, host: Host, loaded: LoadedProbe, ways: Sequence[Way] = function_entry.WAYS) -> None:
        """Attach by the first way that works. Raises Refusal, and OSError when a map cannot be used."""
        self._host = host
        self._ways = ways
        self._loaded = loaded
        self._count = Map.of(loaded.maps["hint_faults_count"], host)
        self._skipped = Map.of(loaded.maps["hint_faults_skipped"], host)
        self._dropped = Map.of(loaded.maps["hint_faults_dropped"], host)
        self._narrowed = Map.of(loaded.maps["hint_faults_narrowed"], host)
        self._watched = Map.of(loaded.maps["hint_faults_watched"], host)
        self._forgotten = 0
        self.watched: frozenset[int] | None = None
        """Cgroups whose faults are counted; None = all."""
        self._attached: Attached | None = self._attach()
        self.hook = f"{self._attached.way} on {FUNCTION}"
        self._skip_event = self._attach_skip()

    @property
    def sees_skipped_tasks(self) -> bool:
        """Does this kernel tell which tasks it does not sample? Those that tell are also those that skip any."""
        return self._skip_event is not None

    @property
    def how(self) -> str:
        """In words for people."""
        return self.hook

    def read(self) -> HintFaultsByNode:
        """All counters since load."""
        dropped = sum(sum(sum_per_cpu(entries.values, self._dropped.cpus)) for entries in self._dropped.read())
        missed = sum(bpf.read_program_info(program).misses for program in self._counting())
        found = decode(self._count.read(), self._skipped.read(), self._count.cpus, dropped, missed)
        return replace(found, forgotten=self._forgotten)

    def read_run_time(self) -> bpf.RunTime:
        """The kernel's account of what counts here, the trial included. Raises OSError."""
        return bpf.read_run_time(self._loaded.programs.values())

    def try_out(self, times: int) -> None:
        """Count so many faults that never were, and forget them. Raises OSError."""
        try:
            for _ in range(times):
                bpf.run(self._loaded.programs[_ON_TRIAL])
        finally:
            for key in self._count.read_keys():
                if struct.unpack(_KEY, key)[3] == _TRIAL:
                    self._count.delete(key)

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every other cgroup, so that dead ones do not fill the maps; how many went."""
        counted, skipped = (
            sum(one.delete(key) for key in one.read_keys() if struct.unpack_from("=Q", key)[0] not in cgroups)
            for one in (self._count, self._skipped)
        )
        self._forgotten += counted
        return counted + skipped

    def watch(self, cgroups: frozenset[int] | None) -> None:
        """Count faults of these cgroups only; None = of all. Raises OSError."""
        known = self.watched or frozenset()
        for cgroup in known - (cgroups or frozenset()):
            self._watched.delete(struct.pack("=Q", cgroup))
        one = struct.pack("=I", 1)
        self._watched.update_all({struct.pack("=Q", cgroup): one for cgroup in (cgroups or frozenset()) - known})
        self._narrowed.update(bytes(4), struct.pack("=I", cgroups is not None))
        self.watched = cgroups

    @property
    def is_suspended(self) -> bool:
        return self._attached is None

    def suspend(self) -> None:
        """Take the program off its hook; what was counted stays."""
        if self._attached is not None:
            os.close(self._attached.descriptor)
            self._attached = None

    def resume(self) -> None:
        """Put it back. Raises Refusal."""
        if self._attached is None:
            self._attached = self._attach()

    def close(self) -> None:
        self.suspend()
        if self._skip_event is not None:
            os.close(self._skip_event)
        self._loaded.close()

    def _attach(self) -> Attached:
        return function_entry.attach(self._host, self._loaded, NAME, FUNCTION, self._ways)

    def _counting(self) -> list[int]:
        names = {function_entry.program_name(NAME, way) for way in function_entry.WAYS}
        return [program for name, program in self._loaded.programs.items() if name in names]

    def _attach_skip(self) -> int | None:
        try:
            return bpf.open_raw_tracepoint(_SKIP_TRACEPOINT, self._loaded.programs[_ON_SKIP])
        except OSError as error:
            if error.errno == errno.ENOENT:  # a kernel that samples every task
                return None
            self.suspend()
            raise reasons.of_error(f"cannot attach to the raw tracepoint {_SKIP_TRACEPOINT}", error) from error


def decode(
    entries: Iterable[Entries], skipped: Iterable[Entries], cpus: int, dropped: int = 0, missed: int = 0
) -> HintFaultsByNode:
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
    return HintFaultsByNode(faults, skips, dropped, missed)
