"""hint_faults: which pages were used from which node, as NUMA balancing sees it (bpf/hint_faults.bpf.c).

The kernel goes through a process's memory in passes and takes the access right from its pages; the next access to such
a page faults, and so shows from which node it came. One fault says one thing: this page was used from that node in
this pass. What faults cannot show:
- How often a page is used.
- Private pages on the node where a process with one thread runs: the kernel does not mark them
  (mm/mprotect.c, change_pte_range).
- Memory bound by a policy (MPOL_BIND without MPOL_F_NUMA_BALANCING), file mappings that are only read, pages that
  a parent and its children share since fork(2), huge pages of the pool, and pages that cannot move.
- Mappings in which the scanning task has not faulted lately (kernel/sched/fair.c, vma_is_accessed; since Linux 6.4):
  a pass may leave out most of the memory. Since Linux 6.7 the tracepoint sched_skip_vma_numa says which.
- Who else uses a page: it faults once, for the thread that comes first.
Source: kernel/sched/fair.c (task_numa_fault, task_numa_work), include/linux/sched/numa_balancing.h (TNF_ flags).
"""

from __future__ import annotations

import dataclasses
import errno
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from numaudit.kernel import files
from numaudit.kernel.host import Host
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import MapEntries, sum_per_cpu
from numaudit.kernel.tracing.btf import Btf
from numaudit.probes.bpf_probe import BpfProbe
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.function_entry import Way
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.probe import Loss, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal
from numaudit.snapshot.counted import HintFault

_NAME = "hint_faults"
FUNCTION = "task_numa_fault"
_SKIP_TRACEPOINT = "sched_skip_cpuset_numa"
_ON_SKIP = "hint_faults_on_skip"
_LEFT_OUT_TRACEPOINT = "sched_skip_vma_numa"
_ON_LEFT_OUT = "hint_faults_on_left_out"
_KEY = "=QHHI"  # struct hint_faults_key
_SCAN_KEY = "=QIIiHHI4x"  # struct hint_faults_pass
_LEFT_OUT = 1 << 30
"""The flag of the bytes that a pass left out."""
_FLAGS_PER_PAIR = 4
"""A container commonly sees local, shared, migrated and failed faults."""
_PASSES = 32_768
"""Entries for scan passes: a process commonly has four kinds of faults in a pass, and two passes from tick to tick."""
_MEMBERS = {
    "HINT_FAULTS_MM_OF_TASK": ("task_struct", "mm"),
    "HINT_FAULTS_EXEC_OF_TASK": ("task_struct", "self_exec_id"),
    "HINT_FAULTS_PASS_OF_MM": ("mm_struct", "numa_scan_seq"),
    "HINT_FAULTS_OFFSET_OF_MM": ("mm_struct", "numa_scan_offset"),
}
_MEMBERS_OF_MAPPINGS = {
    "HINT_FAULTS_START_OF_VMA": ("vm_area_struct", "vm_start"),
    "HINT_FAULTS_END_OF_VMA": ("vm_area_struct", "vm_end"),
}
_MAY_LEAVE_OUT = "HINT_FAULTS_STATE_OF_VMA"
"""Not 0 where passes leave mappings out: only then a mapping has such a state (numab_state)."""


class ScanPass(NamedTuple):
    """One pass of the kernel's through the memory of one process."""

    process: int
    """Its id, as the initial PID namespace has it."""
    image: int
    """task->self_exec_id: how many programs it and the processes that it comes from have executed. Each has memory of
    its own."""
    number: int
    """mm->numa_scan_seq of the marks that its faults found. Another program starts at 0 again."""


class PassUse(NamedTuple):
    """Faults of one pass."""

    pages: Mapping[HintFault, int]
    """Base pages by kind of fault; a page that was used counts once, or twice (scan_passes.py)."""
    left_out: int | None = 0
    """Bytes of mappings that the kernel left out of the pass; None = it may leave some out and does not say which."""


