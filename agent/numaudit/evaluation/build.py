"""Turns a snapshot and what was concluded from it into the report."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, TypeVar

from numaudit.evaluation.access_report import (
    access_reports,
    balancing_of,
    first_touch_reports,
    hint_fault_reports,
    migrated_reports,
    overhead_report,
    task_move_reports,
)
from numaudit.evaluation.alignment import Judgements, Verdict, intended_nodes, judge
from numaudit.evaluation.causes import causes
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.hint_outcomes import HintOutcome, outcomes
from numaudit.evaluation.placement import bytes_outside, remote_bytes
from numaudit.evaluation.report import (
    AllocatedBytes,
    CauseReport,
    CheckpointFindingReport,
    CheckpointReport,
    ContainerReport,
    FindingReport,
    HintOutcomeReport,
    Intended,
    KubeletReport,
    MappedBytes,
    MappingsReport,
    NodeBytes,
    NodeReport,
    NodeSeconds,
    Report,
    Residual,
    Unknown,
    VerdictReport,
)
from numaudit.evaluation.thresholds import DEFAULT
from numaudit.intent import CheckpointHealth, ContainerIntent, Intent
from numaudit.snapshot import (
    RESIDENT_TYPES,
    Allowed,
    BytesByNode,
    Container,
    ContainerId,
    Mappings,
    NodeMemory,
    Outcome,
    Resident,
    Snapshot,
)
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import IdSet, NodeSet

_Key = TypeVar("_Key", bound=Hashable)
_Number = TypeVar("_Number", int, float)
_SOURCE_STATES: dict[str, Literal["ok", "partial", "unavailable"]] = {
    "ok": "ok",
    "old": "partial",
    "missing": "unavailable",
}


def build(snapshot: Snapshot, judgements: Judgements | None = None, before: Snapshot | None = None) -> Report:
    """The report of a snapshot. `judgements` are those of this look; None = it is judged on its own.

    `before` is the previous snapshot: what is sampled is told of the time since then.
    """
    conclusions = _Conclusions(snapshot, judge(snapshot, before) if judgements is None else judgements, before)
    containers = [_container(snapshot, container, conclusions) for container in snapshot.containers]
    containers.sort(key=lambda one: (-(one.remote_bytes or 0), -(one.judged_bytes or 0), one.path))
    return Report(
        taken_at=snapshot.taken_at,
        cgroup_mode=snapshot.cgroup_mode,
        containers=tuple(containers),
        nodes=tuple(_node(memory, snapshot.machine) for memory in snapshot.nodes),
        unattributed=None if snapshot.unattributed is None else _by_node(snapshot.unattributed),
        residual=_residual(snapshot),
        findings=tuple(_finding(one) for one in conclusions.findings),
        rejections=tuple(_hint_outcome(one) for one in conclusions.outcomes if one.container is None),
        kubelet=None if snapshot.intent is None else _kubelet(snapshot.intent),
        checkpoints=() if snapshot.intent is None else tuple(map(_checkpoint, snapshot.intent.checkpoints)),
        numa_balancing=None if snapshot.balancing is None else snapshot.balancing.host,
        overhead=overhead_report(snapshot),
        unknown=_unknown_on_host(snapshot),
        sources=(*snapshot.outcomes, *_intent_sources(snapshot.intent)),
    )


class _Conclusions:
    """What was concluded from one snapshot, ready to look up by container."""

    def __init__(self, snapshot: Snapshot, judgements: Judgements, before: Snapshot | None) -> None:
        self.before = before
        self.verdicts = judgements.verdicts
        self.findings = find(snapshot, before)
        self.outcomes = () if snapshot.intent is None else outcomes(snapshot.intent)
        self.intents = {} if snapshot.intent is None else snapshot.intent.by_cgroup
        self._outcomes = {(one.pod_uid, one.container): one for one in self.outcomes}
        self._findings: dict[int, list[str]] = {}
        for finding in self.findings:
            if finding.container_id is not None:
                self._findings.setdefault(finding.container_id, []).append(finding.name)

    def outcome(self, intent: ContainerIntent | None) -> HintOutcome | None:
        return None if intent is None else self._outcomes.get((intent.pod_uid, intent.name))

    def finding_names(self, container: ContainerId) -> tuple[str, ...]:
        return tuple(self._findings.get(container, ()))


def _container(snapshot: Snapshot, container: Container, conclusions: _Conclusions) -> ContainerReport:
    resident = snapshot.resident.get(container.id)
    allowed = snapshot.allowed.get(container.id)
    cpu_nodes = None if allowed is None or allowed.cpus is None else snapshot.machine.nodes_of_cpus(allowed.cpus)
    mappings = snapshot.mappings.get(container.id)
    intent = conclusions.intents.get(container.id)
    verdict = conclusions.verdicts.get(container.id)
    outcome = conclusions.outcome(intent)
    cpu_seconds = _measured(snapshot.cpu_seconds, container.id)
    allocated = _measured(snapshot.allocated_bytes, container.id)
    accesses = access_reports(snapshot, container, conclusions.before)
    return ContainerReport(
        id=container.id,
        kind=container.kind,
        path=container.path,
        namespace=container.namespace,
        pod=container.pod,
        container=container.name,
        pod_uid=container.pod_uid,
        container_id=container.container_id,
        qos=container.qos,
        runtime=container.runtime,
        whole=container.whole,
        allowed_memory_nodes=None if allowed is None or allowed.nodes is None else str(allowed.nodes),
        allowed_cpus=None if allowed is None or allowed.cpus is None else str(allowed.cpus),
        allowed_cpu_nodes=_listed(cpu_nodes),
        resident=None if resident is None else _by_node(resident),
        judged_bytes=None if resident is None else sum(resident.judged.values()),
        remote_bytes=None if resident is None or cpu_nodes is None else remote_bytes(resident, cpu_nodes),
        intended=None if intent is None else _intended(intent, snapshot.machine),
        aligned_bytes=_aligned_bytes(resident, intended_nodes(intent)),
        verdict=None if verdict is None else _verdict(snapshot, container, verdict, intended_nodes(intent), cpu_nodes),
        hint_outcome=None if outcome is None else _hint_outcome(outcome),
        findings=conclusions.finding_names(container.id),
        cpu_seconds=None if cpu_seconds is None else cpu_time_reports(cpu_seconds),
        expected_remote_ratio=next((one.remote_ratio for one in accesses if one.source == "expected"), None),
        allocated=None if allocated is None else allocation_reports(allocated),
        accesses=accesses,
        hint_faults=hint_fault_reports(snapshot, container.id),
        first_touches=first_touch_reports(snapshot, container.id),
        migrated=migrated_reports(snapshot, container.id),
        task_moves=task_move_reports(snapshot, container.id),
        numa_balancing=balancing_of(snapshot, container.id),
        mappings=None if mappings is None else _mappings(mappings),
        unknown=_unknown(container, resident, allowed, mappings),
    )


def _measured(
    by_container: Mapping[ContainerId, Mapping[_Key, _Number]] | None, container: ContainerId
) -> Mapping[_Key, _Number] | None:
    """A container that the probe saw nothing of did nothing; without a probe nothing is known."""
    return None if by_container is None else by_container.get(container, {})


def _aligned_bytes(resident: Resident | None, intended: NodeSet | None) -> int | None:
    if resident is None or not intended:
        return None
    return sum(resident.judged.values()) - bytes_outside(resident.judged, intended)


def cpu_time_reports(cpu_seconds: Mapping[int, float]) -> tuple[NodeSeconds, ...]:
    """By node."""
    return tuple(NodeSeconds(node, seconds) for node, seconds in sorted(cpu_seconds.items()))


def allocation_reports(allocated: Mapping[tuple[int, int | None], int]) -> tuple[AllocatedBytes, ...]:
    """By pair of nodes."""
    return tuple(AllocatedBytes(cpu, page, size) for (cpu, page), size in allocated.items())


def _intended(intent: ContainerIntent, machine: Machine) -> Intended:
    promise = intent.promise
    nodes, device_nodes = promise.memory_nodes, promise.device_nodes
    sizes: dict[str, int] = {}
    for block in promise.memory or ():
        sizes[block.type] = sizes.get(block.type, 0) + block.bytes
    return Intended(
        memory_nodes=_listed(nodes),
        bytes=None if promise.memory is None else sizes,
        cpus=_listed(promise.cpus),
        cpu_nodes=None if promise.cpus is None else str(machine.nodes_of_cpus(promise.cpus)),
        device_nodes=_listed(device_nodes),
    )


def _verdict(
    snapshot: Snapshot, container: Container, verdict: Verdict, intended: NodeSet | None, cpu_nodes: NodeSet | None
) -> VerdictReport:
    """The verdict, with causes where bytes are not where they should be: promised, or else near its CPUs."""
    wanted = intended or cpu_nodes
    resident = snapshot.resident.get(container.id)
    found = []
    misplaced = resident is not None and wanted is not None and _has_bytes_outside(resident, wanted)
    if wanted is not None and (misplaced or verdict.name == "drifted"):
        mappings, allowed = snapshot.mappings.get(container.id), snapshot.allowed.get(container.id)
        found = [
            CauseReport(cause, evidence)
            for cause, evidence in causes(
                wanted,
                bool(intended),
                allowed,
                mappings,
                snapshot.nodes,
                migrated=None if snapshot.migrated is None else snapshot.migrated.get(container.id),
                page_size=snapshot.machine.page_size,
            )
        ]
    return VerdictReport(verdict.name, verdict.reason, verdict.since, tuple(found))


def _has_bytes_outside(resident: Resident, wanted: NodeSet) -> bool:
    return bytes_outside(resident.judged, wanted) > DEFAULT.spilled_bytes


def _listed(ids: IdSet | None) -> str | None:
    """In the kernel's list format; None stays None."""
    return None if ids is None else str(ids)


