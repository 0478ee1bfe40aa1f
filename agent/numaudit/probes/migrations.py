"""migrations: which cgroups moved pages, and why; which tasks NUMA balancing moved (bpf/migrations.bpf.c).

Page migrations are charged to the task that moves the pages: with NUMA balancing that is the one that uses them,
but a changed cpuset.mems is carried out by a kernel worker in the root cgroup. The event carries no nodes; of NUMA
balancing's own migrations they are known where a program can be put on the function that carries them out.
Source: include/trace/events/migrate.h, include/trace/events/sched.h, include/linux/migrate_mode.h,
mm/migrate.c (migrate_misplaced_folio).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numaudit.kernel.host import Host
from numaudit.kernel.memory.node_cpus import online_nodes
from numaudit.kernel.tracing import btf
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import MapEntries, sum_per_cpu
from numaudit.kernel.tracing.btf import Btf, Function
from numaudit.probes.bpf_probe import BpfProbe
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.function_entry import Programs, Way
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.probe import Loss, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal
from numaudit.snapshot.counted import TaskMove
from numaudit.topology.nodeset import NodeSet

_NAME = "migrations"
_TRACEPOINTS = {
    "migrate:mm_migrate_pages": "migrations_on_mm_migrate_pages",
    "sched:sched_move_numa": "migrations_on_move",
    "sched:sched_stick_numa": "migrations_on_stick",
    "sched:sched_swap_numa": "migrations_on_swap",
}
_FIELDS = {
    "migrate:mm_migrate_pages": {
        "MIGRATIONS_SUCCEEDED": "succeeded",
        "MIGRATIONS_FAILED": "failed",
        "MIGRATIONS_REASON": "reason",
    },
    "sched:sched_move_numa": {"MIGRATIONS_MOVE_FROM": "src_nid", "MIGRATIONS_MOVE_TO": "dst_nid"},
    "sched:sched_stick_numa": {"MIGRATIONS_STICK_FROM": "src_nid", "MIGRATIONS_STICK_TO": "dst_nid"},
    "sched:sched_swap_numa": {"MIGRATIONS_SWAP_FROM": "src_nid", "MIGRATIONS_SWAP_TO": "dst_nid"},
}
"""Tracepoint -> its fields that the program loads."""
_FUNCTIONS = ("migrate_misplaced_folio", "migrate_misplaced_page")
"""The function by which NUMA balancing moves a page: on 6.12 and newer, and on 6.1."""
_NODE_PARAMETER = "node"
NUMA_MISPLACED = "numa_misplaced"
_THREADS = 4096
"""That may be moving a page at the same moment; it takes a fraction of a millisecond."""
_PAGES_KEY = "=QQ"  # struct migrations_pages_key
_TASKS_KEY = "=QIHH"  # struct migrations_tasks_key
_BETWEEN_KEY = "=QII"  # struct migrations_between_key
_NO_NODE = 0xFFFF
_REASONS_PER_CGROUP = 2
_MOVES_PER_PAIR = 2
REASONS = (
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

Nodes = tuple[int | None, int]
"""The node that pages were on and the one that they were to go to. None = the page's node is not known."""
Between = tuple[Mapping[int, Mapping[Nodes, int]], Mapping[int, Mapping[Nodes, int]]]
"""Pages moved and pages not moved, by cgroup id."""


@dataclass(frozen=True, slots=True)
class MigrationCounts(Reading):
    """Pages that the tasks in each cgroup moved since load. Pages are base pages."""

    succeeded: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Pages that the cgroup's tasks moved, by reason."""
    failed: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Pages that they could not move, by reason."""
    tasks: Mapping[int, Mapping[TaskMove, int]] = field(default_factory=dict)
    succeeded_between: Mapping[int, Mapping[Nodes, int]] = field(default_factory=dict)
    """Those of `succeeded` that NUMA balancing moved while its function was watched, by nodes."""
    failed_between: Mapping[int, Mapping[Nodes, int]] = field(default_factory=dict)
    nodes_refused: ProbeRefusal | None = None
    """Reason why moved pages have no nodes here."""
    counted_by = ("succeeded", "failed", "tasks")

    @property
    def events(self) -> int:
        """At most: one call of migrate_pages() moves one page or many."""
        pages = sum(sum(row.values()) for side in (self.succeeded, self.failed) for row in side.values())
        return pages + sum(sum(row.values()) for row in self.tasks.values()) + self.lost.get("map-full", 0)


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """Request for the loader."""
    entry, layout = _mover(function_entry.read_btf(host))
    return ProbeRequest(
        name=_NAME,
        programs=(
            *(
                BpfProgram(function, ProgramType.TRACEPOINT, tracepoint, fields=_FIELDS[tracepoint])
                for tracepoint, function in _TRACEPOINTS.items()
            ),
            *entry.wanted,
        ),
        maps=("migrations_pages", "migrations_between", "migrations_begun", "migrations_tasks"),
        entries={
            "migrations_pages": cgroups * _REASONS_PER_CGROUP,
            "migrations_between": cgroups * nodes,
            "migrations_tasks": cgroups * nodes * _MOVES_PER_PAIR,
            "migrations_begun": _THREADS,
        },
        numbers={"MIGRATIONS_NUMA_MISPLACED": REASONS.index(NUMA_MISPLACED), **layout},
        refused=entry.refused,
    )


def _mover(types: Btf | ProbeRefusal) -> tuple[Programs, dict[str, int]]:
    """The function by which NUMA balancing moves a page, and where it finds the page's node and the one to go to."""
    registers = function_entry.registers()
    name, argument, flags = _FUNCTIONS[0], 0, None
    found: Function | ProbeRefusal | None = types if isinstance(types, ProbeRefusal) else None
    if isinstance(types, Btf):
        flags = btf.page_flags(types)
        for candidate in _FUNCTIONS:
            function = types.function(candidate)
            if function is not None and _NODE_PARAMETER in function.parameters[: len(registers)]:
                name, found, argument = candidate, function, function.parameters.index(_NODE_PARAMETER)
                break
    layout = {
        "MIGRATIONS_PAGE_REGISTER": registers[0],
        "MIGRATIONS_NODE_REGISTER": registers[argument],
        "MIGRATIONS_NODE_ARGUMENT": function_entry.WORD * argument,
        "MIGRATIONS_FLAGS_OFFSET": 0 if flags is None else flags.offset,
        "MIGRATIONS_NODE_BITS": 0 if flags is None else flags.node_bits,
    }
    return function_entry.programs(_NAME, name, found), layout


