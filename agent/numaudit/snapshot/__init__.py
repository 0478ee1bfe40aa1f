"""The measurements of one tick: immutable values. None = not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, NewType

import msgspec
from msgspec import Struct, field

from numaudit.containermanager.pod.spec import QosClass
from numaudit.encoding.value import Timestamp, Value
from numaudit.intent.node import Intent
from numaudit.pmu.stall import Penalty
from numaudit.ranks.declaration import ProcessTold
from numaudit.snapshot.counted import CountedAccesses, Migrated, Overhead, ProbeAccount, ProcessAccesses, Rates, Sampled
from numaudit.snapshot.host_settings import HostSettings
from numaudit.snapshot.processes import (
    ContainerDevices,
    ContainerProcesses,
    ProcessMappings,
    RankRound,
    SampledTime,
    WatchedProcesses,
)
from numaudit.topology.machine import HugePagePool, HugePages, Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import TierSettings

BytesByNode = Mapping[int, int]
"""Node id -> bytes."""
HugeBytes = Mapping[int, BytesByNode]
"""Page size in bytes -> bytes by node."""

ContainerId = NewType("ContainerId", int)
"""The inode of the cgroup folder, which is what the kernel calls the cgroup id."""

ENDED, UNSEEN = ContainerId(-1), ContainerId(-2)
"""Owners of what probes have counted for the whole host: of containers that have ended, and of cgroups that came and
went between two ticks."""

Kind = Literal["container", "sandbox", "pod", "service", "scope", "slice", "group", "job", "step"]
"""The kind of a cgroup. `sandbox` is a pod's pause container; `job` and `step` are Slurm's; `group` is a cgroup of no
known shape."""

Qos = QosClass


class Container(Struct, frozen=True):
    """One owner of memory: a Kubernetes container, a systemd unit, or a plain cgroup."""

    id: ContainerId
    path: str
    """cgroup path inside the memory hierarchy, for people: what cannot be printed stands in it as an escape."""
    kind: Kind
    whole: bool = True
    """True: everything below the cgroup belongs to it. False: only what its children do not hold, because
    they are containers of their own: what it holds itself, and what removed children left behind."""
    qos: Qos | None = None
    runtime: str | None = None
    container_id: str | None = None
    pod_uid: str | None = None
    namespace: str | None = None
    pod: str | None = None
    name: str | None = None
    """The container's name in its pod."""


class Allowed(Struct, frozen=True):
    """The container's allowed nodes and CPUs: cpuset.mems and cpuset.cpus, effective."""

    nodes: NodeSet | None
    cpus: CpuSet | None
    own_nodes: NodeSet | None = None
    """cpuset.mems of the group itself; empty = it inherits, None = not read, as it is where the promise holds."""
    narrowed_at: str | None = None
    """Uppermost cgroup above it whose own cpuset.mems lacks promised nodes; None = not read, or none does."""


class Resident(Struct, frozen=True, dict=True):
    """Bytes by node, each byte in one type. None = the kernel does not say."""

    anon: BytesByNode | None = None
    """Transparent huge pages included. cgroup v1 counts shmem here too."""
    shmem: BytesByNode | None = None
    file: BytesByNode | None = None
    """Page cache without shmem."""
    hugetlb: BytesByNode | None = None
    kernel: BytesByNode | None = None
    """Kernel stacks, page tables and slab charged to the cgroup."""
    unevictable: BytesByNode | None = None
    """cgroup v1 only: locked pages, whose type is not known."""
    mapped: BytesByNode | None = None
    """No type of its own: of shmem and file, what some process maps. Only of whole containers."""
    huge_pages: HugeBytes | None = None
    """hugetlb by page size; None = the machine has no huge pages, or hugetlb is not known either."""
    demoted: BytesByNode | None = None
    """No type of its own: what the kernel has moved from this node to a slower memory tier since the cgroup was made.
    Only of whole containers, on hosts with several tiers."""
    promoted: BytesByNode | None = None
    """The same, of what it has moved from slower tiers to this node."""

    def sum_of(self, types: Iterable[str]) -> dict[int, int]:
        """The sum of some types by node; types that the kernel does not show add nothing."""
        sums: dict[int, int] = {}
        for kind in types:
            by_node: BytesByNode | None = getattr(self, kind)
            if not sums:
                sums = dict(by_node or {})
            elif by_node:
                for node, size in by_node.items():
                    if size or node not in sums:
                        sums[node] = sums.get(node, 0) + size
        return sums

    @cached_property
    def judged(self) -> BytesByNode:
        """The bytes that judge alignment."""
        return self.sum_of(JUDGED_TYPES)


RESIDENT_TYPES = ("anon", "shmem", "file", "hugetlb", "kernel", "unevictable")
JUDGED_TYPES = ("anon", "shmem", "hugetlb")
"""Page cache and kernel memory on another node are normal, so they do not count in verdicts."""


