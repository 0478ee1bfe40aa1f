"""The report that people and programs read. Every value here goes out as it is, sets in the kernel's list format.

Per-container types are Structs, which are made in a fraction of a dataclass's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from numaudit.encoding.value import Timestamp, Value
from numaudit.evaluation.access import Access, Measured, RemoteStall
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.huge_pages import HugePagesOfContainer
from numaudit.evaluation.setup import SetupResult
from numaudit.evaluation.verdicts import Verdict
from numaudit.report.counters import Counters, TierMoves
from numaudit.report.kubelet import CheckpointReport, KubeletReport, RestartReport
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.processes import MappingsReport, ProcessesReport, RanksReport
from numaudit.snapshot import CollectorOutcome, Kind, ProcessMapping, Qos
from numaudit.snapshot.counted import Overhead, ProbeAccount, Rates
from numaudit.snapshot.processes import ContainerDevices, RankRound, TimeSource
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemorySpeed, TieringReport

ExpectedBasis = Literal["processes", "container"]


class Unknown(Value, frozen=True):
    """A fact that is unknown, and the reason."""

    what: str
    """The unknown figure."""
    reason: str
    """The reason why it is not known."""


class NodeBytes(Value, frozen=True, gc=False):
    """Bytes on one node, each byte in one type; null = the kernel does not say. Resident, seen from the node."""

    numa_node: int
    anon: int | None = field(name="anonBytes")
    """Private memory, transparent huge pages included; cgroup v1 counts shared memory here too."""
    shmem: int | None = field(name="shmemBytes")
    """Shared memory and files of tmpfs."""
    file: int | None = field(name="fileBytes")
    """Page cache of other files."""
    hugetlb: int | None = field(name="hugetlbBytes")
    """Huge pages of the pool."""
    kernel: int | None = field(name="kernelBytes")
    """Kernel stacks, page tables and slab."""
    unevictable: int | None = field(name="unevictableBytes")
    """cgroup v1 only: locked pages, whose type is not known."""

    @property
    def judged(self) -> int:
        """anon + shmem + hugetlb; what is not known adds nothing."""
        return (self.anon or 0) + (self.shmem or 0) + (self.hugetlb or 0)


class PromiseOfSource(Value, frozen=True):
    """One of several sources that promised something to a container."""

    source: Literal["kubelet", "dra"]
    """kubelet = its static managers; dra = a driver of a resource claim."""
    claim: str | None
    """Namespace and name of the claim; null = of the kubelet."""
    driver: str | None
    """The claim's driver; null = of the kubelet, or not known."""
    memory_nodes: NodeSet | None
    """Nodes of the memory that it promised; null = it promised none, or that is not known."""
    bytes: Mapping[str, int] | None
    """By resource: memory, hugepages-2Mi, ...; null as above."""
    cpus: CpuSet | None
    """Exclusive CPUs that it promised; null as above."""
    cpu_nodes: NodeSet | None
    """Nodes of these CPUs."""
    devices: tuple[str, ...]
    """Devices of the claim, `pool/device` each."""
    problem: str | None
    """Reason why it is not known what was promised; null = it is."""


class Intended(Value, frozen=True):
    """The promise of the kubelet's managers, and of its resource claims (DRA), to the container."""

    memory_nodes: NodeSet | None
    """Nodes of its memory; null = no memory was promised, or it is not known."""
    bytes: Mapping[str, int] | None
    """By resource: memory, hugepages-2Mi, ..."""
    cpus: CpuSet | None
    """Exclusive CPUs; empty = it runs on the shared pool."""
    cpu_nodes: NodeSet | None
    """Nodes of its exclusive CPUs; null = not known."""
    device_nodes: NodeSet | None
    """Nodes of its devices; null = it has none, or that is not known."""
    by_source: tuple[PromiseOfSource, ...] = ()
    """Each source of what is promised above; empty = the kubelet's managers alone."""


