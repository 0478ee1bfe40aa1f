"""Turns a snapshot and what was concluded from it into the report, with huge pages and containers that have ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from numaudit.containermanager.memory.headroom import admissible_huge_pages
from numaudit.containermanager.memory.state import MachineState
from numaudit.encoding.value import Timestamp
from numaudit.errors import InputError
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.headroom import unpromised_by_node
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.huge_pages import HugePagesOfSize, huge_pages_of, others, sets_in_force
from numaudit.evaluation.verdicts import Verdict, harm
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.intent.pods import PodFacts
from numaudit.report.containers import ContainerReports, names_by_container
from numaudit.report.counters import Counters, CountersOfTick
from numaudit.report.kubelet import (
    checkpoint_report,
    kubelet_report,
    restart_report,
)
from numaudit.report.memory_manager import (
    AdmissibleReport,
    HugePagesReport,
    HugePoolReport,
    HugeRoomReport,
    memory_manager_report,
)
from numaudit.report.nodes import by_node, node_report, residuals, tiering_report
from numaudit.report.summary import summarize
from numaudit.report.values import ContainerReport, Ended, Report, Unknown
from numaudit.snapshot import ENDED, UNSEEN, CollectorOutcome, Container, ContainerId, NodeMemory, Snapshot
from numaudit.topology.nodeset import NodeSet

_NO_CGROUP = ContainerId(0)
"""The kernel gives no cgroup this id."""
_REMEDY = "It is judged when it runs; `kubectl describe pod` says why it does not."
_NOT_RUNNING = ("waiting", "terminated")


def not_running_reports(
    snapshot: Snapshot, judgements: Judgements, findings: tuple[Finding, ...], outcomes: tuple[HintOutcome, ...]
) -> Iterator[ContainerReport]:
    """One row for each container that holds a promise but does not run, by its pod's status."""
    intent = snapshot.intent
    for one, pod, state in () if intent is None else _waiting(intent):
        names = tuple([each.name for each in findings if (each.pod_uid, each.container) == (one.pod_uid, one.name)])
        outcome: dict[tuple[str | None, str | None], HintOutcome] = {
            (each.pod_uid, each.container): each for each in outcomes if each.pod_uid == one.pod_uid
        }
        reports = ContainerReports(snapshot, judgements, {_NO_CGROUP: names}, outcome, {_NO_CGROUP: one})
        container = Container(
            id=_NO_CGROUP,
            path="",
            kind="container",
            qos=pod.qos,
            pod_uid=one.pod_uid,
            namespace=pod.namespace,
            pod=pod.name,
            name=one.name,
        )
        verdict = Verdict("unknown", f"it does not run now: its status is {state}", None, (), _REMEDY)
        yield msgspec.structs.replace(reports.of(container), id=None, path=None, verdict=verdict, unknown=())


def _waiting(intent: Intent) -> Iterator[tuple[ContainerIntent, PodFacts, str]]:
    """Those that live, and the words of their status."""
    pods = intent.pods or {}
    for one in intent.alive:
        if one.cgroups or not one.promise.memory:
            continue
        pod = pods.get(one.pod_uid)
        if pod is None or pod.has_ended:
            continue
        state = next((part.state for part in reversed(pod.containers) if part.name == one.name), None)
        if state in _NOT_RUNNING:
            yield one, pod, state


_SOURCE_STATES: dict[str, Literal["ok", "partial", "unavailable"]] = {
    "ok": "ok",
    "partial": "partial",
    "old": "partial",
    "missing": "unavailable",
}


def build(
    snapshot: Snapshot,
    judgements: Judgements | None = None,
    before: Snapshot | None = None,
) -> Report:
    """The report of a snapshot. `judgements` are those of this tick; None = it is judged on its own.

    `before` is the previous snapshot: sampled values cover the time since then.
    """
    intent = snapshot.intent
    judged = judge(snapshot, before) if judgements is None else judgements
    findings = find(snapshot, judged)
    hint_outcomes = judged.hint_outcomes or ()
    of_container = ContainerReports(
        snapshot,
        judged,
        names_by_container(findings),
        {(one.pod_uid, one.container): one for one in hint_outcomes},
        {} if intent is None else intent.by_cgroup,
        before,
    )
    containers = [of_container.of(container) for container in snapshot.containers]
    containers.extend(not_running_reports(snapshot, judged, findings, hint_outcomes))
    containers.sort(key=_order)
    rejections = tuple(one for one in hint_outcomes if one.container is None)
    nodes = tuple(node_report(memory, snapshot.machine) for memory in snapshot.nodes)
    return Report(
        summary=summarize(containers, nodes, findings, len(rejections)),
        taken_at=Timestamp(snapshot.taken_at),
        cgroup_mode=snapshot.cgroup_mode,
        containers=tuple(containers),
        nodes=nodes,
        unattributed=None if snapshot.unattributed is None else by_node(snapshot.unattributed),
        ended=_ended(snapshot),
        residual=residuals(snapshot),
        findings=findings,
        rejections=rejections,
        setup=tuple(one for one in judged.setup if one.is_fault or one.state == "accepted"),
        kubelet=None if intent is None else kubelet_report(intent),
        checkpoints=() if intent is None else tuple(map(checkpoint_report, intent.checkpoints)),
        memory_manager=memory_manager_report(
            intent, unpromised_by_node(snapshot), () if intent is None else huge_pages_report(snapshot, intent)
        ),
        restarts=() if intent is None else tuple(map(restart_report, intent.forecasts)),
        numa_balancing=None if snapshot.numa_balancing is None else snapshot.numa_balancing.host,
        tiering=tiering_report(snapshot),
        overhead=snapshot.overhead,
        probes=tuple(snapshot.probes.values()),
        unknown=_unknown(snapshot),
        sources=(*snapshot.outcomes, *_intent_sources(intent)),
        rank_round=snapshot.rank_round,
        rates=snapshot.rates,
    )