def _hint_outcome(one: HintOutcome) -> HintOutcomeReport:
    return HintOutcomeReport(
        namespace=one.namespace,
        pod=one.pod,
        pod_uid=one.pod_uid,
        container=one.container,
        outcome=one.outcome,
        source=one.source,
        numa_nodes=_listed(one.nodes),
        reason=one.reason,
        message=one.message,
    )


def _finding(one: Finding) -> FindingReport:
    return FindingReport(
        name=one.name,
        severity=one.severity,
        message=one.message,
        remedy=one.remedy,
        id=one.container_id,
        pod_uid=one.pod_uid,
        container=one.container,
        numa_nodes=_listed(one.numa_nodes),
    )


def _kubelet(intent: Intent) -> KubeletReport:
    config = intent.config
    return KubeletReport(
        version=config.version,
        memory_manager_policy=config.memory_manager_policy,
        cpu_manager_policy=config.cpu_manager_policy,
        topology_manager_policy=config.topology_manager_policy,
        topology_manager_scope=config.topology_manager_scope,
    )


def _checkpoint(one: CheckpointHealth) -> CheckpointReport:
    return CheckpointReport(
        file=one.file,
        policy_name=one.policy,
        format=one.form,
        problem=one.problem,
        written_at=one.written_at,
        last_good_at=one.last_good_at,
        valid=one.outlook.valid,
        starts_now=one.outlook.starts_now,
        starts_after_reboot=one.outlook.starts_after_reboot,
        findings=tuple(
            CheckpointFindingReport(found.name, found.severity, found.message, found.remedy, found.where)
            for found in one.outlook.findings
        ),
    )


