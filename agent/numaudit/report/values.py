"""The report that people and programs read. Every value here goes out as it is.

What there is one of for each container is a Struct, which is made in a fraction of a dataclass's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from numaudit.evaluation.access import Access
from numaudit.evaluation.alignment import VerdictName
from numaudit.evaluation.causes import Cause
from numaudit.evaluation.findings import Severity
from numaudit.evaluation.hint_outcomes import OutcomeSource
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.memorymanager.restart.findings import Severity as StateSeverity
from numaudit.memorymanager.restart.outlook import Answer
from numaudit.report.counters import (
    FirstTouchReport,
    HintFaultsReport,
    MigratedBetweenReport,
    MigratedReport,
    OverheadReport,
    TaskMoveReport,
)
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.probes import ProbeReport
from numaudit.snapshot import Kind, Outcome, Qos
from numaudit.topology.nodeset import IdSet


class Unknown(Struct, frozen=True):
    """What could not be known, and why."""

    what: str
    reason: str


class NodeBytes(Struct, frozen=True, gc=False):
    """Bytes on one node, each byte in one type; null = the kernel does not say."""

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


@dataclass(frozen=True, slots=True)
class MappingsReport:
    """From numa_maps. A page that several processes map counts once for each of them."""

    kinds: tuple[MappedBytes, ...]
    policies: tuple[MappedBytes, ...]
    page_sizes: tuple[MappedBytes, ...]
    processes_read: int
    processes: int


class Intended(Struct, frozen=True):
    """What the kubelet's managers promised the container. Node and CPU sets are in the kernel's list format."""

    memory_nodes: str | None
    bytes: Mapping[str, int] | None
    """By resource: memory, hugepages-2Mi, ..."""
    cpus: str | None
    """Exclusive CPUs; empty = it runs on the shared pool."""
    cpu_nodes: str | None
    device_nodes: str | None


class CauseReport(Struct, frozen=True):
    """Why bytes are where they should not be."""

    cause: Cause
    evidence: str


class VerdictReport(Struct, frozen=True):
    """Did the container get what it was promised?"""

    name: VerdictName
    reason: str
    since: float | None
    """Seconds since the epoch; null when it was so at the first look."""
    causes: tuple[CauseReport, ...]


class HintOutcomeReport(Struct, frozen=True):
    """What came of the hints of a container, or of a pod that was refused (`container` null)."""

    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    outcome: AdmissionOutcome
    source: OutcomeSource
    numa_nodes: str | None
    reason: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class FindingReport:
    """Something wrong or risky, and what to do about it."""

    name: str
    severity: Severity
    message: str
    remedy: str
    id: int | None
    """cgroup id of the container, if it is of one that runs."""
    pod_uid: str | None
    container: str | None
    numa_nodes: str | None


@dataclass(frozen=True, slots=True)
class CheckpointFindingReport:
    """One thing found in a checkpoint, as `numaudit state verify` names it."""

    name: str
    severity: StateSeverity
    message: str
    remedy: str
    where: str


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """One of the kubelet's checkpoints, and whether the kubelet would start with it."""

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


class NodeSeconds(Struct, frozen=True, gc=False):
    """CPU time on one node."""

    numa_node: int
    seconds: float


class AllocatedBytes(Struct, frozen=True, gc=False):
    """Bytes given by the page allocator: where the CPU was, and where the page is."""

    cpu_numa_node: int
    numa_node: int | None
    """null = the page's node could not be told."""
    bytes: int


@dataclass(frozen=True, slots=True)
class KubeletReport:
    """The kubelet's settings that decide about NUMA; null = not known."""

    version: str | None
    memory_manager_policy: str | None
    cpu_manager_policy: str | None
    topology_manager_policy: str | None
    topology_manager_scope: str | None