class Passes(Struct, frozen=True):
    """Cgroup id -> its processes' newest passes. Two readings have no difference: each has the whole of a pass."""

    by_cgroup: Mapping[int, Mapping[ScanPass, PassUse]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HintFaultCounts(Reading):
    """Hint faults of the tasks in each cgroup since load."""

    faults: Mapping[int, Mapping[HintFault, int]] = dataclasses.field(default_factory=dict)
    pages: Mapping[int, Mapping[HintFault, int]] = dataclasses.field(default_factory=dict)
    """The base pages of these faults: a huge page faults once and has 512 of them."""
    skipped: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Scans that the kernel left out because cpuset.mems is one node: such a cgroup has no samples."""
    forgotten: int = 0
    """Counters deleted: their cgroup ended, or belongs to no container."""
    passes: Passes | None = dataclasses.field(default=None, compare=False)
    """The newest passes; None = this kernel does not say in which pass a page faulted."""
    counted_by = ("faults",)

    @property
    def events(self) -> int:
        return sum(sum(row.values()) for row in self.faults.values()) + self.lost.get("map-full", 0)


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """Request for the loader."""
    types = function_entry.read_btf(host)
    found = types if isinstance(types, ProbeRefusal) else types.function(FUNCTION)
    entry = function_entry.programs(_NAME, FUNCTION, found)
    registers = function_entry.registers()
    return ProbeRequest(
        name=_NAME,
        programs=(
            *entry.wanted,
            BpfProgram(_ON_SKIP, ProgramType.RAW_TRACEPOINT),
            BpfProgram(_ON_LEFT_OUT, ProgramType.RAW_TRACEPOINT),
        ),
        refused=entry.refused,
        maps=("hint_faults_count", "hint_faults_passes", "hint_faults_skipped", "probe_narrowed", "probe_watched"),
        entries={
            "hint_faults_count": cgroups * nodes * _FLAGS_PER_PAIR,
            "hint_faults_passes": _PASSES,
            "hint_faults_skipped": cgroups,
            "probe_watched": cgroups,
        },
        numbers={
            "HINT_FAULTS_SECOND_REGISTER": registers[1],
            "HINT_FAULTS_THIRD_REGISTER": registers[2],
            "HINT_FAULTS_FOURTH_REGISTER": registers[3],
            **find_pass_members(types),
        },
    )


def find_pass_members(types: Btf | ProbeRefusal) -> dict[str, int]:
    """Offsets at which the kernel keeps a process's scan pass and a mapping's ends, in bytes; zeros where BTF does not
    say.
    """
    if isinstance(types, ProbeRefusal):
        return dict.fromkeys((*_MEMBERS, *_MEMBERS_OF_MAPPINGS, _MAY_LEAVE_OUT), 0)
    state = types.member("vm_area_struct", "numab_state")
    return {
        **_offsets(types, _MEMBERS),
        **_offsets(types, _MEMBERS_OF_MAPPINGS),
        _MAY_LEAVE_OUT: 0 if state is None else state.bits // 8,
    }


def _offsets(types: Btf, members: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """All of them, or zeros."""
    found = {name: types.member(structure, member) for name, (structure, member) in members.items()}
    if not all(found.values()):
        return dict.fromkeys(members, 0)
    return {name: member.bits // 8 for name, member in found.items() if member is not None}


class HintFaultsProbe(BpfProbe):
    """The running probe."""

    tables = ("count", "passes", "skipped")

    def __init__(self, host: Host, loaded: LoadedProbe, ways: Sequence[Way] = function_entry.WAYS) -> None:
        """Attach by the first way that works. Raises ProbeRefusal, and OSError when a map cannot be used."""
        self._ways = ways
        self._forgotten = 0
        self._knows_passes = bool(loaded.numbers.get("HINT_FAULTS_PASS_OF_MM"))
        self._says_left_out = not loaded.numbers.get(_MAY_LEAVE_OUT)
        self._before: Mapping[ScanPass, PassUse] = {}
        """The passes of all processes at the last reading."""
        self._dropped_before = 0
        super().__init__(host, loaded)

    @property
    def how(self) -> str:
        return self.hook

    def read(self) -> HintFaultCounts:
        missed = self._missed([function_entry.program_name(_NAME, way) for way in function_entry.WAYS])
        dropped = self._dropped()
        lost: dict[Loss, int] = {"map-full": dropped, "busy": missed}
        count = self._maps["count"]
        found = decode(count.read(), self._maps["skipped"].read(), count.cpus, lost)
        passes = self._read_passes(dropped) if self._knows_passes else None
        return replace(found, watched=self._watched, forgotten=self._forgotten, passes=passes)

    def forget(self, cgroups: Collection[int]) -> int:
        counted = self._forget("count", cgroups)
        self._forgotten += counted
        return counted + self._forget("passes", cgroups) + self._forget("skipped", cgroups)

    def _read_passes(self, dropped: int) -> Passes:
        """And make room in the map. `dropped`: faults that found a map full until now."""
        table = self._maps["passes"]
        entries = list(table.read())
        found = decode_passes(entries, self._says_left_out)
        flat = {one: use for passes in found.by_cgroup.values() for one, use in passes.items()}
        is_full, self._dropped_before = dropped > self._dropped_before, dropped
        leaving = passes_to_evict(flat, self._before, self._has_ended, is_full)
        for chunk in entries if leaving else ():
            for at in range(0, len(chunk.keys), table.info.key_size):
                key = chunk.keys[at : at + table.info.key_size]
                _, process, image, number, *_ = struct.unpack(_SCAN_KEY, key)
                if (process, image, number) in leaving:
                    table.delete(key)
        self._before = flat
        return found

    def _has_ended(self, process: int) -> bool:
        return not files.exists(f"{self._host.proc}/{process}")

    def _attach(self) -> None:
        attached = function_entry.attach(self._host, self._loaded, _NAME, FUNCTION, self._ways)
        self.hook = f"{attached.way} on {FUNCTION}"
        self._hooks.append(attached.descriptor)
        self._attach_if_there(_SKIP_TRACEPOINT, _ON_SKIP)  # a kernel without it samples every task
        if self._loaded.numbers.get("HINT_FAULTS_END_OF_VMA"):
            self._says_left_out |= self._attach_if_there(_LEFT_OUT_TRACEPOINT, _ON_LEFT_OUT)

    def _attach_if_there(self, tracepoint: str, program: str) -> bool:
        """False: this kernel has no such tracepoint. Raises ProbeRefusal when it cannot be used."""
        try:
            self._attach_raw_tracepoint(tracepoint, program)
        except ProbeRefusal as refusal:
            if not _is_absent(refusal):
                raise
            return False
        return True


HINT_FAULTS = ProbeKind(_NAME, request, HintFaultsProbe, ns_per_event=400.0, pause_order=3, can_narrow=True)


def _is_absent(refusal: ProbeRefusal) -> bool:
    return isinstance(refusal.__cause__, OSError) and refusal.__cause__.errno == errno.ENOENT


def passes_to_evict(
    now: Mapping[ScanPass, PassUse],
    before: Mapping[ScanPass, PassUse],
    has_ended: Callable[[int], bool],
    is_full: bool,
) -> set[ScanPass]:
    """Those that make room, for a reading has all that they will ever say: of each process all but its newest pass, and
    passes that stay as they were of processes that have ended. Of a full map also those of others, which may go on:
    then other processes have their turn.
    """
    newest: dict[int, ScanPass] = {}
    for one in now:
        newest[one.process] = max(one, newest.get(one.process, one))
    last_of = {**newest}
    for one in sorted(now.keys() - before.keys()):
        last = last_of[one.process]
        # It comes after a later one, and is no late fault of the pass before: another process of this id.
        if one.image == last.image and one.number < last.number - 1 and last in before:
            newest[one.process] = one
    still = {one for one, use in now.items() if before.get(one) == use}
    return {one for one in now if one != newest[one.process]} | {
        one for one in still if is_full or has_ended(one.process)
    }


@lru_cache(maxsize=4096)
def _kind(cpu_node: int, memory_node: int, flags: int) -> HintFault:
    """One value for each kind, which is in many entries."""
    return HintFault(cpu_node, memory_node, flags)


def decode(
    entries: Iterable[MapEntries], skipped: Iterable[MapEntries], cpus: int, lost: Mapping[Loss, int] | None = None
) -> HintFaultCounts:
    """Map entries as the kernel packs them, per-CPU values of `cpus` CPUs, into sums by cgroup."""
    faults: dict[int, dict[HintFault, int]] = {}
    pages: dict[int, dict[HintFault, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        sums = (sum_per_cpu(chunk.values, cpus, field, fields=2) for field in range(2))
        for (cgroup, cpu_node, memory_node, flags), count, size in zip(keys, *sums, strict=True):
            fault = _kind(cpu_node, memory_node, flags)
            faults.setdefault(cgroup, {})[fault] = count
            pages.setdefault(cgroup, {})[fault] = size
    skips: dict[int, int] = {}
    for chunk in skipped:
        keys = struct.iter_unpack("=Q", chunk.keys)
        skips.update((key, count) for (key,), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True))
    return HintFaultCounts(faults, pages, skips, lost=lost or {})


def decode_passes(entries: Iterable[MapEntries], says_left_out: bool = True) -> Passes:
    """Map entries as the kernel packs them, by cgroup, process and pass."""
    pages: dict[tuple[int, ScanPass], dict[HintFault, int]] = {}
    left_out: dict[tuple[int, ScanPass], int] = {}
    for chunk in entries:
        keys, values = struct.iter_unpack(_SCAN_KEY, chunk.keys), struct.iter_unpack("=Q", chunk.values)
        for (cgroup, process, image, number, *kind), (amount,) in zip(keys, values, strict=True):
            place = cgroup, ScanPass(process, image, number)
            of_pass = pages.setdefault(place, {})
            if kind[-1] == _LEFT_OUT:
                left_out[place] = amount
            else:
                of_pass[_kind(*kind)] = amount
    found: dict[int, dict[ScanPass, PassUse]] = {}
    for place, of_pass in pages.items():
        cgroup, one = place
        found.setdefault(cgroup, {})[one] = PassUse(of_pass, left_out.get(place, 0) if says_left_out else None)
    return Passes(found)
