"""Findings: what is wrong or risky beside the verdicts, each with what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from numaudit.evaluation.access import failed_moves
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.intent import ContainerIntent, Intent
from numaudit.memorymanager.admission import TOPOLOGY_AFFINITY_ERROR
from numaudit.memorymanager.restart.findings import StateFinding
from numaudit.memorymanager.topologymanager.admission_error import UNEXPECTED
from numaudit.snapshot import ContainerId, NodeMemory, Snapshot
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What holds for every finding of one name."""

    severity: Severity
    remedy: str


MEANINGS: dict[str, Meaning] = {
    "stale": Meaning(
        "warning",
        "The memory manager frees it at the next admission of any pod: start one, or restart the kubelet with the "
        "node drained. Until then new pods may be refused for room that is free.",
    ),
    "cpu-memory-disagree": Meaning(
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, so that CPUs and memory are chosen together, "
        "and start the pod anew.",
    ),
    "device-remote": Meaning(
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, and start the pod anew.",
    ),
    "oom-risk": Meaning(
        "critical",
        "Move pods that are not Guaranteed off the node, or raise --reserved-memory of these NUMA nodes: when the "
        "promised memory is used, the kernel must kill a process.",
    ),
    "cannot-heal": Meaning(
        "warning",
        "Its CPUs use memory of another node, and its cpuset.mems or a full node keeps the kernel from moving that "
        "here: let it use the memory of the nodes where its CPUs are, or run it on CPUs of the nodes where its memory "
        "is. Until then each attempt costs time and moves nothing.",
    ),
    "over-budget": Meaning(
        "info",
        "Nothing has to be done: what rests comes back when there is less load. To measure more, raise the agent's "
        "setting overhead.max_cpu_percent, or name fewer probes.",
    ),
    "checkpoint-damaged": Meaning(
        "critical",
        "Drain the node, stop the kubelet, delete the file, start the kubelet. `numaudit state verify` says more.",
    ),
    "restart-unsafe": Meaning(
        "critical",
        "Repair what the message names before the kubelet restarts: it would not start again, and the node would go "
        "not ready.",
    ),
    "refusals-missed": Meaning(
        "info",
        "The kubelet's log has gaps (rotation, or the journal's rate limit): raise RateLimitBurst for the kubelet's "
        "unit or keep more of its log. Pods that it refused may be missing here.",
    ),
    "sources-disagree": Meaning("info", "Compare the sources that are named; the kubelet may just have restarted."),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. `name` is a key of MEANINGS."""

    name: str
    message: str
    container_id: int | None = None
    """cgroup id of the container; None = not of a container that runs now."""
    pod_uid: str | None = None
    container: str | None = None
    numa_nodes: NodeSet | None = None
    cause: StateFinding | None = None
    """Of `restart-unsafe`: what is wrong with the checkpoint, and what to do about it."""

    @property
    def severity(self) -> Severity:
        return MEANINGS[self.name].severity

    @property
    def remedy(self) -> str:
        return MEANINGS[self.name].remedy if self.cause is None else self.cause.remedy


def find(snapshot: Snapshot, before: Snapshot | None = None, thresholds: Thresholds = DEFAULT) -> tuple[Finding, ...]:
    """All findings of one look. `before` is the previous snapshot, for what happened since then."""
    intent = snapshot.intent
    return (
        *(() if intent is None else _of_intent(snapshot, intent)),
        *_cannot_heal(snapshot, before, thresholds),
        *_over_budget(snapshot),
    )


def _of_intent(snapshot: Snapshot, intent: Intent) -> Iterator[Finding]:
    yield from _stale(intent)
    yield from _cpu_memory_disagree(intent, snapshot.machine)
    yield from _device_remote(intent)
    yield from _oom_risk(snapshot, intent)
    yield from _checkpoints(intent)
    yield from _restart_unsafe(intent)
    yield from _refusals_missed(intent)
    yield from (Finding("sources-disagree", text) for text in intent.conflicts)


def _over_budget(snapshot: Snapshot) -> Iterator[Finding]:
    """The probes took more CPU time than they may, so some of them rest."""
    overhead = snapshot.overhead
    if overhead is not None and overhead.steps:
        text = f"to keep the probes below {overhead.limit:.2%} of the CPU time: {', '.join(overhead.steps)}"
        if overhead.coverage is not None:
            text += f"; {overhead.coverage:.0%} of the containers are watched at a time"
        yield Finding("over-budget", text)


def _cannot_heal(snapshot: Snapshot, before: Snapshot | None, thresholds: Thresholds) -> Iterator[Finding]:
    """Memory is used from another node, NUMA balancing wants to bring it home, and cannot."""
    for one in snapshot.containers:
        moves = failed_moves(snapshot, one.id, before)
        if moves is None:
            continue
        failed, moved = moves
        if failed >= thresholds.failed_moves and failed >= moved:
            text = f"NUMA balancing could not bring {failed} pages to the node where they are used; it moved {moved}"
            allowed = snapshot.allowed.get(one.id)
            nodes = None if allowed is None else allowed.nodes
            yield Finding("cannot-heal", text, one.id, one.pod_uid, one.name or one.path, nodes)


def _stale(intent: Intent) -> Iterator[Finding]:
    for one in intent.containers:
        if one.is_stale and one.promise.memory:
            size = sum(block.bytes for block in one.promise.memory)
            yield _of(one, "stale", f"holds {size} bytes of {one.promise.memory_nodes}, but its pod is gone")
        elif one.has_ended and one.promise.memory and any(block.bytes for block in one.promise.memory):
            size = sum(block.bytes for block in one.promise.memory)
            yield _of(one, "stale", f"holds {size} bytes of {one.promise.memory_nodes}, but the container has ended")


def _cpu_memory_disagree(intent: Intent, machine: Machine) -> Iterator[Finding]:
    for one in _alive(intent):
        memory, cpus = one.promise.memory_nodes, one.promise.cpus
        if not memory or not cpus:
            continue
        cpu_nodes = machine.nodes_of_cpus(cpus)
        if not cpu_nodes <= memory:
            text = f"exclusive CPUs {cpus} are on nodes {cpu_nodes}, the promised memory on {memory}"
            yield _of(one, "cpu-memory-disagree", text, cpu_nodes - memory)


def _device_remote(intent: Intent) -> Iterator[Finding]:
    for one in _alive(intent):
        memory = one.promise.memory_nodes
        for devices in one.promise.devices or ():
            if memory and devices.nodes and devices.nodes.isdisjoint(memory):
                ids = ", ".join(devices.ids[:3])
                text = f"{devices.resource} ({ids}) is on node {devices.nodes}, the promised memory on {memory}"
                yield _of(one, "device-remote", text, devices.nodes)


def _oom_risk(snapshot: Snapshot, intent: Intent) -> Iterator[Finding]:
    """Promised but not yet resident memory that free and reclaimable pages of its nodes cannot give.

    All promises within a set of nodes draw on the same pages, so they are added up for each set.
    """
    outstanding = _outstanding(snapshot, intent)
    sums: Counter[NodeSet] = Counter()
    for _, nodes, size in outstanding:
        sums[nodes] += size
    for nodes in sums:
        available = _available(snapshot.nodes, nodes)
        wanted = sum(size for within, size in sums.items() if within <= nodes)
        if available is None or wanted <= available:
            continue
        for one, within, size in outstanding:
            if within == nodes and size:
                text = (
                    f"{size} promised bytes are not resident yet; all promises on node {nodes} still want {wanted}, "
                    f"but only {available} are free or reclaimable there"
                )
                yield _of(one, "oom-risk", text, nodes)


def _outstanding(snapshot: Snapshot, intent: Intent) -> list[tuple[ContainerIntent, NodeSet, int]]:
    """Each container with its nodes and the bytes of type memory that it may still ask of them."""
    found = []
    for one in _alive(intent):
        nodes = one.promise.memory_nodes
        promised = sum(block.bytes for block in one.promise.memory or () if block.type == "memory")
        resident = [snapshot.resident.get(ContainerId(cgroup)) for cgroup in one.cgroups]
        if not nodes or not resident or None in resident:
            continue
        # Page cache counts towards a container's limit too, but the kernel can drop it when asked for more.
        used = sum(
            sum(by_node.values())
            for each in resident
            if each is not None
            for by_node in (each.anon, each.shmem)
            if by_node is not None
        )
        found.append((one, nodes, max(0, promised - used)))
    return found


def _available(memory: Sequence[NodeMemory], nodes: NodeSet) -> int | None:
    by_node: Mapping[int, NodeMemory] = {one.node: one for one in memory}
    total = 0
    for node in nodes:
        one = by_node.get(node)
        if one is None or one.free is None:
            return None
        total += one.free + (one.reclaimable or 0)
    return total


def _checkpoints(intent: Intent) -> Iterator[Finding]:
    for file in intent.checkpoints:
        if file.problem in ("not understood", "checksum"):
            yield Finding("checkpoint-damaged", f"{file.file}: {file.detail or file.problem}")


def _restart_unsafe(intent: Intent) -> Iterator[Finding]:
    """One finding for each cause and file, with all places where it holds."""
    for file in intent.checkpoints:
        causes: dict[str, list[StateFinding]] = {}
        for one in file.outlook.findings:
            if one.what_it_stops in ("start", "maybe", "second start"):
                causes.setdefault(one.name, []).append(one)
        for name, found in causes.items():
            first = "; ".join(one.message for one in found[:3])
            more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
            yield Finding("restart-unsafe", f"{file.file}: {name}: {first}{more}", cause=found[0])


def _refusals_missed(intent: Intent) -> Iterator[Finding]:
    """The kubelet counted more refused pods than its log tells of.

    Of its counters this one alone can be held against anything: the others count restored pods, other QoS
    classes or init containers as well. It is read before the log, so the log may only know more.
    """
    if intent.counters is None or intent.denials is None:
        return
    for reason in (TOPOLOGY_AFFINITY_ERROR, UNEXPECTED):
        counted = intent.counters.get(f'kubelet_admission_rejections_total{{reason="{reason}"}}', 0)
        told = intent.denials.get(reason, 0)
        if counted > told:
            text = (
                f"the kubelet counted {counted:.0f} pods refused with {reason} since its start, its log tells of {told}"
            )
            yield Finding("refusals-missed", text)


def _alive(intent: Intent) -> Iterator[ContainerIntent]:
    return (one for one in intent.containers if not one.is_stale and not one.has_ended)


def _of(one: ContainerIntent, name: str, text: str, nodes: NodeSet | None = None) -> Finding:
    return Finding(
        name,
        text,
        container_id=one.cgroups[0] if len(one.cgroups) == 1 else None,
        pod_uid=one.pod_uid,
        container=one.name,
        numa_nodes=nodes if nodes is not None else one.promise.memory_nodes,
    )
