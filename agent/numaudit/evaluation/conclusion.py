"""The verdict that the evidence about one container leads to, and its reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import why_not_guaranteed
from numaudit.evaluation.access import UsedRemotely
from numaudit.evaluation.causes import remedies
from numaudit.evaluation.causes.placement import Spill
from numaudit.evaluation.causes.remedies import cpu_cause
from numaudit.evaluation.history import History, RanElsewhere, UsedElsewhere, remote_limit
from numaudit.evaluation.huge_pages import HugePagesOfContainer
from numaudit.evaluation.rates import ends_at, share_outside
from numaudit.evaluation.verdicts import Thresholds, VerdictName
from numaudit.intent.node import ClaimPromise, ContainerIntent, Intent
from numaudit.snapshot import Allowed, Container, Resident, Snapshot
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import in_units

_CLAIM_DRIFT = (
    "The driver's NRI plugin writes the cpuset when the container is created. See that NRI is enabled in the container "
    "runtime, that the driver ran then, and that the CPU Manager's policy is none; then delete the pod so that it is "
    "created again."
)
_CLAIM_UNKNOWN = "See docs/dra.md for the drivers and formats that are known; a newer numaudit may know more."
_CLAIM_NO_MEMORY = (
    "Nothing is wrong with its CPUs. For a promise of memory claim that as well (dra.memory), of the same node: the "
    "Topology Manager does not align what the Memory Manager promises with claimed CPUs."
)


def access_clause(used: UsedElsewhere, now: float) -> str:
    """One clause, with when it was measured unless that was now."""
    share, pages = used.share, used.share.used_remotely
    minutes = int(now - used.taken_at + (0.0 if pages is None else share.age or 0.0)) // 60
    when = f"{share.source}, {minutes} min ago" if minutes > 0 else share.source
    if pages is None:
        return f"{share.lower:.0%} of the accesses were to memory of another node ({when})"
    return f"{_of_pages(pages)} ({when})"


def _of_pages(pages: UsedRemotely) -> str:
    memory = "" if pages.memory_bytes is None else f" of its {in_units(pages.memory_bytes)}"
    nodes = NodeSet.from_ids(one.cpu_numa_node for one in pages.by_pair)
    word = "node" if len(nodes) == 1 else "nodes"
    return f"at least {in_units(pages.at_least_bytes)}{memory} were used from another node, by CPUs of {word} {nodes}"


def still_clause(share: float, limit: float) -> str:
    """Said of a share that came back below its limit, where the verdict holds."""
    return "" if share > limit else f", less than before; the verdict ends below {ends_at(limit):.1%}"


class Conclusion(Struct, frozen=True):
    """Conclusion about a container now, with its evidence."""

    name: VerdictName
    reason: str
    remedy: str | None = None
    """None = that of the verdict."""
    commands: tuple[str, ...] = ()
    """The remedy with the container's values."""


class ContainerEvidence(Struct, frozen=True):
    """All that is known of one container. None = not known."""

    container: Container
    intent: ContainerIntent | None
    allowed: Allowed | None
    resident: Resident | None
    history: History
    measures_cpu: bool
    samples_cpu: bool
    """A capture has two readings of its CPU time, which the report shows."""
    spill: Spill | None
    machine: Machine
    now: float


def intended_nodes(intent: ContainerIntent | None) -> NodeSet | None:
    """The nodes that the memory manager promised; None = not known, empty = nothing was promised."""
    return None if intent is None else intent.promise.memory_nodes


