"""Result of an admission: outcome, reason, message, and all that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from numaudit.containermanager.cpu.hints import CPUPod
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.candidates import JudgedCandidate, judge_candidates
from numaudit.containermanager.memory.state import Block, MemoryState
from numaudit.containermanager.memory.static_policy import (
    GROUP_VIOLATION,
    NO_DEFAULT,
    NO_EXTENSION,
    NO_PREFERRED_DEFAULT,
    NO_PREFERRED_EXTENSION,
    MemoryAllocation,
    MemoryPolicy,
)
from numaudit.containermanager.pod.requests import Requests
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX
from numaudit.containermanager.predicates import NodeShortage
from numaudit.containermanager.topologymanager.hints import MergeSteps, ProviderHints, TopologyHint
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import CPU_RESIZE_GATE, HUGE_PAGES_GATE, KubeletFeatures
from numaudit.encoding.value import Value
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import plural


class AdmissionOutcome(StrEnum):
    """Outcome of the promise to a container or to a refused pod. The first that applies.

    A refusal is named by the kubelet's reason and message, so that it has one name wherever it is seen.
    """

    REJECTED_AFFINITY = "rejected-affinity"
    """The providers' hints do not agree, or no preferred set of nodes is left."""
    REJECTED_CAPACITY = "rejected-capacity"
    """No set of nodes can give the memory: none has it free, or the rule of groups forbids those that have it."""
    REJECTED_GROUP_RULE = "rejected-group-rule"
    """Nodes of the hint belong to other groups or stand alone."""
    REJECTED_PREFERRED_EXTENSION = "rejected-preferred-extension"
    """Only nodes that are not preferred could give the memory of a preferred hint."""
    REJECTED_OTHER = "rejected-other"
    """Refused for CPUs, devices, the node as a whole, or an amount that cannot be read: the message says why."""
    NOT_MANAGED = "not-managed"
    """The static Memory Manager gives this container no memory of its own."""
    EXTENDED = "extended"
    """On more nodes than the merged hint said."""
    DEFAULT_HINT = "default-hint"
    """The Topology Manager had no hint, so the Memory Manager chose alone."""
    DEGRADED = "degraded"
    """Admitted on a hint that is not preferred."""
    ALIGNED_MULTI = "aligned-multi"
    """On a preferred set of two or more nodes."""
    ALIGNED_SINGLE = "aligned-single"
    """On one node, and preferred."""


_MEMORY_REFUSALS = {
    NO_DEFAULT: AdmissionOutcome.REJECTED_CAPACITY,
    NO_EXTENSION: AdmissionOutcome.REJECTED_CAPACITY,
    GROUP_VIOLATION: AdmissionOutcome.REJECTED_GROUP_RULE,
    NO_PREFERRED_DEFAULT: AdmissionOutcome.REJECTED_PREFERRED_EXTENSION,
    NO_PREFERRED_EXTENSION: AdmissionOutcome.REJECTED_PREFERRED_EXTENSION,
}


class ProviderAnswer(Value, frozen=True):
    """Answer of one provider."""

    provider: str
    """Name of the hint provider: devices, cpu or memory, the order in which the kubelet asks."""
    hints: ProviderHints
    """Resource -> its hints. null = it has no preference at all; a resource's null = none for it; [] = impossible."""


class Decision(Struct, frozen=True, dict=True):
    """One merge with what went in: of a container, or of the whole pod in pod scope."""

    pod_uid: str
    container: str | None
    """None = the whole pod."""
    answers: tuple[ProviderAnswer, ...]
    merge: MergeSteps
    memory_before: MemoryPolicy
    """The Memory Manager's state when it was asked."""
    memory_requests: Requests
    """Its request; empty when the pod is not managed."""

    @property
    def merged(self) -> TopologyHint:
        return self.merge.result.hint

    @cached_property
    def candidates(self) -> tuple[JudgedCandidate, ...]:
        """Every set of nodes the Memory Manager considered, and what ruled it out.

        Empty when it was asked for nothing. Memory that the container holds already is not free here.
        """
        if not self.memory_requests:
            return ()
        machine, reusable = self.memory_before.state.machine, self.memory_before.reusable
        return judge_candidates(machine, self.memory_requests, reusable.get(self.pod_uid))