def _ended(snapshot: Snapshot) -> Ended | None:
    if not snapshot.probes:
        return None
    measured = CountersOfTick.by(snapshot)
    unseen = Counters(**measured.of(UNSEEN)) if snapshot.is_whole_host else None
    return Ended(seen=Counters(**measured.of(ENDED)), unseen=unseen)


def _order(one: ContainerReport) -> tuple[tuple[bool, int, int], int, int, str]:
    return harm(one.verdict, one.bytes_elsewhere), -(one.remote_bytes or 0), -(one.judged_bytes or 0), one.path or ""


def _intent_sources(intent: Intent | None) -> tuple[CollectorOutcome, ...]:
    """The kubelet's sources in the same words as our own collectors."""
    sources = () if intent is None else intent.sources
    return tuple(
        CollectorOutcome(one.name, _SOURCE_STATES[one.state], one.reason, age_seconds=one.age, old=one.state == "old")
        for one in sources
    )


def _unknown(snapshot: Snapshot) -> tuple[Unknown, ...]:
    found = []
    if snapshot.cgroup_mode in ("v1", "hybrid"):
        found.append(Unknown("shmem", "cgroup v1 counts shared memory as anon"))
        found.append(Unknown("kernel", "cgroup v1 does not split a container's kernel memory by node"))
    if not snapshot.is_whole_host:
        found.append(Unknown("other cgroups", "only those of this cgroup namespace can be seen, not the host's others"))
    if snapshot.unattributed is None:
        found.append(Unknown("unattributed", "the root cgroup's memory.numa_stat could not be read"))
    elif snapshot.unattributed.hugetlb is None and _huge_pages_in_use(snapshot.nodes):
        found.append(Unknown("unattributed hugetlb", "not all processes of the root cgroup could be read"))
    return tuple(found)


def _huge_pages_in_use(nodes: Sequence[NodeMemory]) -> bool:
    return any(sum((node.resident.hugetlb or {}).values()) for node in nodes)


def huge_pages_report(snapshot: Snapshot, intent: Intent) -> tuple[HugePagesReport, ...]:
    """A row for each page size that has a pool or a promise. Empty where there is no memory map."""
    machine = intent.machine
    if not machine:
        return ()
    return tuple(_huge_pages_of(one, snapshot, intent, machine) for one in huge_pages_of(snapshot))


def _huge_pages_of(
    of_size: HugePagesOfSize, snapshot: Snapshot, intent: Intent, machine: MachineState
) -> HugePagesReport:
    size = of_size.room.page_size
    pools = tuple(
        HugePoolReport(
            node,
            pool.total * size,
            None if pool.free is None else pool.free * size,
            None if pool.surplus is None else pool.surplus * size,
            others(of_size, node, snapshot),
        )
        for node, pool in of_size.pools.items()
    )
    rooms = tuple(_huge_room(of_size, machine, nodes) for nodes in sets_in_force(machine))
    return HugePagesReport(of_size.type, size, of_size.room.reserved, pools, rooms, _admissible(of_size, intent))


def _huge_room(of_size: HugePagesOfSize, machine: MachineState, nodes: NodeSet) -> HugeRoomReport:
    room = of_size.room
    tables = [machine[node].memory_map.get(of_size.type) for node in nodes if node in machine]
    by_map = sum(table.free for table in tables if table is not None)
    left = room.left(nodes)
    smaller = None if left is None else min(left, by_map // room.page_size * room.page_size)
    return HugeRoomReport(nodes, by_map, room.free_on(nodes), room.unclaimed_on(nodes), smaller)


def _admissible(of_size: HugePagesOfSize, intent: Intent) -> tuple[AdmissibleReport, ...] | None:
    try:
        found = admissible_huge_pages(
            intent.machine or {}, intent.config.topology_manager_policy, of_size.type, of_size.room
        )
    except InputError:  # the map does not have the size on each node: the kubelet started before it was there
        return None
    return None if found is None else tuple(AdmissibleReport(nodes, most) for nodes, most in found.items())


def last_counts(before: Report, snapshot: Snapshot) -> tuple[ContainerReport, ...]:
    """Last reports of containers that are not in the snapshot, with the counts that came since.

    A counter that was not read once more keeps what it had.
    """
    alive = {container.id for container in snapshot.containers}
    measured = CountersOfTick.by(snapshot)
    return tuple(
        replace(one, **measured.last_of(ContainerId(one.id)))
        for one in before.containers
        if one.id is not None and one.id not in alive
    )
