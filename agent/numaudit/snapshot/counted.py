"""The counts of probes as values, and the cost of counting. None = not known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from numaudit.encoding.value import Value


class HintFault(Struct, frozen=True, order=True, cache_hash=True, dict=True):
    """One kind of NUMA hint fault: a task on a node used memory of a node. Source: TNF_ flags of the kernel.

    Few kinds occur, and each in the counts of many containers: a value works out each of its properties once.
    """

    cpu_node: int
    memory_node: int
    """After a migration: the node that the page came to."""
    flags: int

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kernel's flags in its own words; local means that the page was found on the CPU's node."""
        words = ("migrated", "no_group", "shared", "local", "migrate_fail")
        return tuple(word for bit, word in enumerate(words) if self.flags >> bit & 1)

    @cached_property
    def is_remote(self) -> bool:
        """True when the page was on another node than the CPU when it was used; a move by the fault itself does not
        count.

        Source: mm/memory.c (do_numa_page).
        """
        was_found_here = bool(self.flags & 8)
        return not was_found_here and (self.cpu_node != self.memory_node or self.has_moved)

    @cached_property
    def stays_remote(self) -> bool:
        """The page was on another node, and still is."""
        return self.is_remote and not self.has_moved

    @cached_property
    def has_moved(self) -> bool:
        return bool(self.flags & 1)

    @cached_property
    def is_shared(self) -> bool:
        """The page is of a shared mapping and other processes map it, too."""
        return bool(self.flags & 4)

    @cached_property
    def could_not_move(self) -> bool:
        return bool(self.flags & 16)


class SeenRemote(Struct, frozen=True):
    """Memory that was seen used from another node in one scan pass of each process, in bytes: so much at least.

    In pages as the kernel maps them: a used byte of a huge page counts 2 MiB. What is not in it says nothing.
    """

    by_pair: Mapping[tuple[int, int], int]
    """By the CPU's node and the memory's."""
    age: float
    """Seconds since the oldest of it was seen."""
    passes_since: int
    """Most scan passes of one of the processes that were through since then."""
    mapped: int | None = None
    """Bytes that its processes map; None = they cannot be read."""
    pass_age: float = 0.0
    """Seconds since the oldest of these passes was first seen to go on."""

    @property
    def at_least(self) -> int:
        return sum(self.by_pair.values())


class Sampled(Struct, frozen=True):
    """NUMA hint faults of one container."""

    faults: Mapping[HintFault, int]
    """Base pages since the probe was loaded: how often pages were found used, by kind of fault."""
    used: SeenRemote | None = None
    """None = no pass is known."""
    knows_passes: bool = True
    """False: this kernel does not say in which pass a page faulted."""
    is_scanned: bool = True
    """False: the kernel leaves its tasks out, so no faults mean nothing."""
    is_watched: bool = True
    """False: it was not on the watch list, so no faults mean nothing."""
    by_process: Mapping[int, SeenRemote] | None = None
    """Of its processes, where those were asked for."""


Locality = Literal["local", "remote"]


class CountBasis(Struct, frozen=True):
    """The unit of a counted access."""

    set: str
    """The events, by the name of their set in the table of CPU families."""
    unit: Literal["lines", "loads"]
    includes_prefetch: bool | None
    """None = on some implementations."""


class CountedAccesses(Struct, frozen=True):
    """One container's memory accesses since the probe was loaded, as the processor counts them."""

    basis: CountBasis
    by_node: Mapping[tuple[int, Locality], int]
    """By the CPU's node, and whether the memory was its own. Empty when no counter ran while the container did."""
    enabled_ns: int
    """Nanoseconds of CPU time in which they were to be counted."""
    running_ns: int
    """Of these, the nanoseconds in which the processor counted; the rest is made up for in proportion."""
    is_watched: bool = True
    """False: it is not on the watch list now, so what it does is not counted."""


class CountedOfProcess(NamedTuple):
    """One process's memory accesses during the measurement. On which node it was when, the counters do not say."""

    local: int
    remote: int
    enabled_ns: int
    running_ns: int
    """Both as in `CountedAccesses`."""


class ProcessAccesses(Struct, frozen=True):
    """Memory accesses of the processes that were asked for, as the processor counts them."""

    basis: CountBasis | None
    """None = none are counted."""
    counted: Mapping[int, CountedOfProcess]
    """By process."""
    uncounted: Mapping[int, str]
    """Reasons, by process."""
    refused: str | None = None
    """Reason why none are counted."""


class MigratedPages(NamedTuple):
    """Base pages that a container's tasks moved to another node, or could not move. They need not be its own."""

    succeeded: int
    failed: int


class TaskMove(NamedTuple):
    """NUMA balancing moved a task to another node, swapped it with another, or found that it had to stay."""

    event: str
    from_node: int
    to_node: int | None
    """None = no node was found for it."""


class Migrated(Struct, frozen=True):
    """Migrations that one container's tasks carried out since the probe was loaded."""

    pages: Mapping[str, MigratedPages]
    """By the kernel's reason: numa_misplaced, syscall_or_cpuset, ..."""
    tasks: Mapping[TaskMove, int]
    between: Mapping[tuple[int | None, int], MigratedPages] | None = None
    """Those that NUMA balancing moved (numa_misplaced), by the node they were on and the one they were to go to.

    None as the first node: the kernel does not say where it keeps a page's node. None at all: this kernel lets no
    program watch them.
    """


class Cost(Struct, frozen=True):
    """The cost of one event of a probe."""

    ns: float
    basis: Literal["measured", "assumed"]


class OverheadOfProbe(Value, frozen=True):
    """The work of one probe since the agent's first tick."""

    probe: str
    """Name of the probe."""
    events: int
    """Number of events that it counted."""
    seconds: float
    """Estimated CPU time: events x nanoseconds for each."""
    ns_per_event: float = msgspec.field(name="nanosecondsPerEvent")
    """As it is now."""
    basis: Literal["measured", "assumed"]
    """Of the nanoseconds: measured on this host, or assumed where it does not let us measure."""


class ProbeAccount(Value, frozen=True):
    """One probe's report about itself, since it was loaded."""

    probe: str
    """Name of the probe."""
    lost: Mapping[str, int]
    """Events that it did not count, by reason: map-full, busy, cpu-away."""
    runs: int | None
    """Runs of its programs by the kernel's own count; None = kernel.bpf_stats_enabled is 0, or it has no program."""
    run_seconds: float | None
    """CPU time of these runs, the hook's own cost not included."""


class Overhead(Value, frozen=True):
    """The cost of the probes, and the steps that keep them within their budget."""

    cpu_share: float | None
    """Of the CPU time of all CPUs since the previous tick; None at the first tick."""
    limit: float
    """The largest share that the probes may take."""
    steps: tuple[str, ...]
    """Steps in force, in this order; empty = none."""
    coverage: float | None
    """Share of the containers that are on the watch list; None = all are watched."""
    probes: tuple[OverheadOfProbe, ...]
    """Cost of each probe."""


class Rates(Value, frozen=True):
    """Growth of a capture's counters between its two readings."""

    seconds: float
    """Time between them."""
    numa_balancing: Mapping[str, float] | None
    """The counters of `numaBalancing`, per second; null = not read twice."""
    numastat_bytes_per_second: Mapping[int, Mapping[str, float]]
    """Node -> counter of its `numastatBytes`."""
