"""The part of the report about one container, with what it was promised, whole and by source. It is made for a thousand
of them in every tick of the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.access import Access, remote_stall
from numaudit.evaluation.alignment import Judgements
from numaudit.evaluation.causes.placement import (
    bytes_outside,
    charged_to_others,
    remote_bytes,
    used_bytes,
    wanted_nodes,
)
from numaudit.evaluation.conclusion import intended_nodes
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.huge_pages import by_page_size
from numaudit.evaluation.rates import distance_ratio
from numaudit.evaluation.sources import ExpectedByProcess, expected_by_process
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent.node import ClaimPromise, ContainerIntent
from numaudit.report.counters import CountersOfTick, tier_moves
from numaudit.report.nodes import by_node
from numaudit.report.processes import elsewhere, mappings_report, processes_report, ranks_report
from numaudit.report.values import (
    ContainerReport,
    ExpectedBasis,
    Intended,
    PromiseOfSource,
    Unknown,
)
from numaudit.snapshot import Allowed, Container, ContainerId, Mappings, ProcessMapping, Resident, Snapshot
from numaudit.snapshot.processes import TimeSource
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet

_NOT_KNOWN = Allowed(None, None)
_NO_HISTORY = (
    "the kernel keeps no history; what its cpuset and memory policies were then, and how full the nodes were, is lost"
)


@dataclass(slots=True)
class ContainerReports:
    """Makes the reports of one snapshot's containers."""

    snapshot: Snapshot
    judgements: Judgements
    findings: Mapping[int, tuple[str, ...]]
    """Names of the findings about each."""
    outcomes: Mapping[tuple[str | None, str | None], HintOutcome]
    """By pod UID and container name."""
    intents: Mapping[int, ContainerIntent]
    before: Snapshot | None = None
    _counters: CountersOfTick = field(init=False)

    def __post_init__(self) -> None:
        self._counters = CountersOfTick.by(self.snapshot)

    def of(self, container: Container) -> ContainerReport:
        """All that is known of it."""
        snapshot, id_, intent = self.snapshot, container.id, self.intents.get(container.id)
        verdict, findings = self.judgements.verdicts.get(id_), self.findings.get(id_, ())
        accesses = self.judgements.accesses.get(id_, ())
        outcome = None if intent is None else self.outcomes.get((intent.pod_uid, intent.name))
        resident, mappings = snapshot.residency.get(id_), snapshot.numa_maps.get(id_)
        allowed = snapshot.allowed.get(id_, _NOT_KNOWN)
        cpu_nodes = None if allowed.cpus is None else snapshot.machine.nodes_of_cpus(allowed.cpus)
        intended = intended_nodes(intent)
        judged = None if resident is None else sum(resident.judged.values())
        expected = _expected(accesses)
        remote = aligned = distance = None
        if resident is not None and judged is not None:
            remote = None if cpu_nodes is None else remote_bytes(resident, cpu_nodes)
            aligned = None if not intended else judged - bytes_outside(resident.judged, intended)
            if (ran := snapshot.ran(id_)) is not None:
                distance = distance_ratio(used_bytes(snapshot, id_, resident), ran, snapshot.machine.distances)
        basis: ExpectedBasis | None = None if expected is None else "container"
        processes = snapshot.processes.get(id_)
        watched, by_process = snapshot.watched.get(id_), None
        if processes is not None:
            by_process = expected_by_process(processes, snapshot.machine.distances)
            if by_process.unknown is None:
                distance, basis = by_process.distance_ratio, None if expected is None else "processes"
        # In the order of its fields: by their names this takes three times as long, for each container in each tick.
        return ContainerReport(
            id_,
            container.kind,
            container.path,
            container.namespace,
            container.pod,
            container.name,
            container.pod_uid,
            container.container_id,
            container.qos,
            container.runtime,
            container.whole,
            allowed.nodes,
            allowed.cpus,
            cpu_nodes,
            None if resident is None else by_node(resident),
            judged,
            remote,
            None if intent is None else intended_of(intent, snapshot.machine),
            aligned,
            verdict,
            outcome,
            findings,
            tier_moves(resident),
            expected,
            basis,
            distance,
            accesses,
            self.judgements.measured.get(id_),
            remote_stall(snapshot, id_, self.before),
            None
            if mappings is None or resident is None
            else mappings_report(mappings, charged_to_others(id_, mappings, resident), snapshot.interleave_weights),
            None if mappings is None else self._elsewhere(mappings, intended, allowed),
            None
            if processes is None
            else processes_report(
                processes,
                (snapshot.hint_faults or {}).get(id_),
                snapshot.process_accesses,
                self.judgements.ranks.get(id_, ()),
            ),
            (
                *_unknown(container, resident, allowed, mappings, snapshot.not_resident.get(id_, ()), verdict),
                *_unknown_by_process(by_process),
            ),
            by_page_size(resident, None if intent is None else intent.promise),
            snapshot.devices.get(id_),
            None if watched is None else ranks_report(watched, self.judgements.ranks.get(id_, ())),
            self._time_source(id_),
            **self._counters.of(id_),
        )

    def _time_source(self, container: ContainerId) -> TimeSource | None:
        snapshot = self.snapshot
        sampled = None if snapshot.cpu_time is not None else (snapshot.sampled_time or {}).get(container)
        return None if sampled is None else sampled.source

    def _elsewhere(
        self, mappings: Mappings, intended: NodeSet | None, allowed: Allowed
    ) -> tuple[ProcessMapping, ...] | None:
        wanted = wanted_nodes(intended, allowed, self.snapshot.machine)
        return None if wanted is None else elsewhere(mappings, wanted)


