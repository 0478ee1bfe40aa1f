"""A cluster's containers and nodes, and its agents' answers, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numaudit.encoding.value import Timestamp, Value
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.topology.nodeset import NodeSet


def misaligned(verdicts: Mapping[str, int]) -> int:
    """Containers that did not get what they were promised, of those by verdict."""
    return sum(verdicts.get(name, 0) for name in MISALIGNED)


class ClusterAgents(Value, frozen=True):
    """Number of nodes that report, and the reasons why others do not."""

    reporting: int
    """They answer, and measure."""
    stale: int
    """They answer, but measure nothing any more."""
    down: int
    """They do not answer."""
    none: int
    """No agent runs there; only the API server knows these nodes."""
    versions: dict[str, int]
    """numaudit's version -> nodes."""


class ClusterContainer(Value, frozen=True):
    """One of the worst containers; null = not known."""

    node: str
    namespace: str
    """Empty, as is the pod, for a plain cgroup."""
    pod: str
    container: str
    """The container's name; of a plain cgroup its path."""
    verdict: str
    """Its verdict."""
    misplaced_bytes: int
    judged_bytes: int | None
    aligned_bytes: int | None
    """Of these, those on promised nodes."""
    remote_ratio: float | None
    """The remote share of its accesses."""
    remote_source: str | None
    """Source of the ratio: pmu or expected."""
    intended_memory_nodes: NodeSet | None
    """The promised nodes."""
    findings: list[str]
    """Names of the findings about it."""


class ClusterNode(Value, frozen=True):
    """One Kubernetes node; null = not known."""

    node: str
    instance: str
    """namespace/pod of its agent; empty = it has none."""
    state: Literal["reporting", "stale", "down", "none"]
    """Does its agent report? none: it has none."""
    version: str | None
    """numaudit's version there."""
    age_seconds: float | None
    """Since what it reports was measured."""
    verdicts: dict[str, int]
    """Verdict -> containers."""
    misplaced_bytes: int
    allocatable_bytes: int | None
    """The Memory Manager's memory, without huge pages; null = it has no memory map."""
    free_bytes: int | None
    """Of these, what is not promised."""
    stranded_bytes: int | None
    """Of the free bytes, those for no container of one NUMA node."""
    admissible_bytes: dict[int, int]
    """Number of NUMA nodes -> the largest request for memory that would be admitted on as many now."""
    refused_pods: int
    """Within the last hour."""
    findings: dict[str, int]
    """Finding -> containers."""
    restart_unsafe: bool
    """true: its kubelet would not start again, or only by chance; false: it would, or that is not known."""
    silent_sources: list[str]
    """Sources of its kubelet that were last read long ago."""
    problems: list[str]
    """Problems of this agent."""

    @property
    def containers(self) -> int:
        return sum(self.verdicts.values())

    @property
    def misaligned(self) -> int:
        return misaligned(self.verdicts)


class ClusterRefusal(Value, frozen=True):
    """Pods that kubelets refused within the last hour."""

    reason: str
    outcome: str
    pods: int
    """Number of these pods."""


class ClusterWorkload(Value, frozen=True):
    """A workload whose pods were refused within the last hour."""

    namespace: str
    workload: str
    """The Deployment, StatefulSet, Job, ..., or the pod."""
    pods: int
    """Number of its refused pods."""


class ClusterRoom(Value, frozen=True):
    """The Kubernetes node that would now admit the largest request for memory on this number of NUMA nodes."""

    node_count: int
    bytes: int
    node: str
    """The Kubernetes node where it would be admitted."""


class ClusterReport(Value, frozen=True):
    """The cluster, by what each agent answered through the API server."""

    taken_at: Timestamp
    """By the clock of the machine that asked the agents."""
    namespace: str | None
    """Namespace whose containers are counted; null = all."""
    summary: str
    """One sentence."""
    agents: ClusterAgents
    """The nodes that report, and those that do not."""
    verdicts: dict[str, int]
    """Verdict -> containers, the worst first."""
    findings: dict[str, int]
    """Finding -> containers, the gravest first."""
    misplaced_bytes: int
    """Judged bytes on nodes that were not promised, of all containers."""
    worst: list[ClusterContainer]
    """The worst containers, the worst first."""
    nodes: list[ClusterNode]
    """The worst first: kubelets that would not start again, critical findings, agents that do not report, misaligned
    containers by bytes."""
    refusals: list[ClusterRefusal]
    """Refused pods by reason."""
    refused_workloads: list[ClusterWorkload]
    """The workloads whose pods were refused most often."""
    allocatable_bytes: int
    """The sums of the nodes' memory maps, without huge pages."""
    free_bytes: int
    """Memory that is not promised."""
    stranded_bytes: int
    """Free, but for no container of one NUMA node."""
    largest_rooms: list[ClusterRoom]
    """The Kubernetes nodes with the most room, by the number of NUMA nodes."""
    notices: list[str]
    context: str | None


class NodeAnswer(Value, frozen=True):
    """The answer of one node's agent to a verb."""

    node: str
    agent: str | None
    """namespace/pod of its agent; null = it has none."""
    exit_code: int | None
    """Exit code of the verb there; null = it did not run or did not end."""
    problem: str | None
    """Reason why there is no document; null = there is one."""
    document: dict[str, Any] | None
    """The document that the verb printed there."""


class NodeAnswerList(Value, frozen=True):
    """The answers of all nodes to one verb."""

    context: str | None
    verb: str
    """The verb, such as `state verify`."""
    summary: str | None
    """Of `fit`: on which nodes how many of the pods fit; null = the verb has no sums."""
    answers: list[NodeAnswer]
    """By the name of the node."""
    notices: list[str]


class UnlikeValue(Value, frozen=True):
    """A value that is not that of most nodes."""

    value: str | int
    """Text, or bytes."""
    names: list[str]
    """Names of the Kubernetes nodes that have it."""


class UnlikeSetting(Value, frozen=True):
    """A setting or property in which nodes of one group are unlike."""

    name: str
    """As in the `facts` of a Setup."""
    numa_node: int | None
    """The NUMA node that it is about; null = the whole machine."""
    majority: str | int | None
    """The value of more than half of the nodes; null = there is none."""
    unlike: list[UnlikeValue]
    """The other values; without a majority all of them."""


class NodeGroup(Value, frozen=True):
    """Nodes that should be alike."""

    label_value: str | None
    """Their value of the label; null = they do not have it."""
    names: list[str]
    """Names of the Kubernetes nodes."""
    unlike: list[UnlikeSetting]
    """Settings in which they are unlike, but for versions."""
    versions: list[UnlikeSetting]
    """Versions of kubelet, kernel and numaudit that differ, as during an upgrade."""
    unknown: dict[str, list[str]]
    """Node -> settings that are not known there and were not compared; others of the group know them."""


class NodeComparison(Value, frozen=True):
    """Which nodes of a cluster are set up alike."""

    context: str | None
    label: str
    """The label by which nodes are grouped."""
    groups: list[NodeGroup]
    """By the value of the label."""
    not_compared: list[NodeAnswer]
    """Nodes without an answer, and why."""
    notices: list[str]