class ContainerReport(Counters, frozen=True):
    """One container, service or cgroup."""

    id: int | None
    """cgroup id; null, as is the path, for a promised container that does not run now, as in CrashLoopBackOff."""
    kind: Kind
    """Kind of cgroup."""
    path: str | None
    """Path of its cgroup."""
    namespace: str | None
    pod: str | None
    container: str | None
    pod_uid: str | None
    container_id: str | None
    """The runtime's id; null = no container of a runtime."""
    qos: Qos | None
    """The pod's QoS class; null = of no pod, or not known."""
    runtime: str | None
    """containerd, crio, docker, podman, ...; null = not known."""
    whole: bool
    """False: only what the cgroup itself holds; its children are listed on their own."""
    allowed_memory_nodes: NodeSet | None
    """cpuset.mems.effective; null = not known."""
    allowed_cpus: CpuSet | None
    """cpuset.cpus.effective; null = not known."""
    allowed_cpu_nodes: NodeSet | None
    """The nodes of the allowed CPUs."""
    resident: tuple[NodeBytes, ...] | None
    """Its bytes by node; null = not known."""
    judged_bytes: int | None
    remote_bytes: int | None
    """Judged bytes on nodes where none of the allowed CPUs are."""
    intended: Intended | None
    """The promise; null = not known, or of no kubelet."""
    aligned_bytes: int | None
    """Judged bytes on the promised nodes; null = nothing was promised, or it is not known."""
    verdict: Verdict | None
    """null for pause sandboxes and for what parent groups hold themselves: nothing is promised to those."""
    hint_outcome: HintOutcome | None
    """Outcome of its admission; null = nothing was promised, or it is not known."""
    findings: tuple[str, ...]
    """Names of the findings about this container; `findings` of the report has them whole."""
    tier_moves: tuple[TierMoves, ...] | None
    """Memory that the kernel moved between memory tiers since the cgroup was made, by node, where there was some; null
    = there is one tier, or the kernel (before Linux 6.12) does not count it by cgroup."""
    expected_remote_ratio: float | None
    """Share of accesses that would be remote if every byte were used equally from wherever its CPUs ran."""
    expected_basis: ExpectedBasis | None
    """processes = the sum over its processes, each with its own memory and CPU time; container = all of its memory from
    wherever any of its processes ran; null = there is no such share."""
    distance_ratio: float | None
    """The same, on the same basis, weighed by distance: mean distance from its CPUs to its bytes / 10, so 1.0 = all is
    local. null = no CPU time was measured, or a distance is not known."""
    accesses: tuple[Access, ...]
    """From where its memory was used, by source; the best source comes first."""
    measured: Measured | None
    """The measurement of the best source; null = none has measured anything. Verdict and gate judge by it."""
    remote_stall: RemoteStall | None
    """The cost of its remote accesses, at most; null = they were not counted."""
    mappings: MappingsReport | None
    """Its mappings; null = they were not read."""
    elsewhere: tuple[ProcessMapping, ...] | None
    """The processes' mappings with the most bytes on other nodes than the promised ones (without a promise, than those
    of the allowed CPUs), and only those bytes; shared memory of others is among them. null = the mappings were not
    read."""
    processes: ProcessesReport | None
    """Its processes; null = nobody asked for them (`--processes`)."""
    unknown: tuple[Unknown, ...]
    """Unknown figures of the container with their reasons."""
    huge_pages: tuple[HugePagesOfContainer, ...] | None = None
    """Its huge pages by size, as far as it uses or was promised some; null = not known."""
    devices: ContainerDevices | None = None
    """Its PCI devices; null = they were not read."""
    ranks: RanksReport | None = None
    """Its ranks, where the agent watches them (`ranks.enabled`); null = it declares no placement, was not read yet, or
    nobody watches. A one-off report has them in `processes`."""
    cpu_time_source: TimeSource | None = None
    """The source of `cpuSeconds` that a capture's two readings say, as that of processes: `last-cpu` is an estimate. No
    verdict is made of it. null = a BPF program counted them, or there are none."""

    @property
    def ranks_summary(self) -> str | None:
        """Its ranks in one sentence, whoever read them; None = there is none, or nobody read its processes."""
        found = self.processes or self.ranks
        return None if found is None else found.ranks_summary

    @property
    def page_cache_bytes(self) -> int:
        """Page cache over all nodes; what is not known adds nothing."""
        return sum(row.file or 0 for row in self.resident or ())

    @property
    def misplaced_bytes(self) -> int | None:
        """Judged bytes on nodes that were not promised; None where nothing was, or it is not known."""
        if self.judged_bytes is None or self.aligned_bytes is None:
            return None
        return self.judged_bytes - self.aligned_bytes

    @property
    def bytes_elsewhere(self) -> int:
        """Judged bytes on nodes that were not promised, or remote to its CPUs, whichever are more; 0 = none known."""
        return max(self.misplaced_bytes or 0, self.remote_bytes or 0)

    @property
    def aligned_ratio(self) -> float | None:
        """Share of judged bytes on a promised node; None also when nothing is resident."""
        return None if self.aligned_bytes is None or not self.judged_bytes else self.aligned_bytes / self.judged_bytes


class Ended(Value, frozen=True):
    """Counts since the measurement began of cgroups that are gone, and that no container here has.

    With the containers' own counts it makes all that was counted outside the root cgroup.
    """

    seen: Counters
    """Of containers that a tick has seen."""
    unseen: Counters | None
    """Of cgroups that came and went between two ticks; whose they were is not known. null = there may be other cgroups
    that are not to be seen from here."""

    @property
    def cpu_seconds(self) -> float:
        return sum(on.seconds for one in self._both for on in one.cpu_seconds or ())

    @property
    def allocated_bytes(self) -> int:
        return sum(pair.bytes for one in self._both for pair in one.allocated or ())

    @property
    def _both(self) -> tuple[Counters, ...]:
        return (self.seen,) if self.unseen is None else (self.seen, self.unseen)


