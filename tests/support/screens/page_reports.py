"""Reports that are hard on a page: of many containers, and of names that do harm."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

from msgspec.structs import replace

from made_up.accesses import counted, sampled
from made_up.reports import container, report
from numaudit.encoding.value import Timestamp
from numaudit.evaluation.access import measured
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.setup import AREAS, STATES, SetupResult
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES, Cause, Verdict, VerdictName, severity
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.kubelet import KubeletReport
from numaudit.report.memory_manager import (
    AdmissibleReport,
    HolderReport,
    MemoryManagerReport,
    MemoryNodeReport,
    MemoryTableReport,
)
from numaudit.report.summary import summarize
from numaudit.report.values import ContainerReport, Intended, NodeBytes, NodeReport, Report, Unknown
from numaudit.snapshot import CollectorOutcome
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB, MIB = 1 << 30, 1 << 20
_ACCESSES = (
    (counted(0.0375),),
    (sampled(remote=50, memory=125),),
    (),
)


def many(number: int, verdicts: tuple[VerdictName, ...] = tuple(REMEDIES), nodes: int = 4) -> Report:
    """A busy node: the verdicts take turns, every ninth container has no known memory; the worst come first."""
    base = report(container())
    machine = tuple(_node(id_, nodes) for id_ in range(nodes))
    rows = [_row(base.containers[0], id_, name, nodes) for id_, name in enumerate(islice(cycle(verdicts), number))]
    rows.sort(key=lambda one: (severity(one.verdict), -(one.remote_bytes or 0)))
    refused = tuple(_refused(f"prod/batch-{id_}") for id_ in range(2))
    return replace(
        base,
        containers=tuple(rows),
        nodes=machine,
        memory_manager=_memory_manager(nodes),
        kubelet=KubeletReport("v1.36.0", "Static", "static", "single-numa-node", "container", None, None, None),
        rejections=refused,
        summary=summarize(rows, machine, (), len(refused)),
    )


def hostile(name: str) -> Report:
    """The name stands wherever a name or a message may stand."""
    of = report(container(7, name, name, name))
    one = replace(
        of.containers[0], path=name, verdict=Verdict("spilled", name, None, (Cause("cpuset", name),), name),
        unknown=(Unknown(name, name),), container_id=name, runtime=name,
    )  # fmt: skip
    plain = replace(one, id=9, pod_uid=None, pod=None, namespace=None, container=None)
    finding = Finding(name, "warning", name, name, 7, name, name, None, name, name)
    refused = HintOutcome(name, name, name, None, AdmissionOutcome.REJECTED_OTHER, "log", None, name, name, {name: 1})
    return replace(
        of, containers=(one, plain), findings=(finding,), rejections=(refused,),
        sources=(CollectorOutcome(name, "failed", name),), summary=replace(of.summary, text=name),
        setup=setup_rules(name),
    )  # fmt: skip


def setup_rules(name: str = "work/db-0") -> tuple[SetupResult, ...]:
    """One in each state, the best first, with the name wherever a rule may have one."""
    return tuple(
        SetupResult(
            f"rule-{state}", AREAS[number % 2], state, () if state == "pass" else (f"{name} of {state}",) * 4,
            f"why {state}.", None if state in ("pass", "not-judged") else f"Run `mend {state}` once.",
            f"https://docs.kernel.org/{state}.html", None, name if state == "accepted" else None,
        )
        for number, state in enumerate(reversed(STATES))
    )  # fmt: skip


def _row(base: ContainerReport, id_: int, name: VerdictName, nodes: int) -> ContainerReport:
    home, away = id_ % nodes, (id_ + 1) % nodes
    wrong = name in MISALIGNED
    held = {home: (id_ % 97 + 1) * MIB, away: id_ % 13 * MIB if wrong else 0}
    known = id_ % 9 != 8
    reason = f"{held[away] // MIB}Mi of its {sum(held.values()) // MIB}Mi are on node {away}, promised are {home}"
    verdict = Verdict(
        name, reason if wrong else "for a reason", None,
        (Cause("full-node", f"node {home} has 12.3Mi free"),) if wrong else (), REMEDIES[name],
    )  # fmt: skip
    at_home = NodeSet.from_ids([home])
    promise = Intended(at_home, {"memory": GIB}, CpuSet.from_ids([home]), at_home, None)
    allowed = NodeSet.from_ids(range(home % 2, nodes, 2)) if name == "drifted" else at_home
    return replace(
        base, id=id_, namespace=("prod", "kube-system")[id_ % 2], pod=f"deployment-name-5d8f7c9b6-x{id_:04d}",
        pod_uid=f"uid-{id_}", container="application",
        qos=("Guaranteed", "Burstable")[name == "unmanaged"], verdict=verdict,
        resident=tuple(_bytes(node, amount) for node, amount in held.items()) if known else None,
        judged_bytes=sum(held.values()) if known else None, remote_bytes=held[away] if known else None,
        allowed_memory_nodes=allowed, allowed_cpu_nodes=allowed, intended=None if name == "unmanaged" else promise,
        accesses=_ACCESSES[id_ % len(_ACCESSES)],
        measured=measured(_ACCESSES[id_ % len(_ACCESSES)]),
    )  # fmt: skip


def _bytes(node: int, anon: int) -> NodeBytes:
    return NodeBytes(node, anon, 0, 0, 0, 0, 0)


def _node(id_: int, nodes: int) -> NodeReport:
    distances = {other: 10 if other == id_ else 12 + 4 * abs(other - id_) for other in range(nodes)}
    cpus = CpuSet.parse(f"{16 * id_}-{16 * id_ + 15}")
    return NodeReport(id_, cpus, 64 * GIB, (20 + id_) * GIB, _bytes(id_, 30 * GIB), None, distances)


def _memory_manager(nodes: int) -> MemoryManagerReport:
    def of_each(id_: int) -> Iterator[MemoryTableReport]:
        yield MemoryTableReport(id_, "memory", 64 * GIB, GIB, 63 * GIB, 40 * GIB, 23 * GIB)
        yield MemoryTableReport(id_, "hugepages-2Mi", 4 * GIB, 0, 4 * GIB, id_ * GIB, (4 - id_) * GIB)

    return MemoryManagerReport(
        tuple(table for id_ in range(nodes) for table in of_each(id_)),
        tuple(MemoryNodeReport(id_, NodeSet.from_ids([id_]), 7, 0, 3 * GIB, 2 * GIB, GIB) for id_ in range(nodes)),
        tuple(AdmissibleReport(width, 23 * GIB if width == 1 else 0) for width in range(1, nodes + 1)),
        0.25,
        tuple(
            HolderReport(NodeSet.from_ids([id_]), "prod", f"database-{id_}", f"uid-{id_}", False, {"memory": 40 * GIB})
            for id_ in range(nodes)
        ),
    )


def _refused(name: str) -> HintOutcome:
    namespace, _, pod = name.partition("/")
    words = "Resources cannot be allocated with Topology locality"
    return HintOutcome(
        namespace, pod, f"uid-of-{pod}", None, AdmissionOutcome.REJECTED_AFFINITY, "log", None, None, words,
        {"memory": 90 * GIB}, Timestamp(1_700_000_900),
    )  # fmt: skip
