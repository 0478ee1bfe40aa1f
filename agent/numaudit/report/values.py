"""The report that people and programs read. Every value here goes out as it is, sets in the kernel's list format.

Per-container types are Structs, which are made in a fraction of a dataclass's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from numaudit.checkpoints.start.findings import Severity as StateSeverity
from numaudit.checkpoints.start.outlook import Answer
from numaudit.evaluation.access import Access, Measured
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.remote_stall import RemoteStall
from numaudit.evaluation.verdicts import Verdict
from numaudit.report.counters import Counters
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.snapshot import CollectorOutcome, Kind, Overhead, ProbeAccount, Qos
from numaudit.topology.nodeset import CpuSet, NodeSet


class Unknown(Struct, frozen=True):
    """What could not be known, and why."""

    what: str
    reason: str


class NodeBytes(Struct, frozen=True, gc=False):
    """Bytes on one node, each byte in one type; null = the kernel does not say. Resident, seen from the node."""

    numa_node: int
    anon: int | None
    shmem: int | None
    file: int | None
    hugetlb: int | None
    kernel: int | None
    unevictable: int | None


@dataclass(frozen=True, slots=True)
class MappedBytes:
    """One kind of mapping, memory policy or page size of a container's processes."""

    name: str
    numa_node: int
    bytes: int


class SharedMemoryReport(Struct, frozen=True):
    """A piece of shared memory that processes of a container map."""

    kind: Literal["shmem", "hugetlb"]
    file: str
    """The kernel makes one up for memory without a name (/dev/zero, /SYSV..., /memfd:...)."""
    bytes: Mapping[int, int]
    """By node, at least these; each page once."""
    charged_to: int | None
    """`id` of the container that all sampled pages are charged to; null = they are of several, or it is not known."""


class ElsewhereReport(Struct, frozen=True):
    """Mappings of one process with bytes on nodes where they should not be."""

    pid: int
    process: str | None
    """Its name; null = it has ended."""
    started_at: float | None
    """Seconds since the epoch."""
    kind: str
    """anon, heap, stack, shmem or hugetlb."""
    policy: str
    """The mapping's memory policy now, as the kernel prints it: default, bind:1, interleave:0-3, ..."""
    file: str | None
    """Of shmem."""
    bytes: Mapping[int, int]
    """By node, on the wrong ones only."""


@dataclass(frozen=True, slots=True)
class MappingsReport:
    """From numa_maps. A page that several processes map counts once for each of them.

    Mappings as rows: JSON has no numbers as keys.
    """

    kinds: tuple[MappedBytes, ...]
    policies: tuple[MappedBytes, ...]
    page_sizes: tuple[MappedBytes, ...]
    processes_read: int
    processes: int
    shared: tuple[SharedMemoryReport, ...] | None
    """The largest pieces of shared memory that its processes map, whoever they are charged to; null = not known."""
    shared_of_others: Mapping[int, int] | None
    """By node, at least these bytes of shared memory that it maps are charged to other containers: they are in the
    residency of those. null = not known."""
    unsampled: Mapping[str, int]
    """Bytes that NUMA balancing never samples, so nobody sees from where they are used: huge pages of the pool
    (`huge-pages`), memory under a policy without the balancing flag (`policy`), and files unless they are mapped for
    writing (`file`)."""


class Intended(Struct, frozen=True):
    """What the kubelet's managers promised the container."""

    memory_nodes: NodeSet | None
    bytes: Mapping[str, int] | None
    """By resource: memory, hugepages-2Mi, ..."""
    cpus: CpuSet | None
    """Exclusive CPUs; empty = it runs on the shared pool."""
    cpu_nodes: NodeSet | None
    device_nodes: NodeSet | None


@dataclass(frozen=True, slots=True)
class CheckpointFindingReport:
    """One thing found in a checkpoint.

    A StateFinding without what it stops, which `starts_now` and `starts_after_reboot` sum up.
    """

    name: str
    severity: StateSeverity
    message: str
    remedy: str
    where: str


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """One of the kubelet's checkpoints, and whether the kubelet would start with it.

    CheckpointHealth in one level, without the problem's detail: the findings say it.
    """

    file: str
    policy_name: str | None
    format: str | None
    """The format whose checksum fits: V1, V2, ...; null = none does."""
    problem: str | None
    """absent, unreadable, not understood, checksum or newer format; null = it was read well."""
    written_at: float | None
    """Seconds since the epoch, as is `last_good_at`: when it was last read well."""
    last_good_at: float | None
    valid: bool | None
    """Nothing is wrong with it; null = it is absent or was not read."""
    starts_now: Answer
    starts_after_reboot: Answer
    findings: tuple[CheckpointFindingReport, ...]


@dataclass(frozen=True, slots=True)
class RestartReport:
    """What a restart would do to the pods of this node; `numaudit state forecast` has each of them."""

    reboot: bool
    """Of the node, and not of the kubelet alone."""
    starts: Answer
    """Does the kubelet start with its checkpoints? yes, no, at risk, once (and then no more) or unknown: the answer of
    the worst of them in `checkpoints`."""
    refused_pods: int | None
    """Where the kubelet starts; null = it does not."""
    moved_pods: int | None
    """Admitted, with other nodes or CPUs than they have; null = it does not start, or what they have is not known."""


@dataclass(frozen=True, slots=True)
class KubeletReport:
    """The kubelet's settings that decide about NUMA; null = not known.

    KubeletConfig without the documents that these were read from.
    """

    version: str | None
    memory_manager_policy: str | None
    cpu_manager_policy: str | None
    topology_manager_policy: str | None
    topology_manager_scope: str | None
    topology_manager_options: Mapping[str, str] | None
    """topologyManagerPolicyOptions; null = none are set, or it is not known."""
    feature_gates: Mapping[str, bool] | None
    """Those that are set."""


