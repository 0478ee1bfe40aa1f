"""A cluster's containers and nodes, and where a pod would be admitted, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.topology.nodeset import NodeSet
from numaudit.value import Timestamp, Value


def misaligned(verdicts: Mapping[str, int]) -> int:
    """Containers that did not get what they were promised, of those by verdict."""
    return sum(verdicts.get(name, 0) for name in MISALIGNED)


class FleetAgents(Value, frozen=True):
    """Number of nodes that report, and the reasons why others do not."""

    reporting: int
    """They answer, and measure."""
    stale: int
    """They answer, but measure nothing any more."""
    down: int
    """They do not answer."""
    gone: int
    """They were scraped within the last hour, and are not now."""
    versions: dict[str, int]
    """numaudit's version -> nodes."""
    none: int = 0
    """No agent runs there; only the API server knows these nodes, so `numaudit fleet` counts none."""


class FleetContainer(Value, frozen=True):
    """One of the worst containers; null = not known."""

    node: str
    """The Kubernetes node."""
    namespace: str
    """Empty, as is the pod, for a plain cgroup."""
    pod: str
    """The pod's name."""
    container: str
    """The container's name; of a plain cgroup its path."""
    verdict: str
    """Its verdict."""
    misplaced_bytes: int
    judged_bytes: int | None
    """anon + shmem + hugetlb."""
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


class FleetNode(Value, frozen=True):
    """One Kubernetes node; null = not known."""

    node: str
    """Its name."""
    instance: str
    """Address at which its agent is scraped, or the agent's namespace/pod; empty = it has none."""
    state: Literal["reporting", "stale", "down", "gone", "none"]
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


class FleetRefusal(Value, frozen=True):
    """Pods that kubelets refused within the last hour."""

    reason: str
    """The kubelet's reason."""
    outcome: str
    """Outcome of their hints."""
    pods: int
    """Number of these pods."""


class FleetWorkload(Value, frozen=True):
    """A workload whose pods were refused within the last hour."""

    namespace: str
    """Its namespace."""
    workload: str
    """The Deployment, StatefulSet, Job, ..., or the pod."""
    pods: int
    """Number of its refused pods."""


class FleetRoom(Value, frozen=True):
    """The Kubernetes node that would now admit the largest request for memory on this number of NUMA nodes."""

    numa_nodes: int = field(name="nodeCount")
    """Number of NUMA nodes."""
    bytes: int
    """The largest request."""
    node: str
    """The Kubernetes node where it would be admitted."""


class ClusterFigures(Value, frozen=True):
    """The cluster, whoever was asked."""

    taken_at: Timestamp
    """By the clock of the Prometheus, or of the machine that asked the agents."""
    namespace: str | None
    """Namespace whose containers are counted; null = all."""
    summary: str
    """One sentence."""
    agents: FleetAgents
    """The nodes that report, and those that do not."""
    verdicts: dict[str, int]
    """Verdict -> containers, the worst first."""
    findings: dict[str, int]
    """Finding -> containers, the gravest first."""
    misplaced_bytes: int
    """Judged bytes on nodes that were not promised, of all containers."""
    worst: list[FleetContainer]
    """The worst containers, the worst first."""
    nodes: list[FleetNode]
    """The worst first: kubelets that would not start again, critical findings, agents that do not report, misaligned
    containers by bytes."""
    refusals: list[FleetRefusal]
    """Refused pods by reason."""
    refused_workloads: list[FleetWorkload]
    """The workloads whose pods were refused most often."""
    allocatable_bytes: int
    """The sums of the nodes' memory maps, without huge pages."""
    free_bytes: int
    """Memory that is not promised."""
    stranded_bytes: int
    """Free, but for no container of one NUMA node."""
    largest_rooms: list[FleetRoom]
    """The Kubernetes nodes with the most room, by the number of NUMA nodes."""
    notices: list[str]


class FleetReport(ClusterFigures, frozen=True):
    """The cluster, by what a Prometheus has of its agents."""

    prometheus: str
    """Its URL, without secrets."""


class ClusterReport(ClusterFigures, frozen=True):
    """The cluster, by what each agent answered through the API server."""

    context: str | None
    """Context of the kubeconfig; null = there is none, as in a pod."""


class NodeAnswer(Value, frozen=True):
    """The answer of one node's agent to a verb."""

    node: str
    """The Kubernetes node."""
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
    """Context of the kubeconfig; null = there is none, as in a pod."""
    verb: str
    """The verb, such as `state verify`."""
    answers: list[NodeAnswer]
    """By the name of the node."""
    notices: list[str]


FitState = Literal["fits", "short", "near", "refused", "unmanaged", "unknown"]


class FleetFit(Value, frozen=True):
    """One node's answer about the pod."""

    node: str
    """The Kubernetes node."""
    state: FitState
    """short: admitted, but the kernel lacks its huge pages; near: refused, but not if it asked for something else;
    unmanaged: the Memory Manager promises it nothing, so memory does not decide; unknown: too little is known of the
    node."""
    fits: int | None
    """Number of such pods that would be admitted, one after the other; null = not known."""
    may_fit_more: bool
    """It was not tried any further."""
    outcome: str | None
    """Outcome of the first one's hints, or the reason why it is refused."""
    memory_nodes: NodeSet | None
    """The NUMA nodes of the first one's memory; null = of none of its own."""
    message: str | None
    """The reason why it is refused, or what is not known."""
    admitting_changes: list[str] = field(name="waysIn")
    """Changes that would let it in, on the nodes with the most room."""


class FleetForecast(Value, frozen=True):
    """On which nodes a pod would be admitted now."""

    prometheus: str
    """Its URL, without secrets."""
    taken_at: Timestamp
    """By the clock of the Prometheus."""
    pod: str
    """The pod's name."""
    count: int | None
    """Number of wanted pods; null = as many as fit."""
    sentence: str
    """The answer in one sentence."""
    fits: int
    """Number of pods that would be admitted on all nodes together."""
    nodes: list[FleetFit]
    """By state, those on which most fit first, and then those with most room."""
    not_considered: list[str]
    """Other reasons that may keep the pod out."""
    notices: list[str]

    @property
    def is_enough(self) -> bool:
        """Would as many be admitted as are wanted? Where memory does not decide, it keeps none out."""
        return self.fits >= (self.count or 1) or any(one.state == "unmanaged" for one in self.nodes)
