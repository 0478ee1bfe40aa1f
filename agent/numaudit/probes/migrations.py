"""migrations: which cgroups moved pages, and why; which tasks NUMA balancing moved (bpf/migrations.bpf.c).

Page migrations are charged to the task that moves the pages: with NUMA balancing that is the one that uses them,
but a changed cpuset.mems is carried out by a kernel worker in the root cgroup. The event carries no nodes.
Source: include/trace/events/migrate.h, include/trace/events/sched.h, include/linux/migrate_mode.h.
"""

from __future__ import annotations

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
from numaudit.probes.reasons import Refusal
from numaudit.snapshot import TaskMove

NAME = "migrations"
_TRACEPOINTS = {
    "migrate:mm_migrate_pages": "migrations_on_mm_migrate_pages",
    "sched:sched_move_numa": "migrations_on_move",
    "sched:sched_stick_numa": "migrations_on_stick",
    "sched:sched_swap_numa": "migrations_on_swap",
}
_PAGES_KEY = "=QQ"  # struct migrations_pages_key
_TASKS_KEY = "=QIHH"  # struct migrations_tasks_key
_NO_NODE = 0xFFFF
_REASONS_PER_CGROUP = 2
_MOVES_PER_PAIR = 2
_REASONS = (
    "compaction",
    "memory_failure",
    "memory_hotplug",
    "syscall_or_cpuset",
    "mempolicy_mbind",
    "numa_misplaced",
    "contig_range",
    "longterm_pin",
    "demotion",
    "damon",
)
"""enum migrate_reason, in the kernel's own words and order."""
_EVENTS = ("moved", "stuck", "swapped")


@dataclass(frozen=True, slots=True)
class MigrationsByCgroup:
    """What the tasks in each cgroup itself did since load, by cgroup id. Descendants are not added."""

    succeeded: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Base pages that the cgroup's tasks moved, by reason."""
    failed: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Base pages that they could not move, by reason."""
    tasks: Mapping[int, Mapping[TaskMove, int]] = field(default_factory=dict)
    dropped: int = 0
    """Events not counted because a map was full."""
    missed: int = 0
    """Events not counted because another BPF program was running on that CPU."""

    @property
    def events(self) -> int:
        """How often the programs ran at most: one call of migrate_pages() moves one page or many."""
        pages = sum(sum(row.values()) for side in (self.succeeded, self.failed) for row in side.values())
        return pages + sum(sum(row.values()) for row in self.tasks.values()) + self.dropped

    def since(self, earlier: MigrationsByCgroup) -> MigrationsByCgroup:
        """What came between two reads. A cgroup without news is left out."""
        return MigrationsByCgroup(
            counters.added(self.succeeded, earlier.succeeded),
            counters.added(self.failed, earlier.failed),
            counters.added(self.tasks, earlier.tasks),
            self.dropped - earlier.dropped,
            self.missed - earlier.missed,
        )


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load for so many cgroups and nodes."""
    return ProbeRequest(
        name=NAME,
        programs=tuple(
            Program(function, ProgramType.TRACEPOINT, tracepoint) for tracepoint, function in _TRACEPOINTS.items()
        ),
        maps=("migrations_pages", "migrations_tasks", "migrations_dropped"),
        defines={
            "MIGRATIONS_PAGE_ENTRIES": cgroups * _REASONS_PER_CGROUP,
            "MIGRATIONS_TASK_ENTRIES": cgroups * nodes * _MOVES_PER_PAIR,
        },
    )


class Migrations:
    """The running probe. Reading raises OSError."""

    def __init__(self, host: Host, loaded: LoadedProbe) -> None:
        """Attach. Raises Refusal, and OSError when a map cannot be used."""
        self._loaded = loaded
        self._pages = Map.of(loaded.maps["migrations_pages"], host)
        self._tasks = Map.of(loaded.maps["migrations_tasks"], host)
        self._dropped = Map.of(loaded.maps["migrations_dropped"], host)
        self._events: list[int] = []
        try:
            for tracepoint, function in _TRACEPOINTS.items():
                self._attach(tracepoint, function)
        except Refusal:
            self._detach()
            raise

    def read(self) -> MigrationsByCgroup:
        """All counters since load."""
        dropped = sum(sum(sum_per_cpu(entries.values, self._dropped.cpus)) for entries in self._dropped.read())
        missed = sum(bpf.read_program_info(program).misses for program in self._loaded.programs.values())
        return decode(self._pages.read(), self._tasks.read(), self._pages.cpus, dropped, missed)

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every other cgroup, so that dead ones do not fill the maps; how many went."""
        return sum(
            one.delete(key)
            for one in (self._pages, self._tasks)
            for key in one.read_keys()
            if struct.unpack_from("=Q", key)[0] not in cgroups
        )

    def close(self) -> None:
        self._detach()
        self._loaded.close()

    def _attach(self, tracepoint: str, function: str) -> None:
        """One CPU's event is enough, for a tracepoint's programs run on all CPUs."""
        try:
            event = perf_event.open_event(perf_event.tracepoint(self._loaded.tracepoint_ids[tracepoint]), cpu=0)
            self._events.append(event)
            perf_event.set_program(event, self._loaded.programs[function])
            perf_event.enable(event)
        except OSError as error:
            raise reasons.of_error(f"cannot attach to the tracepoint {tracepoint}", error) from error

    def _detach(self) -> None:
        for event in self._events:
            os.close(event)
        self._events.clear()


def decode(
    pages: Iterable[Entries], tasks: Iterable[Entries], cpus: int, dropped: int = 0, missed: int = 0
) -> MigrationsByCgroup:
    """Map entries as the kernel packs them, per-CPU values of `cpus` CPUs, into sums by cgroup."""
    succeeded: dict[int, dict[str, int]] = {}
    failed: dict[int, dict[str, int]] = {}
    for chunk in pages:
        keys = struct.iter_unpack(_PAGES_KEY, chunk.keys)
        moved, stayed = (sum_per_cpu(chunk.values, cpus, field, fields=2) for field in range(2))
        for (cgroup, reason), done, left in zip(keys, moved, stayed, strict=True):
            name = _REASONS[reason] if reason < len(_REASONS) else f"reason_{reason}"
            succeeded.setdefault(cgroup, {})[name] = done
            failed.setdefault(cgroup, {})[name] = left
    moves: dict[int, dict[TaskMove, int]] = {}
    for chunk in tasks:
        keys = struct.iter_unpack(_TASKS_KEY, chunk.keys)
        for (cgroup, event, source, target), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            to_node = None if target == _NO_NODE else target
            moves.setdefault(cgroup, {})[TaskMove(_EVENTS[event], source, to_node)] = count
    return MigrationsByCgroup(succeeded, failed, moves, dropped, missed)