class ContainerReport(Struct, frozen=True):
    """One container, service or cgroup."""

    id: int
    kind: Kind
    path: str
    namespace: str | None
    pod: str | None
    container: str | None
    pod_uid: str | None
    container_id: str | None
    qos: Qos | None
    runtime: str | None
    whole: bool
    """False: only what the cgroup itself holds; its children are listed on their own."""
    allowed_memory_nodes: str | None
    allowed_cpus: str | None
    allowed_cpu_nodes: str | None
    resident: tuple[NodeBytes, ...] | None
    judged_bytes: int | None
    """anon + shmem + hugetlb over all nodes."""
    remote_bytes: int | None
    """Judged bytes on nodes where none of the allowed CPUs are."""
    intended: Intended | None
    aligned_bytes: int | None
    """Judged bytes on the promised nodes; null = nothing was promised, or it is not known."""
    verdict: VerdictReport | None
    """null for pause sandboxes and for what parent groups hold themselves: nothing is promised to those."""
    hint_outcome: HintOutcomeReport | None
    findings: tuple[str, ...]
    """Names of the findings about this container; `findings` of the report has them whole."""
    cpu_seconds: tuple[NodeSeconds, ...] | None
    """Since the measurement began; null = not measured."""
    expected_remote_ratio: float | None
    """Share of accesses that would be remote if every byte were used equally from wherever its CPUs ran."""
    allocated: tuple[AllocatedBytes, ...] | None
    """Since the measurement began; null = not measured."""
    accesses: tuple[Access, ...]
    """From where its memory was used, by each source that measures; the best comes first."""
    hint_faults: tuple[HintFaultsReport, ...] | None
    """Since the measurement began; null = not measured, or the kernel takes no samples of it."""
    first_touches: tuple[FirstTouchReport, ...] | None
    """Since the measurement began; null = not measured, which is usual."""
    migrated: tuple[MigratedReport, ...] | None
    """Pages that its tasks moved, since the measurement began; null = not measured."""
    migrated_between: tuple[MigratedBetweenReport, ...] | None
    """Those that NUMA balancing moved, by nodes, since the measurement began; null = not measured, or not told here."""
    task_moves: tuple[TaskMoveReport, ...] | None
    """Since the measurement began; null = not measured."""
    numa_balancing: Mapping[str, int] | None
    """The kernel's own counters (numa_* of memory.stat) since the cgroup was made; null = it shows none."""
    mappings: MappingsReport | None
    unknown: tuple[Unknown, ...]

    @property
    def aligned_ratio(self) -> float | None:
        """Share of judged bytes on a promised node; None also when nothing is resident."""
        return None if self.aligned_bytes is None or not self.judged_bytes else self.aligned_bytes / self.judged_bytes


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node by its own counters."""

    numa_node: int
    cpus: str
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


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one look at a host found."""

    taken_at: float
    """Seconds since the epoch."""
    cgroup_mode: str | None
    containers: tuple[ContainerReport, ...]
    """The most remote bytes first."""
    nodes: tuple[NodeReport, ...]
    unattributed: tuple[NodeBytes, ...] | None
    """Held by no container: the root cgroup's own memory."""
    residual: tuple[Residual, ...]
    findings: tuple[FindingReport, ...]
    rejections: tuple[HintOutcomeReport, ...]
    """Pods that the kubelet refused."""
    kubelet: KubeletReport | None
    """null on a host without one."""
    checkpoints: tuple[CheckpointReport, ...]
    """The kubelet's three files."""
    memory_manager: MemoryManagerReport | None
    """null where no memory map can be read."""
    numa_balancing: Mapping[str, int] | None
    """The kernel's own counters of the whole host (numa_* and pgmigrate_* of /proc/vmstat) since boot."""
    overhead: OverheadReport | None
    """What measuring cost; null in a one-off report."""
    probes: tuple[ProbeReport, ...]
    """What the probes that run tell of themselves."""
    unknown: tuple[Unknown, ...]
    """What this host cannot show of any container."""
    sources: tuple[Outcome, ...]


def listed(ids: IdSet | None) -> str | None:
    """In the kernel's list format; None stays None."""
    return None if ids is None else str(ids)