def conclude(snapshot: Snapshot, evidence: ContainerEvidence, thresholds: Thresholds) -> Conclusion:
    """The first verdict that applies, as long as the evidence of every one before it is known."""
    own = evidence.intent
    if own is not None and own.claims:
        of_claims = _of_claims(own, evidence)
        if of_claims is not None:
            return of_claims
    unmanaged = _why_unmanaged(snapshot.intent, evidence)
    if unmanaged is not None:
        return Conclusion("unmanaged", unmanaged)
    intended = intended_nodes(evidence.intent)
    if evidence.intent is None or not intended:
        return Conclusion("unknown", intern(f"its promise is unknown: {_why_not_known(snapshot)}"))  # of many alike
    if evidence.allowed is None or evidence.allowed.nodes is None:
        return Conclusion("unknown", "its allowed nodes are unknown")
    if evidence.allowed.nodes != intended:
        above, drift = evidence.allowed.narrowed_at, _drift(evidence.allowed.nodes, intended)
        if above is not None:
            return Conclusion("drifted", drift, remedies.of_narrowed(above, intended))
        return Conclusion("drifted", drift, commands=remedies.write_back(evidence.container, "cpuset.mems", intended))
    spill = evidence.spill
    if spill is None and (evidence.resident is None or evidence.resident.anon is None):
        return Conclusion("unknown", "its resident memory is unknown")
    if spill is not None:
        of = remedies.owner(evidence.container, snapshot.intent)
        found = _spilled(spill, intended, of, evidence.now, thresholds)
        if found.name == "spilled" and found.remedy is None:
            return replace(found, commands=remedies.migrate_pages(evidence.container, intended))
        return found
    if evidence.resident is not None and evidence.resident.hugetlb is None and _has_huge_pages(evidence.intent):
        return Conclusion("unknown", "its huge pages are unknown, because no hugetlb controller counts them by node")
    return _placed(snapshot.intent, evidence, evidence.allowed, intended, thresholds)


def _of_claims(own: ContainerIntent, evidence: ContainerEvidence) -> Conclusion | None:
    """The verdict on a container with resource claims; None = as on any other."""
    unknown = _unknown_claim(own)
    if unknown is not None:
        reason = f"what {unknown.in_words} promises is unknown: {unknown.problem}"
        return Conclusion("unknown", reason, _CLAIM_UNKNOWN)
    if own.claimed_cpus and (evidence.allowed is None or evidence.allowed.cpus is None):
        return Conclusion("unknown", "its allowed CPUs are unknown")
    drift = None if evidence.allowed is None else _cpu_drift(own, evidence.allowed, evidence.machine)
    if drift is not None:
        return Conclusion("drifted", drift, _CLAIM_DRIFT)
    no_memory = None if own.managers.memory else _no_memory(own, evidence.machine)
    return None if no_memory is None else Conclusion("unmanaged", no_memory, _CLAIM_NO_MEMORY)


def _unknown_claim(own: ContainerIntent) -> ClaimPromise | None:
    """A claim whose driver promises CPUs or memory, and did so in a way that is not known."""
    return next((one for one in own.claims if one.places and one.problem is not None), None)


def _cpu_drift(own: ContainerIntent, allowed: Allowed, machine: Machine) -> str | None:
    """Difference between the allowed CPUs and the claimed ones; None = they do not, or that is not known.

    Where the CPU Manager gave it CPUs as well, both write the same cpuset: a finding says so.
    """
    claimed = own.claimed_cpus
    if not claimed or own.managers.cpus or allowed.cpus is None:
        return None
    if machine.without_cpu_list:
        return None
    offline = claimed - machine.listed_cpus
    if allowed.cpus == claimed - offline:
        return None
    by = ", ".join(one.in_words for one in own.claims if one.cpus)
    said = f"it may use {allowed.cpus.in_words or 'no CPU'}, but was promised {claimed.in_words} by {by}"
    return f"{said}; {offline.in_words} {'is' if len(offline) == 1 else 'are'} offline" if offline else said