class NodeReport(Value, frozen=True):
    """One node by its own counters."""

    numa_node: int
    cpus: CpuSet | None
    total_bytes: int | None
    """Its memory."""
    free_bytes: int | None
    """Of this, what is free."""
    resident: NodeBytes
    """Resident memory by its kind."""
    numastat_bytes: Mapping[str, int] | None
    """The kernel's counters since boot: numa_hit, numa_miss, numa_foreign, interleave_hit, local_node,
    other_node; null = not known."""
    distances: Mapping[int, int]
    sockets: tuple[int, ...] = ()
    """Ids of the sockets that its CPUs are in; empty = it has no CPUs, or the kernel does not say."""
    memory_tier: int | None = None
    memory_speed: MemorySpeed | None = None

    @property
    def used_bytes(self) -> int | None:
        """null = the counters do not say."""
        return None if self.total_bytes is None or self.free_bytes is None else self.total_bytes - self.free_bytes


class Residual(Value, frozen=True):
    """Difference between the three accounts of one node: node - containers - unattributed, signed.

    Each side is read on its own, from the node's meminfo, the containers' cgroups and the root cgroup.
    """

    numa_node: int
    node_bytes: int
    """By the node's own counters."""
    container_bytes: int
    """By the containers' cgroups, summed."""
    unattributed_bytes: int
    """By the root cgroup."""
    residual_bytes: int
    """The node's, less the two others; signed."""
    types: tuple[str, ...]
    """The types that all three sides show, and that are summed here."""


class Summary(Value, frozen=True):
    """One sentence about the containers of this report, and the numbers that it is made of."""

    text: str
    """The sentence."""
    containers: int
    """All rows that it is about, cgroups included; options such as --top leave out rows, and nothing of this."""
    kinds: Mapping[Kind, int]
    """Number of these rows of each kind that occurs: container, and apart from it sandbox, pod, slice and so on."""
    promised: int
    """Containers that are known to have a promise."""
    misaligned: int
    """Verdicts drifted, cpu-remote, spilled and remote-access."""
    split: int
    """Verdict split."""
    aligned: int
    """Verdict aligned."""
    unknown: int
    """Containers that may have a promise, and whose verdict is not known."""
    refused_pods: int
    """Pods that the kubelet refused."""


class Report(Value, frozen=True):
    """Everything one tick found on a host."""

    summary: Summary
    """One sentence, and the numbers in it."""
    taken_at: Timestamp
    """Time when it was measured, or captured; of a capture that does not say, when it was read."""
    cgroup_mode: str | None
    """v2, v1 or hybrid; null = no cgroups were found."""
    containers: tuple[ContainerReport, ...]
    """The misaligned ones first, of them the most bytes on wrong or remote nodes; the others by their verdict."""
    nodes: tuple[NodeReport, ...]
    """Every node, by its own counters."""
    unattributed: tuple[NodeBytes, ...] | None
    """Held by no container: the root cgroup's own memory."""
    ended: Ended | None
    """null = no probe was read."""
    residual: tuple[Residual, ...]
    """Difference between the accounts of each node."""
    findings: tuple[Finding, ...]
    """Problems and risks, the worst first."""
    rejections: tuple[HintOutcome, ...]
    """Pods that the kubelet refused."""
    setup: tuple[SetupResult, ...]
    """Rules about how the node is set up that do not hold, or that were accepted; `numaudit setup` has all."""
    kubelet: KubeletReport | None
    """null on a host without one."""
    checkpoints: tuple[CheckpointReport, ...]
    """The kubelet's three files."""
    memory_manager: MemoryManagerReport | None
    """null where no memory map can be read."""
    restarts: tuple[RestartReport, ...]
    """Of the kubelet and of the node, where they can be foreseen."""
    numa_balancing: Mapping[str, int] | None
    """The kernel's own counters of the whole host (numa_*, pgmigrate_*, pgdemote_* and pgpromote_* of /proc/vmstat)
    since boot."""
    tiering: TieringReport | None
    """Memory tiers, and what the kernel may move between them; null = it shows none."""
    overhead: Overhead | None
    """The cost of measuring; null in a one-off report."""
    probes: tuple[ProbeAccount, ...]
    """The running probes' reports about themselves."""
    unknown: tuple[Unknown, ...]
    """Facts that this host cannot show of any container."""
    sources: tuple[CollectorOutcome, ...]
    """Outcome of each source of the report."""
    rank_round: RankRound | None = None
    """The agent's rounds over the processes of containers; null = it does not watch ranks, or there is no agent."""
    rates: Rates | None = None
    """Growth of counters between the two readings of a capture; null = it has one, or this is a running host."""