class SharedMemory(Value, frozen=True):
    """A piece of shared memory that processes map. Each page is in the residency of whoever used it first."""

    kind: Literal["shmem", "hugetlb"]
    """Shared memory of a tmpfs or without a name, or of huge pages."""
    file: str
    """Its name; the kernel makes one up for memory without any (/dev/zero, /SYSV..., /memfd:...)."""
    bytes_by_node: BytesByNode = msgspec.field(name="bytes")
    """By node, at least these; each page once."""
    charged_to: ContainerId | None
    """`id` of the container that all sampled pages are charged to; null = they are of several, or it is not known."""


class ProcessMapping(Value, frozen=True):
    """The mappings of one kind, policy and file of one process. No files of disks: they do not judge alignment."""

    pid: int
    """Process id."""
    process: str | None
    """Its name; null = it has ended."""
    started_at: Timestamp | None
    """Time when the process began; null = not known."""
    kind: str
    """anon, heap, stack, shmem or hugetlb."""
    policy: str
    """The mapping's memory policy now, as the kernel prints it: default, bind:1, interleave:0-3, ..."""
    file: str | None
    """Of shmem."""
    bytes_by_node: BytesByNode = msgspec.field(name="bytes")
    """By node."""


class Mappings(Struct, frozen=True):
    """Kinds of mapping and memory policies from /proc/PID/numa_maps, in bytes by node.

    A page that several processes map counts once for each of them.
    """

    by_kind: Mapping[str, BytesByNode]
    """anon, file, hugetlb, stack, heap."""
    by_policy: Mapping[str, BytesByNode]
    """As the kernel prints the policy: default, bind:1, interleave:0-3, ..."""
    by_page_size: Mapping[int, BytesByNode]
    """Page size in bytes -> bytes by node."""
    processes_read: int
    processes: int
    """Those that live. More than were read: the time budget ran out, or some were not readable."""
    shared: tuple[SharedMemory, ...] | None = None
    """The largest first; None = no process showed which of its mappings are shared."""
    by_process: tuple[ProcessMapping, ...] = ()
    unsampled: Mapping[str, int] = field(default_factory=dict)
    """Bytes that NUMA balancing never samples, by the reason: huge-pages, policy, file."""
    read: Mapping[int, ProcessMappings] = field(default_factory=dict)
    """By process; only where processes were asked for."""
    unread: Mapping[int, str] = field(default_factory=dict)
    """Processes that live and were not read, and why."""


class NodeMemory(Struct, frozen=True):
    """One node's own counters, read independently of any cgroup."""

    node: int
    total: int | None
    free: int | None
    resident: Resident
    """By the node's meminfo and its huge page counters, in bytes."""
    huge_pages: tuple[HugePages, ...] = ()
    reclaimable: int | None = None
    """Page cache and slab that the kernel can drop when memory is asked for, in bytes."""
    kernel_held: int | None = None
    """Memory of the kernel's own that it cannot drop: stacks, page tables and slab, in bytes."""
    unevictable: int | None = None
    """Memory that the kernel can neither drop nor move, as mlock(2) makes it, in bytes."""
    numastat: Mapping[str, int] | None = None
    """numa_hit, numa_miss, numa_foreign, interleave_hit, local_node, other_node in bytes."""


class Swap(Struct, frozen=True):
    """Swap of the host, in bytes."""

    total: int
    free: int
    limits: Mapping[ContainerId, int | None] = field(default_factory=dict)
    """Bytes that a container may have in swap (memory.swap.max, of the groups above it too); None = as many as there
    are. Empty where there is no swap, and on cgroup v1."""


class Balancing(Struct, frozen=True):
    """The kernel's own counters of NUMA balancing and migrations, without any BPF program."""

    host: Mapping[str, int]
    """The lines numa_*, pgmigrate_*, pgdemote_* and pgpromote_* of /proc/vmstat, since boot."""
    by_container: Mapping[ContainerId, Mapping[str, int]]
    """The lines numa_* of memory.stat since the cgroup was made; empty before Linux 6.12."""


class CollectorOutcome(Value, frozen=True):
    """Outcome of one collector in this tick."""

    source: str
    """Name of the collector, or source of the kubelet."""
    state: Literal["ok", "partial", "absent", "unavailable", "failed"]
    """absent: there is nothing here that could be asked, such as a kubelet, and nobody asked for it."""
    reason: str | None = None
    """Reason why it is not ok; null = it is."""
    seconds: float | None = None
    """Time that it took in seconds; null = not timed."""
    skipped: int = 0
    """Items that vanished or could not be read."""
    age_seconds: float | None = None
    """Time since the kubelet's source gave the values in use; null = they are of this tick, or of a captured host."""
    old: bool = False
    """The source does not answer now, and its last values are used."""