def _expected(accesses: Sequence[Access]) -> float | None:
    for one in accesses:
        if one.source == "expected":
            return one.remote_ratio
    return None


def names_by_container(findings: tuple[Finding, ...]) -> dict[int, tuple[str, ...]]:
    """Names of the findings about each container that runs."""
    names: dict[int, tuple[str, ...]] = {}
    for finding in findings:
        if finding.container_id is not None:
            names[finding.container_id] = (*names.get(finding.container_id, ()), finding.name)
    return names


def _unknown_by_process(found: ExpectedByProcess | None) -> tuple[Unknown, ...]:
    if found is None or found.unknown is None:
        return ()
    return (Unknown("expected share by process", found.unknown),)


def _unknown(
    container: Container,
    resident: Resident | None,
    allowed: Allowed,
    mappings: Mappings | None,
    not_resident: tuple[tuple[str, str], ...],
    verdict: Verdict | None,
) -> tuple[Unknown, ...]:
    found = [Unknown(what, reason) for what, reason in not_resident]
    if resident is None and not not_resident:
        found.append(Unknown("resident", "the cgroup vanished or its memory.numa_stat could not be read"))
    if allowed.nodes is None:
        found.append(Unknown("allowed", "no cpuset controller shows this cgroup"))
    if mappings is not None and mappings.processes_read < mappings.processes:
        missing = mappings.processes - mappings.processes_read
        found.append(Unknown("mappings", f"{missing} of {mappings.processes} processes were not read"))
    if mappings is not None and verdict is not None and verdict.name == "spilled":
        found.append(Unknown("when its bytes came to other nodes", _NO_HISTORY))
    if container.kind == "container" and container.pod_uid is not None and container.name is None:
        found.append(Unknown("container", "no process of it could be asked for its mounts"))
    if container.pod_uid is not None and container.pod is None:
        found.append(Unknown("pod", "no folder in /var/log/pods carries its UID"))
    return tuple(found)


def intended_of(intent: ContainerIntent, machine: Machine) -> Intended:
    """All that was promised to it."""
    promise = intent.promise
    return Intended(
        memory_nodes=promise.memory_nodes,
        bytes=None if promise.memory is None else _known(_sizes(promise.memory), intent),
        cpus=promise.cpus,
        cpu_nodes=None if promise.cpus is None else machine.nodes_of_cpus(promise.cpus),
        device_nodes=promise.device_nodes,
        by_source=tuple(_by_source(intent, machine)) if intent.claims else (),
    )


def _by_source(intent: ContainerIntent, machine: Machine) -> Iterator[PromiseOfSource]:
    own = intent.managers
    if own.memory or own.cpus:
        yield PromiseOfSource(
            source="kubelet",
            claim=None,
            driver=None,
            memory_nodes=own.memory_nodes or None,
            bytes=_sizes(own.memory) if own.memory else None,
            cpus=own.cpus or None,
            cpu_nodes=machine.nodes_of_cpus(own.cpus) if own.cpus else None,
            devices=(),
            problem=None,
        )
    for claim in intent.claims:
        yield _of_claim(claim, machine)


def _of_claim(claim: ClaimPromise, machine: Machine) -> PromiseOfSource:
    return PromiseOfSource(
        source="dra",
        claim=f"{claim.namespace}/{claim.name}",
        driver=claim.driver,
        memory_nodes=claim.memory_nodes or None,
        bytes={type_: size for type_, size in _sizes(claim.memory).items() if size} or None,
        cpus=claim.cpus,
        cpu_nodes=machine.nodes_of_cpus(claim.cpus) if claim.cpus else None,
        devices=claim.devices,
        problem=claim.problem,
    )


def _known(sizes: dict[str, int], intent: ContainerIntent) -> dict[str, int]:
    """Without the bytes that a claim's driver does not say."""
    return {type_: size for type_, size in sizes.items() if size} if intent.claims else sizes


def _sizes(blocks: Sequence[Block]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for block in blocks:
        sizes[block.type] = sizes.get(block.type, 0) + block.size
    return sizes