class ContainerReport(Counters, frozen=True):
    """One container, service or cgroup."""

    id: int | None
    """cgroup id; null, as is the path, for a promised container that does not run now, as in CrashLoopBackOff."""
    kind: Kind
    path: str | None
    namespace: str | None
    pod: str | None
    container: str | None
    pod_uid: str | None
    container_id: str | None
    qos: Qos | None
    runtime: str | None
    whole: bool
    """False: only what the cgroup itself holds; its children are listed on their own."""
    allowed_memory_nodes: NodeSet | None
    allowed_cpus: CpuSet | None
    allowed_cpu_nodes: NodeSet | None
    resident: tuple[NodeBytes, ...] | None
    judged_bytes: int | None
    """anon + shmem + hugetlb over all nodes."""
    remote_bytes: int | None
    """Judged bytes on nodes where none of the allowed CPUs are."""
    intended: Intended | None
    aligned_bytes: int | None
    """Judged bytes on the promised nodes; null = nothing was promised, or it is not known."""
    verdict: Verdict | None
    """null for pause sandboxes and for what parent groups hold themselves: nothing is promised to those."""
    hint_outcome: HintOutcome | None
    findings: tuple[str, ...]
    """Names of the findings about this container; `findings` of the report has them whole."""
    expected_remote_ratio: float | None
    """Share of accesses that would be remote if every byte were used equally from wherever its CPUs ran."""
    distance_ratio: float | None
    """The same weighed by distance: mean distance from its CPUs to its bytes / 10, so 1.0 = all is local. null = no CPU
    time was measured, or a distance is not known."""
    accesses: tuple[Access, ...]
    """What each source says of where its memory was used from; the best source comes first."""
    measured: Measured | None
    """What the best source measured; null = none has measured anything. Verdict and gate judge by it."""
    remote_stall: RemoteStall | None
    """What its remote accesses cost at most; null = they were not counted."""
    mappings: MappingsReport | None
    elsewhere: tuple[ElsewhereReport, ...] | None
    """The processes' mappings with the most bytes on other nodes than the promised ones (without a promise, than those
    of the allowed CPUs); shared memory of others is among them. null = the mappings were not read."""
    unknown: tuple[Unknown, ...]

    @property
    def misplaced_bytes(self) -> int | None:
        """Judged bytes on nodes that were not promised; None where nothing was, or it is not known."""
        if self.judged_bytes is None or self.aligned_bytes is None:
            return None
        return self.judged_bytes - self.aligned_bytes

    @property
    def aligned_ratio(self) -> float | None:
        """Share of judged bytes on a promised node; None also when nothing is resident."""
        return None if self.aligned_bytes is None or not self.judged_bytes else self.aligned_bytes / self.judged_bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """What was counted since the measurement began by cgroups that are no more, and that no container here has.

    With the containers' own counts it makes all that was counted outside the root cgroup.
    """

    seen: Counters
    """Of containers that a tick has seen."""
    unseen: Counters | None
    """Of cgroups that came and went between two ticks; whose they were is not known. null = there may be other cgroups
    that are not to be seen from here."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node by its own counters."""

    numa_node: int
    cpus: CpuSet
    total_bytes: int | None
    free_bytes: int | None
    resident: NodeBytes
    numastat_bytes: Mapping[str, int] | None
    distances: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Residual:
    """How far the three accounts of one node differ: node - containers - unattributed, signed.

    Each side is read on its own, from the node's meminfo, the containers' cgroups and the root cgroup.
    """

    numa_node: int
    node_bytes: int
    container_bytes: int
    unattributed_bytes: int
    residual_bytes: int
    types: tuple[str, ...]
    """The types that all three sides show, and that are summed here."""


class Summary(Struct, frozen=True):
    """One sentence about the containers of this report, and the numbers that it is made of."""

    text: str
    containers: int
    """All that it is about; options such as --top leave out rows, and nothing of this."""
    promised: int
    """Containers that are known to have a promise."""
    misaligned: int
    """Verdicts drifted, cpu-remote, spilled and remote-access."""
    split: int
    aligned: int
    unknown: int
    """Containers that may have a promise, and whose verdict is not known."""
    refused_pods: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one tick found on a host."""

    summary: Summary
    taken_at: float
    """Seconds since the epoch."""
    cgroup_mode: str | None
    containers: tuple[ContainerReport, ...]
    """The worst verdict first, and of each the most remote bytes."""
    nodes: tuple[NodeReport, ...]
    unattributed: tuple[NodeBytes, ...] | None
    """Held by no container: the root cgroup's own memory."""
    ended: Ended | None
    """null = no probe was read."""
    residual: tuple[Residual, ...]
    findings: tuple[Finding, ...]
    rejections: tuple[HintOutcome, ...]
    """Pods that the kubelet refused."""
    kubelet: KubeletReport | None
    """null on a host without one."""
    checkpoints: tuple[CheckpointReport, ...]
    """The kubelet's three files."""
    memory_manager: MemoryManagerReport | None
    """null where no memory map can be read."""
    restarts: tuple[RestartReport, ...]
    """Of the kubelet and of the node, where they can be foreseen."""
    numa_balancing: Mapping[str, int] | None
    """The kernel's own counters of the whole host (numa_* and pgmigrate_* of /proc/vmstat) since boot."""
    overhead: Overhead | None
    """What measuring cost; null in a one-off report."""
    probes: tuple[ProbeAccount, ...]
    """What the running probes report of themselves."""
    unknown: tuple[Unknown, ...]
    """What this host cannot show of any container."""
    sources: tuple[CollectorOutcome, ...]