class Snapshot(Struct, frozen=True):
    """All of one tick. Maps by container hold no key for a container that could not be read."""

    taken_at: float
    """Seconds since the epoch; of a captured host, when it was captured, as far as the capture says so."""
    machine: Machine
    cgroup_mode: str | None
    containers: tuple[Container, ...] = ()
    is_whole_host: bool = True
    """False: there may be cgroups that are not to be seen, as from a cgroup namespace."""
    allowed: Mapping[ContainerId, Allowed] = field(default_factory=dict)
    residency: Mapping[ContainerId, Resident] = field(default_factory=dict)
    not_resident: Mapping[ContainerId, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Of containers whose residency, or a type of it, is not known for a reason of their own: what, and why."""
    numa_maps: Mapping[ContainerId, Mappings] = field(default_factory=dict)
    nodes: tuple[NodeMemory, ...] = ()
    huge_page_pools: tuple[HugePagePool, ...] = ()
    """By page size, of the machine as a whole; empty = the kernel shows none."""
    processes: Mapping[ContainerId, ContainerProcesses] = field(default_factory=dict)
    """Of the containers whose processes were asked for."""
    told: Mapping[ContainerId, Mapping[int, ProcessTold]] = field(default_factory=dict)
    """Declarations of these processes, by their ids."""
    devices: Mapping[ContainerId, ContainerDevices] = field(default_factory=dict)
    """PCI devices of the containers that were asked for, now or lately."""
    watched: Mapping[ContainerId, WatchedProcesses] = field(default_factory=dict)
    """Of the containers that declare a placement, where an agent was told to watch ranks."""
    rank_round: RankRound | None = None
    """None = nobody watches ranks."""
    interleave_weights: Mapping[int, int] | None = None
    """By node; None = not read, or the kernel knows no weighted interleave."""
    swap: Swap | None = None
    """None = not known."""
    settings: HostSettings | None = None
    """Of the kernel, with facts of the firmware, read up to an hour ago; None = not read."""
    tiers: TierSettings | None = None
    """Switches of moves between memory tiers; None = there is one tier, or they are not known."""
    unattributed: Resident | None = None
    """Memory of no container, read from the root cgroup and the processes in it."""
    intent: Intent | None = None
    """The kubelet's promises; None = there is no kubelet to ask."""
    cpu_time: Mapping[ContainerId, Mapping[int, float]] | None = None
    """CPU time by node since the probe was loaded; None = not measured."""
    sampled_time: Mapping[ContainerId, SampledTime] | None = None
    """CPU time between a capture's two readings, which proves nothing; None = there are none."""
    rates: Rates | None = None
    """Between a capture's two readings; None = there are none."""
    page_alloc: Mapping[ContainerId, Mapping[tuple[int, int | None], int]] | None = None
    """(CPU's node, page's node) -> bytes given since the probe was loaded; None = not measured."""
    pmu: Mapping[ContainerId, CountedAccesses] | None = None
    """Counted memory accesses; None = not measured. A container that is not in it did not run."""
    process_accesses: ProcessAccesses | None = None
    """Counted memory accesses by process; None = nobody asked for processes and a measurement."""
    penalty: Penalty | None = None
    """The cost of a remote access on this machine; None = accesses are not counted."""
    hint_faults: Mapping[ContainerId, Sampled] | None = None
    """Samples of memory accesses; None = not measured. A container that is not in it had none."""
    migrations: Mapping[ContainerId, Migrated] | None = None
    """None = not measured. A container that is not in it moved nothing."""
    numa_balancing: Balancing | None = None
    """None = the kernel does not show it."""
    overhead: Overhead | None = None
    """None = no account is kept of it, as in a one-off report."""
    probes: Mapping[str, ProbeAccount] = field(default_factory=dict)
    """Of those that were read in this tick."""
    outcomes: tuple[CollectorOutcome, ...] = ()

    def ran(self, container: ContainerId) -> Mapping[int, float] | None:
        """CPU time by node, counted or else sampled; None = neither."""
        if self.cpu_time is not None:
            return self.cpu_time.get(container, {})
        found = None if self.sampled_time is None else self.sampled_time.get(container)
        return None if found is None else found.by_node


class Check(Value, frozen=True):
    """One thing this host can or cannot measure."""

    name: str
    """Name of the check."""
    state: Literal["ok", "reduced", "missing", "n/a"]
    """ok, reduced (with limits), missing, or n/a: not on a machine, or in a capture, of this kind."""
    detail: str
    """Result of the check."""
    hint: str | None = None
    """Advice. None when nothing is to be done."""
    reason: str | None = None
    """Reason why it is not ok, as one word of a fixed vocabulary; None = `detail` alone says it."""

    @property
    def works(self) -> bool:
        return self.state in ("ok", "reduced")
