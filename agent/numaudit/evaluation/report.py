"""One snapshot as the report that people and programs read. Every value here goes out as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numaudit.evaluation.placement import bytes_of, remote_bytes
from numaudit.snapshot import (
    JUDGED_TYPES,
    RESIDENT_TYPES,
    Allowed,
    BytesByNode,
    Container,
    Kind,
    Mappings,
    NodeMemory,
    Outcome,
    Qos,
    Resident,
    Snapshot,
)
from numaudit.topology.machine import Machine


@dataclass(frozen=True, slots=True)
class Unknown:
    """What could not be known, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeBytes:
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


@dataclass(frozen=True, slots=True)
class ContainerReport:
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
    mappings: MappingsReport | None
    unknown: tuple[Unknown, ...]


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
    unknown: tuple[Unknown, ...]
    """What this host cannot show of any container."""
    sources: tuple[Outcome, ...]


def build(snapshot: Snapshot) -> Report:
    """Turn a snapshot into its report."""
    containers = [_container(snapshot, container) for container in snapshot.containers]
    containers.sort(key=lambda one: (-(one.remote_bytes or 0), -(one.judged_bytes or 0), one.path))
    return Report(
        taken_at=snapshot.taken_at,
        cgroup_mode=snapshot.cgroup_mode,
        containers=tuple(containers),
        nodes=tuple(_node(memory, snapshot.machine) for memory in snapshot.nodes),
        unattributed=None if snapshot.unattributed is None else _by_node(snapshot.unattributed),
        residual=_residual(snapshot),
        unknown=_unknown_on_host(snapshot),
        sources=snapshot.outcomes,
    )


def _container(snapshot: Snapshot, container: Container) -> ContainerReport:
    resident = snapshot.resident.get(container.id)
    allowed = snapshot.allowed.get(container.id)
    cpu_nodes = None if allowed is None or allowed.cpus is None else snapshot.machine.nodes_of_cpus(allowed.cpus)
    mappings = snapshot.mappings.get(container.id)
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
        allowed_cpu_nodes=None if cpu_nodes is None else str(cpu_nodes),
        resident=None if resident is None else _by_node(resident),
        judged_bytes=None if resident is None else sum(bytes_of(resident, JUDGED_TYPES).values()),
        remote_bytes=None if resident is None or cpu_nodes is None else remote_bytes(resident, cpu_nodes),
        mappings=None if mappings is None else _mappings(mappings),
        unknown=_unknown(container, resident, allowed, mappings),
    )


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
    columns: dict[str, BytesByNode | None] = {kind: getattr(resident, kind) for kind in RESIDENT_TYPES}
    nodes = sorted({node for column in columns.values() if column is not None for node in column})
    return tuple(
        NodeBytes(numa_node=node, **{kind: None if by is None else by.get(node, 0) for kind, by in columns.items()})
        for node in nodes
    )


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
    # Kernel memory is left out: most of a node's is charged to nobody, so there is nothing to compare.
    types = ["anon", "shmem", "file", "unevictable"]
    if unattributed.hugetlb is not None:
        types.append("hugetlb")
    held = [bytes_of(resident, types) for resident in snapshot.resident.values()]
    free = bytes_of(unattributed, types)
    rows = []
    for memory in snapshot.nodes:
        node_bytes = bytes_of(memory.resident, types).get(memory.node)
        if node_bytes is None:
            continue
        container_bytes = sum(by_node.get(memory.node, 0) for by_node in held)
        rest = free.get(memory.node, 0)
        residual = node_bytes - container_bytes - rest
        rows.append(Residual(memory.node, node_bytes, container_bytes, rest, residual, tuple(types)))
    return tuple(rows)


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