def _no_memory(own: ContainerIntent, machine: Machine) -> str | None:
    """Reason why nothing is promised of the memory of a container whose CPUs are claimed; None = none are."""
    claimed = own.claimed_cpus
    if not claimed or own.claimed_memory:
        return None
    drivers = ", ".join(dict.fromkeys(one.driver or "?" for one in own.claims if one.cpus))
    on = machine.nodes_of_cpus(claimed)
    where = claimed.in_words if on is None else f"{claimed.in_words} on {on.in_words}"
    return f"no memory was promised: {drivers} gave it {where} and never sets cpuset.mems"


def _spilled(spill: Spill, intended: NodeSet, of: remedies.Owner, now: float, thresholds: Thresholds) -> Conclusion:
    if spill.is_certain(now, thresholds):
        said = f"{in_units(spill.outside)} of its judged bytes are outside the promised {intended.in_words}"
        if spill.unread:
            said = f"at the tick before, {said.replace(' are ', ' were ', 1)}; now they cannot be read"
        if spill.huge_pages:
            said += f"; among them {_sizes(spill.huge_pages)}"
        if spill.unmapped <= thresholds.spilled_bytes:
            return Conclusion("spilled", said)
        are_all = spill.outside - spill.unmapped <= thresholds.spilled_bytes
        said += f", {in_units(spill.unmapped)} of them in files in memory that no process maps"
        return Conclusion("spilled", said, remedies.of_unmapped(of, are_all))
    if spill.settling:
        reason = "its cpuset was corrected, and memory outside the promised nodes may still be moving back"
        return Conclusion("unknown", reason, "Wait until it has stopped moving.")
    return Conclusion(
        "unknown",
        "memory is outside the promised nodes, but a second tick must confirm it",
        "Wait for the next tick, which decides.",
    )


def _sizes(pages: Sequence[HugePagesOfContainer]) -> str:
    """1Gi of its 4Gi of hugepages-1Gi"""
    said = [f"{in_units(one.misplaced_bytes or 0)} of its {in_units(one.held)} of {one.type}" for one in pages]
    return " and ".join(said)


def _drift(allowed: NodeSet, promised: NodeSet) -> str:
    """it may use nodes 0,2, but was promised node 2 only"""
    only = " only" if promised <= allowed else ""
    return f"it may use {allowed.in_words}, but was promised {promised.in_words}{only}"


def _why_not_known(snapshot: Snapshot) -> str:
    """A checkpoint that was read has no entry for it; or else why none was read."""
    if snapshot.intent is None:
        return _why_no_intent(snapshot) or "the kubelet's promises were not read"
    for one in snapshot.intent.sources:
        if one.name == "memory checkpoint" and one.state == "missing":
            return f"no memory checkpoint can be read: {one.reason or 'it is not there'}"
    return "no checkpoint entry matches this cgroup"


def _has_huge_pages(intent: ContainerIntent) -> bool:
    return any(block.type != "memory" and block.size for block in intent.promise.memory or ())


def _placed(
    intent: Intent | None, evidence: ContainerEvidence, allowed: Allowed, intended: NodeSet, thresholds: Thresholds
) -> Conclusion:
    """The verdict on a container whose memory is where it was promised."""
    if allowed.cpus is None:
        return Conclusion("unknown", "its allowed CPUs are unknown")
    machine = evidence.machine
    by_list = evidence.history.ran is None and machine.nodes_of_cpus(allowed.cpus) is None
    if by_list or intended & machine.without_cpu_list:
        return Conclusion("unknown", f"the nodes of its allowed CPUs are unknown: {machine.cpu_problem}")
    cpu_remote = _why_cpu_remote(evidence, allowed.cpus, intended, thresholds)
    if cpu_remote is not None:
        own = evidence.intent
        cause = None if intent is None or own is None else cpu_cause(own, allowed.cpus, intent)
        if cause is None:
            return Conclusion("cpu-remote", cpu_remote)
        commands = remedies.write_back(evidence.container, "cpuset.cpus", cause.write_back)
        return Conclusion("cpu-remote", f"{cpu_remote}: {cause.reason}", cause.remedy, commands)
    used = evidence.history.used
    if used is not None and used.is_past:
        limit = remote_limit(thresholds, intended)
        return Conclusion("remote-access", access_clause(used, evidence.now) + still_clause(used.share.lower, limit))
    is_recent = used is not None and evidence.now - used.taken_at <= thresholds.access_age
    said = access_clause(used, evidence.now) if used is not None and is_recent else None
    if len(intended) > 1:
        part = "" if said is None else f": {said}"
        return Conclusion(
            "split", f"the promise spans {intended.in_words}, so part of the accesses is remote by design{part}"
        )
    return Conclusion("aligned", said or "access not measured")


