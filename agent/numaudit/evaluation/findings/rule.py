"""Findings, and the rules that find them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct, field

from numaudit.encoding.value import Value
from numaudit.errors import printable
from numaudit.evaluation.history import History
from numaudit.evaluation.ranks.rank import Rank
from numaudit.evaluation.setup import SetupResult
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.topology.nodeset import NodeSet

Severity = Literal["critical", "warning", "info"]


class Finding(Value, frozen=True):
    """Something wrong or risky, and what to do about it."""

    name: str
    severity: Severity
    """Severity of the finding."""
    message: str
    """Description of the problem."""
    remedy: str
    """Remedy."""
    container_id: int | None = field(name="id")
    """cgroup id of the container; None = not of a container that runs now."""
    pod_uid: str | None
    container: str | None
    numa_nodes: NodeSet | None
    """The nodes that it is about; null = of none in particular."""
    namespace: str | None
    pod: str | None


class TickEvidence(Struct, frozen=True):
    """Input of one tick's rules."""

    snapshot: Snapshot
    intent: Intent
    """The snapshot's; empty where there is no kubelet."""
    histories: Mapping[ContainerId, History]
    """Measurements of containers lately."""
    ranks: Mapping[ContainerId, tuple[Rank, ...]]
    """Ranks of the containers whose processes were read."""
    setup: tuple[SetupResult, ...] = ()
    """The rules about how the node is set up."""

    def containers_in(self, rows: Collection[ContainerId]) -> list[Container]:
        """The containers that have one of these rows, in the snapshot's order. Most rules have rows of few."""
        return [one for one in self.snapshot.containers if one.id in rows] if rows else []


class RuleResult(NamedTuple):
    """One result of a rule."""

    message: str
    container_id: int | None = None
    pod_uid: str | None = None
    container: str | None = None
    numa_nodes: NodeSet | None = None
    remedy: str | None = None
    """None = the rule's."""
    namespace: str | None = None
    pod: str | None = None


class Rule(Struct, frozen=True):
    """All that holds for findings of one name. docs/findings.md explains each."""

    name: str
    severity: Severity
    remedy: str
    find: Callable[[TickEvidence], Iterable[RuleResult]]

    def findings(self, evidence: TickEvidence) -> Iterator[Finding]:
        for one in self.find(evidence):
            remedy = self.remedy if one.remedy is None else one.remedy
            yield Finding(self.name, self.severity, one.message, remedy, *one[1:5], one.namespace, one.pod)


def about_row(one: Container, text: str, nodes: NodeSet | None) -> RuleResult:
    """A result about one row of the report, be it a container or not."""
    name = one.name or one.path
    return RuleResult(printable(text), one.id, one.pod_uid, name, nodes, namespace=one.namespace, pod=one.pod)


def about(one: ContainerIntent, text: str, nodes: NodeSet | None = None, remedy: str | None = None) -> RuleResult:
    """A result about one promise; `nodes` None = about those of its memory."""
    return RuleResult(
        text,
        container_id=one.cgroups[0] if len(one.cgroups) == 1 else None,
        pod_uid=one.pod_uid,
        container=one.name,
        numa_nodes=nodes if nodes is not None else one.promise.memory_nodes,
        remedy=remedy,
        namespace=one.namespace,
        pod=one.pod,
    )