def _intent_sources(intent: Intent | None) -> tuple[Outcome, ...]:
    """The kubelet's sources in the same words as our own collectors."""
    sources = () if intent is None else intent.sources
    return tuple(Outcome(f"{one.name}", _SOURCE_STATES[one.state], one.reason) for one in sources)


def _unknown(
    container: Container, resident: Resident | None, allowed: Allowed | None, mappings: Mappings | None
) -> tuple[Unknown, ...]:
    found = []
    if resident is None:
        found.append(Unknown("resident", "the cgroup vanished or its memory.numa_stat could not be read"))
    if allowed is None or allowed.nodes is None:
        found.append(Unknown("allowed", "no cpuset controller shows this cgroup"))
    if mappings is not None and mappings.processes_read < mappings.processes:
        missing = mappings.processes - mappings.processes_read
        found.append(Unknown("mappings", f"{missing} of {mappings.processes} processes were not read"))
    if container.kind == "container" and container.pod_uid is not None and container.name is None:
        found.append(Unknown("container", "no process of it could be asked for its mounts"))
    if container.pod_uid is not None and container.pod is None:
        found.append(Unknown("pod", "no folder in /var/log/pods carries its UID"))
    return tuple(found)


def _unknown_on_host(snapshot: Snapshot) -> tuple[Unknown, ...]:
    found = []
    if snapshot.cgroup_mode in ("v1", "hybrid"):
        found.append(Unknown("shmem", "cgroup v1 counts shared memory as anon"))
        found.append(Unknown("kernel", "cgroup v1 does not split a container's kernel memory by node"))
    if snapshot.unattributed is None:
        found.append(Unknown("unattributed", "the root cgroup's memory.numa_stat could not be read"))
    elif snapshot.unattributed.hugetlb is None and _huge_pages_in_use(snapshot.nodes):
        found.append(Unknown("unattributed hugetlb", "not all processes of the root cgroup could be read"))
    return tuple(found)