class Migrations(BpfProbe):
    """The running probe."""

    tables = ("pages", "between", "tasks")

    def __init__(self, host: Host, loaded: LoadedProbe, ways: Sequence[Way] = function_entry.WAYS) -> None:
        """Attach; nodes are known where one of the ways works. Raises ProbeRefusal, and OSError for an unusable map."""
        self._ways = ways
        self.nodes_refused: ProbeRefusal | None = None
        super().__init__(host, loaded)

    @property
    def how(self) -> str:
        if self.nodes_refused is not None:
            return f"without the nodes that pages were moved between: {self.nodes_refused.text}"
        return f"nodes by {self.hook}"

    def read(self) -> MigrationCounts:
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": self._missed(self._loaded.programs)}
        pages, tasks, between = (self._maps[name] for name in ("pages", "tasks", "between"))
        nodes = decode_between(between.read(), pages.cpus, online_nodes(self._host))
        return decode(pages.read(), tasks.read(), pages.cpus, nodes, lost, self.nodes_refused)

    def _attach(self) -> None:
        for tracepoint, program in _TRACEPOINTS.items():
            self._attach_tracepoint(tracepoint, program)
        self.hook = self._attach_between()

    def _attach_between(self) -> str | None:
        """Its hook; None = refused, and only the nodes are lost."""
        function = next(iter(self._loaded.kernel_functions.values()), _FUNCTIONS[0])
        try:
            attached = function_entry.attach(self._host, self._loaded, _NAME, function, self._ways)
        except ProbeRefusal as refusal:
            self.nodes_refused = refusal
            return None
        self._hooks.append(attached.descriptor)
        return f"{attached.way} on {function}"


MIGRATIONS = ProbeKind(_NAME, request, Migrations, ns_per_event=400.0)


def decode(
    pages: Iterable[MapEntries],
    tasks: Iterable[MapEntries],
    cpus: int,
    between: Between | None = None,
    lost: Mapping[Loss, int] | None = None,
    nodes_refused: ProbeRefusal | None = None,
) -> MigrationCounts:
    """Map entries as the kernel packs them, per-CPU values of `cpus` CPUs, into sums by cgroup."""
    succeeded: dict[int, dict[str, int]] = {}
    failed: dict[int, dict[str, int]] = {}
    for (cgroup, reason), done, left in _pages(pages, _PAGES_KEY, cpus):
        name = REASONS[reason] if reason < len(REASONS) else f"reason_{reason}"
        succeeded.setdefault(cgroup, {})[name] = done
        failed.setdefault(cgroup, {})[name] = left
    moves: dict[int, dict[TaskMove, int]] = {}
    for chunk in tasks:
        keys = struct.iter_unpack(_TASKS_KEY, chunk.keys)
        for (cgroup, event, source, target), count in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            to_node = None if target == _NO_NODE else target
            moves.setdefault(cgroup, {})[TaskMove(_EVENTS[event], source, to_node)] = count
    moved, stayed = between or ({}, {})
    return MigrationCounts(succeeded, failed, moves, moved, stayed, nodes_refused, lost=lost or {})


def decode_between(entries: Iterable[MapEntries], cpus: int, online: NodeSet) -> Between:
    """The same for pages by nodes: those that were moved, and those that could not be.

    A page on an offline node means that its flags hold the node elsewhere than assumed: count it as unknown.
    """
    succeeded: dict[int, dict[Nodes, int]] = {}
    failed: dict[int, dict[Nodes, int]] = {}
    for (cgroup, source, target), done, left in _pages(entries, _BETWEEN_KEY, cpus):
        nodes = (source if source in online else None, target)
        for sums, pages in ((succeeded, done), (failed, left)):
            row = sums.setdefault(cgroup, {})
            row[nodes] = row.get(nodes, 0) + pages
    return succeeded, failed


def _pages(entries: Iterable[MapEntries], key: str, cpus: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Key, pages moved and pages not moved, of maps of struct migrations_pages_value."""
    for chunk in entries:
        moved, stayed = (sum_per_cpu(chunk.values, cpus, field, fields=2) for field in range(2))
        yield from zip(struct.iter_unpack(key, chunk.keys), moved, stayed, strict=True)