class Placement(Struct, frozen=True):
    """Resources of one container of an admitted pod."""

    container: str
    outcome: AdmissionOutcome
    hint: TopologyHint
    """The Topology Manager's hint for all providers; (None, False) under policy none."""
    memory: tuple[Block, ...] = ()
    cpus: CpuSet | None = None
    """Its exclusive CPUs; None = it runs on the shared pool."""

    @property
    def memory_nodes(self) -> NodeSet | None:
        """The nodes of its memory; None = it has no memory of its own."""
        return NodeSet.from_ids(id_ for one in self.memory for id_ in one.numa_affinity or ()) or None


class Rejection(Struct, frozen=True):
    """A refusal of a pod, as its status gives it."""

    reason: str
    message: str
    outcome: AdmissionOutcome
    container: str | None = None
    """The container that was asked about; None = the whole pod."""
    detail: str | None = None
    """Detail that the kubelet's message leaves out: which nodes have the memory, and which rule forbids them."""
    shortage: NodeShortage | None = None
    """Of what the node as a whole has too little; None = the pod was refused for something else."""


def outcome_of_placement(allocation: MemoryAllocation, hint: TopologyHint, blocks: Sequence[Block]) -> AdmissionOutcome:
    """The outcome of a container whose memory was allocated, or that holds it already."""
    stored = allocation.affinity
    if stored is None or not blocks:
        return AdmissionOutcome.NOT_MANAGED
    return outcome_of_nodes(hint, stored)


def outcome_of_nodes(hint: TopologyHint, stored: NodeSet) -> AdmissionOutcome:
    """The outcome of an admitted container whose memory is on these nodes."""
    if hint.affinity is None:
        return AdmissionOutcome.DEFAULT_HINT
    if hint.affinity < stored:
        return AdmissionOutcome.EXTENDED
    if not hint.preferred:
        return AdmissionOutcome.DEGRADED
    return AdmissionOutcome.ALIGNED_MULTI if len(stored) > 1 else AdmissionOutcome.ALIGNED_SINGLE


def outcome_of_refusal(error: AdmissionError) -> AdmissionOutcome:
    """The outcome of a pod for which a provider's Allocate failed."""
    return _MEMORY_REFUSALS.get(str(error), AdmissionOutcome.REJECTED_OTHER)


def why_unknown(
    features: KubeletFeatures, memory: MemoryState, cpu: CPUState | None, pod: CPUPod, placements: Sequence[Placement]
) -> str | None:
    """The reason why it is not known what the kubelet does with the pod: its version, or a gate that is not modelled.

    None = it is known. `memory` and `cpu` are before the admission; `placements`: of a pod that was refused none.
    """
    holds_as_a_whole = pod.uid in memory.pod_entries or (cpu is not None and pod.uid in cpu.pod_entries)
    if holds_as_a_whole and features.readmission_problem is not None:
        return features.readmission_problem
    if features.resizes_exclusive_cpus and cpu is not None:
        resized = next(_resized(cpu, pod), None)
        if resized is not None:
            return (
                f"{resized}; the feature gate {CPU_RESIZE_GATE}, which lets a kubelet resize exclusive CPUs, is not "
                "modelled here"
            )
    if features.verifies_huge_pages:
        new = [one for one in placements if one.container not in memory.entries.get(pod.uid, {})]
        pages = {block.type for one in new for block in one.memory if block.type.startswith(HUGEPAGES_PREFIX)}
        if pages:
            return (
                f"with the feature gate {HUGE_PAGES_GATE}, which is not modelled here, the kubelet refuses it if "
                f"the kernel has too few {' and '.join(sorted(pages))} free on its nodes"
            )
    return None


def _resized(cpu: CPUState, pod: CPUPod) -> Iterator[str]:
    """Containers that have another number of CPUs than they ask for. What shares the CPUs of its pod asks for none."""
    for one in pod.containers:
        held = cpu.entries.get(pod.uid, {}).get(one.name)
        if held and len(held) != one.exclusive and (one.exclusive or pod.pod_level is None):
            yield f"container {one.name} has {plural(len(held), 'exclusive CPU')} and asks for {one.exclusive}"