def _huge_pages_in_use(nodes: Sequence[NodeMemory]) -> bool:
    return any(sum((node.resident.hugetlb or {}).values()) for node in nodes)


def _by_node(resident: Resident) -> tuple[NodeBytes, ...]:
    columns: tuple[BytesByNode | None, ...] = _columns(resident)
    nodes = sorted({node for column in columns if column is not None for node in column})
    nothing = [None] * len(nodes)
    return tuple(
        map(NodeBytes, nodes, *[nothing if by is None else [by.get(node, 0) for node in nodes] for by in columns])
    )


_columns = attrgetter(*RESIDENT_TYPES)
"""In the order of NodeBytes' fields."""


def _node(memory: NodeMemory, machine: Machine) -> NodeReport:
    node = machine.by_id[memory.node]
    resident = _by_node(memory.resident)
    return NodeReport(
        numa_node=memory.node,
        cpus=str(node.cpus),
        total_bytes=memory.total,
        free_bytes=memory.free,
        resident=resident[0] if resident else NodeBytes(memory.node, None, None, None, None, None, None),
        numastat_bytes=memory.numastat,
        distances=dict(node.distances),
    )


def _residual(snapshot: Snapshot) -> tuple[Residual, ...]:
    unattributed = snapshot.unattributed
    if unattributed is None:
        return ()
    types = _compared_types(snapshot, unattributed)
    held = [resident.sum_of(types) for resident in snapshot.resident.values()]
    free = unattributed.sum_of(types)
    rows = []
    for memory in snapshot.nodes:
        if memory.resident.anon is None or memory.resident.file is None:
            continue
        node_bytes = memory.resident.sum_of(types).get(memory.node, 0)
        container_bytes = sum(by_node.get(memory.node, 0) for by_node in held)
        rest = free.get(memory.node, 0)
        residual = node_bytes - container_bytes - rest
        rows.append(Residual(memory.node, node_bytes, container_bytes, rest, residual, types))
    return tuple(rows)


def _compared_types(snapshot: Snapshot, unattributed: Resident) -> tuple[str, ...]:
    """Kernel memory is left out: most of a node's is charged to nobody, so there is nothing to compare.

    Huge pages count when every top group shows its own: those hold what the groups below them have.
    """
    types = ["anon", "shmem", "file"]
    if unattributed.unevictable is not None:
        types.append("unevictable")
    top = {container.id for container in snapshot.containers if container.path.count("/") == 1}
    shown = all(resident.hugetlb is not None for id_, resident in snapshot.resident.items() if id_ in top)
    if unattributed.hugetlb is not None and shown:
        types.append("hugetlb")
    return tuple(types)


def _mappings(mappings: Mappings) -> MappingsReport:
    return MappingsReport(
        kinds=_flat(mappings.by_kind),
        policies=_flat(mappings.by_policy),
        page_sizes=_flat({str(size): by_node for size, by_node in sorted(mappings.by_page_size.items())}),
        processes_read=mappings.processes_read,
        processes=mappings.processes,
    )


def _flat(by_name: Mapping[str, BytesByNode]) -> tuple[MappedBytes, ...]:
    return tuple(
        MappedBytes(name, node, size) for name, by_node in by_name.items() for node, size in sorted(by_node.items())
    )