def _why_unmanaged(intent: Intent | None, evidence: ContainerEvidence) -> str | None:
    """Reason why nothing was promised; None when something was, or when that is not known."""
    container = evidence.container
    if container.pod_uid is None and evidence.intent is None:
        return "not a Kubernetes container"
    if evidence.intent is not None and evidence.intent.claimed_memory:
        return None
    if container.qos is not None and container.qos != "Guaranteed":
        return f"the pod is {container.qos}{_culprit(intent, container)}"
    if intent is None:
        return None
    if (intent.config.memory_manager_policy or "").lower() == "none":
        return "the kubelet's Memory Manager policy is None"
    own = evidence.intent
    if own is not None and own.promise.memory == ():
        pod = (intent.pods or {}).get(own.pod_uid)
        if pod is not None and pod.has_pod_level_resources:
            return "the pod has pod-level resources, which the Memory Manager ignores"
        return "the Memory Manager promised it nothing"
    return None


def _culprit(intent: Intent | None, container: Container) -> str:
    """Why a Burstable pod is not Guaranteed: a container and its field; empty = not known."""
    pod = (intent.pods or {}).get(container.pod_uid or "") if intent is not None else None
    if pod is None or pod.spec is None or container.qos != "Burstable":
        return ""
    why = why_not_guaranteed(pod.spec)
    return f": {why}" if why else ""


def _why_cpu_remote(evidence: ContainerEvidence, cpus: CpuSet, intended: NodeSet, thresholds: Thresholds) -> str | None:
    """By the CPU time when it was measured last; by the allowed CPUs when it has hardly run, or was not measured."""
    home, ran = evidence.machine.cpu_nodes_of(intended), evidence.history.ran
    if ran is not None:
        return _why_ran_elsewhere(ran, home, evidence.now, thresholds) if ran.is_past else None
    by_node = {node.id: len(node.cpus & cpus) for node in evidence.machine.nodes if node.cpus}
    may = share_outside(by_node, home)
    if may is None or may <= thresholds.cpu_remote_share:
        return None
    seconds = evidence.history.cpu_seconds.total
    why = "" if evidence.samples_cpu else " (CPU time was not measured lately)"
    if evidence.measures_cpu:
        why = f" (only {seconds:.1g} s of CPU time were measured)" if seconds else " (idle)"
    return f"{may:.0%} of the allowed CPUs are on nodes other than {home}{why}"


def _why_ran_elsewhere(ran: RanElsewhere, home: NodeSet, now: float, thresholds: Thresholds) -> str:
    limit, minutes = thresholds.cpu_remote_share, int(now - ran.taken_at) // 60
    said = f"{ran.share:.0%} of the CPU time was on nodes other than {home}"
    if minutes > 0:
        return f"{said}, when it ran last, {minutes} min ago"
    if not ran.latest and ran.latest is not None:
        return f"{said} in the last {thresholds.window / 60:.0f} minutes, none in the last tick"
    return said if ran.share > limit else f"{said} (it was more than {limit:.0%}, and ends below {ends_at(limit):.1%})"


def _why_no_intent(snapshot: Snapshot) -> str | None:
    """Reason why the kubelet's promises were not read; None = they were, or nobody asked."""
    return next((one.reason for one in snapshot.outcomes if one.source == "intent" and one.reason), None)
