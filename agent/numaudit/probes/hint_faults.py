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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from numaudit.kernel import bpf, perf_event
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, Map, sum_per_cpu
from numaudit.kernel.host import Host
from numaudit.probes import counters, reasons
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.reasons import Reason, Refusal
from numaudit.snapshot import HintFault

NAME = "hint_faults"
FUNCTION = "task_numa_fault"
_SKIP_TRACEPOINT = "sched_skip_cpuset_numa"
_ON_FAULT = "hint_faults_on_task_numa_fault"
_ON_SKIP = "hint_faults_on_skip"
_KEY = "=QHHI"  # struct hint_faults_key
_FLAGS_PER_PAIR = 4
"""A container commonly sees local, shared, migrated and failed faults."""

_ARGUMENT_REGISTERS = {"x86_64": (13, 11), "aarch64": (1, 3), "riscv64": (11, 13)}
"""Machine -> places of the second and fourth argument in struct pt_regs, counted in words.

Source: arch/*/include/asm/ptrace.h and each architecture's calling convention.
"""


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
        )


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load for so many cgroups and nodes. Raises Refusal on a machine whose registers we do not know."""
    machine = os.uname().machine
    if machine not in _ARGUMENT_REGISTERS:
        known = ", ".join(_ARGUMENT_REGISTERS)
        raise Refusal(Reason.UNSUPPORTED, f"where {machine} passes arguments is not known; supported: {known}")
    second, fourth = _ARGUMENT_REGISTERS[machine]
    return ProbeRequest(
        name=NAME,
        programs=(
            Program(_ON_FAULT, ProgramType.KPROBE),
            Program(_ON_SKIP, ProgramType.RAW_TRACEPOINT),
        ),
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
            "HINT_FAULTS_SECOND_ARGUMENT": second,
            "HINT_FAULTS_FOURTH_ARGUMENT": fourth,
        },
    )


class HintFaults:
    """The running probe. Reading raises OSError."""

    def __init__(self, host: Host, loaded: LoadedProbe) -> None:
        """Attach. Raises Refusal, and OSError when a map cannot be used."""
        self._host = host
        self._loaded = loaded
        self._count = Map.of(loaded.maps["hint_faults_count"], host)
        self._skipped = Map.of(loaded.maps["hint_faults_skipped"], host)
        self._dropped = Map.of(loaded.maps["hint_faults_dropped"], host)
        self._narrowed = Map.of(loaded.maps["hint_faults_narrowed"], host)
        self._watched = Map.of(loaded.maps["hint_faults_watched"], host)
        self.watched: frozenset[int] | None = None
        """Cgroups whose faults are counted; None = all."""
        self._event: int | None = _attach(host, loaded)
        self._skip_event = self._attach_skip()

    @property
    def sees_skipped_tasks(self) -> bool:
        """Does this kernel tell which tasks it does not sample? Those that tell are also those that skip any."""
        return self._skip_event is not None

    def read(self) -> HintFaultsByNode:
        """All counters since load."""
        dropped = sum(sum(sum_per_cpu(entries.values, self._dropped.cpus)) for entries in self._dropped.read())
        missed = bpf.read_program_info(self._loaded.programs[_ON_FAULT]).misses
        return decode(self._count.read(), self._skipped.read(), self._count.cpus, dropped, missed)

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every other cgroup, so that dead ones do not fill the maps; how many went."""
        return sum(
            one.delete(key)
            for one in (self._count, self._skipped)
            for key in one.read_keys()
            if struct.unpack_from("=Q", key)[0] not in cgroups
        )

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
        return self._event is None

    def suspend(self) -> None:
        """Take the program off its hook; what was counted stays."""
        if self._event is not None:
            os.close(self._event)
            self._event = None

    def resume(self) -> None:
        """Put it back. Raises Refusal."""
        if self._event is None:
            self._event = _attach(self._host, self._loaded)

    def close(self) -> None:
        for event in (self._event, self._skip_event):
            if event is not None:
                os.close(event)
        self._loaded.close()

    def _attach_skip(self) -> int | None:
        try:
            return bpf.open_raw_tracepoint(_SKIP_TRACEPOINT, self._loaded.programs[_ON_SKIP])
        except OSError as error:
            if error.errno == errno.ENOENT:  # a kernel that samples every task
                return None
            if self._event is not None:
                os.close(self._event)
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


def _attach(host: Host, loaded: LoadedProbe) -> int:
    """The perf event that holds the program; one CPU's is enough, for a kprobe's programs run on all CPUs."""
    what = f"cannot put a kprobe on {FUNCTION}"
    try:
        event = perf_event.open_kprobe(host, FUNCTION, cpu=0)
    except FileNotFoundError:
        raise Refusal(Reason.NO_KPROBES, f"{what}: this kernel has no kprobes, or hides this function") from None
    except OSError as error:
        raise reasons.of_error(what, error) from error
    try:
        perf_event.set_program(event, loaded.programs[_ON_FAULT])
        perf_event.enable(event)
    except OSError as error:
        os.close(event)
        raise reasons.of_error(what, error) from error
    return event
