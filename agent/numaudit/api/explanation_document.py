"""Explanation why a pod is admitted or refused, as a document."""

from __future__ import annotations

from collections.abc import Iterable, Set

from msgspec import field

from numaudit.api import simulation_document
from numaudit.api.simulation_document import ContainerPlace
from numaudit.containermanager.memory.headroom import HugePageShortage
from numaudit.containermanager.predicates import NodeShortage
from numaudit.containermanager.topologymanager.hints import MergeSteps, TopologyHint
from numaudit.encoding.value import Value
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.outcome import Decision, ProviderAnswer
from numaudit.scenario import words
from numaudit.scenario.admitting_changes import AdmittingChange
from numaudit.scenario.explanation import AdmissionExplanation
from numaudit.scenario.make_room import MakeRoom
from numaudit.scenario.refusals import PROVIDERS
from numaudit.topology.nodeset import NodeSet


class Candidate(Value, frozen=True):
    """One set of nodes, and what the Memory Manager made of it."""

    nodes: list[int]
    """The set."""
    verdict: str
    """kept, or the rule that ruled it out: too-small, in-a-group, breaks-a-group, not-free."""
    preferred: bool
    """Would the hint for it be preferred?"""
    explanation: str
    """The verdict in words."""


class MergeOffer(Value, frozen=True):
    """One resource's part in the merge."""

    provider: str
    """Name of the hint provider."""
    resource: str | None
    """Name of the resource; null = the provider has no preference."""
    hints: int
    """Number of hints that it gave."""
    kept: int
    """Hints that the policy lets take part."""


class Merge(Value, frozen=True):
    """The merge, step by step; sets of nodes in ascending order."""

    policy: str
    """topologyManagerPolicy."""
    offers: list[MergeOffer]
    """Hints of each resource."""
    agreed: list[list[int]]
    """Sets on which a preferred hint of each offer agrees."""
    reachable: list[list[int]]
    """Sets of nodes that some combination of hints leaves, where none is agreed on."""
    goal: int
    """Number of nodes that a hint that is not preferred should have."""
    finalists: list[list[int]]
    """Sets that were left to choose from."""
    hint: TopologyHint
    """The result."""
    admitted: bool
    combinations: int
    """Combinations of hints that the kubelet walks through."""
    estimated_seconds: float | None
    """null = too few combinations to matter."""


class ExplainedMerge(Value, frozen=True):
    """One merge and what went into it."""

    container: str | None
    """null = the whole pod."""
    candidates: list[Candidate]
    """The sets of nodes that the Memory Manager tried."""
    providers: tuple[ProviderAnswer, ...]
    """Answer of each provider."""
    merge: Merge
    """The merge of the answers."""


class Doubt(Value, frozen=True):
    """Pods in the checkpoints of which nobody here knows whether they live. They are taken to live."""

    pods: list[str]
    """namespace/pod, or the UID where no more is known."""
    reason: str
    """Reason why it is not known."""
    decides: bool
    """Is the pod refused instead of admitted, or the other way round, if they are gone?"""
    elsewhere: dict[str, ContainerPlace] = field(default_factory=dict)
    """Container -> what it gets if they are gone, where that is something else; only of a pod admitted either way."""


class Replicas(Value, frozen=True):
    """How many such pods fit, one after the other."""

    asked: int
    """Number of them."""
    fit: int
    """Those that would be admitted, get their huge pages, and leave a kubelet that starts again; no more than 1000 are
    tried."""


class Explanation(Value, frozen=True):
    """Explanation why a pod is admitted or refused."""

    pod: str
    """namespace/pod."""
    admitted: bool
    reason: str | None
    message: str | None
    outcome: str
    detail: str | None
    """Detail that the kubelet's message leaves out; null = nothing."""
    sentence: str
    containers: dict[str, ContainerPlace]
    decisions: list[ExplainedMerge]
    """None under topologyManagerPolicy none."""
    admitting_changes: tuple[AdmittingChange, ...]
    shortage: NodeShortage | None
    """The reason why the node as a whole cannot take it (OutOfcpu and the like); null = it can, or that is not
    known."""
    not_added_up: str | None
    """The reason why what the node's pods ask for was not added up, so that the answer is by NUMA rules only; null = it
    was."""
    doubt: Doubt | None
    """null = it is known of all pods in the checkpoints whether they live."""
    notices: list[str]
    make_room: MakeRoom | None
    """null = that was not asked."""
    owner: str | None = None
    """The workload whose pod template it is, such as `Deployment web`; null = the file has the pod itself."""
    hugepages_short: tuple[HugePageShortage, ...] | None = None
    """Huge pages that the kernel cannot give to the admitted pod; null = not known: the pod is refused, asks for none,
    or the node was given by files."""
    start_refusal: str | None = None
    """The reason, in its words, why the kubelet would not start again after this admission; null = it would."""
    not_checked: tuple[str, ...] = ()
    """Fields of the pod that may keep it from this node and that the answer leaves out, such as nodeSelector."""

    not_known: str | None = None
    """The reason why it is not known whether the kubelet decides like this, such as a feature gate; null = it does."""
    replicas: Replicas | None = None
    """null = the pod is there already."""

    @property
    def is_open(self) -> bool:
        """May the kubelet decide otherwise?"""
        return self.not_known is not None or (self.doubt is not None and self.doubt.decides)

    @property
    def fits(self) -> bool:
        """Would it be admitted, get its huge pages, and leave a kubelet that starts again?"""
        return self.not_known is None and self.admitted and not self.hugepages_short and self.start_refusal is None

    @property
    def replicas_fit(self) -> bool:
        """Do all of them fit that were asked for?"""
        return self.replicas is None or self.replicas.fit == self.replicas.asked


class ExplanationList(Value, frozen=True):
    """Several pods of one file, each on the node as it is now, without the others."""

    items: list[Explanation]
    """In the order of the file."""


def explanation(
    found: AdmissionExplanation,
    policy: str,
    notices: Iterable[str],
    room: MakeRoom | None = None,
    doubt: Doubt | None = None,
    not_added_up: str | None = None,
    owner: str | None = None,
    hugepages_short: tuple[HugePageShortage, ...] | None = None,
    replicas: Replicas | None = None,
) -> Explanation:
    """`policy` is the Topology Manager's."""
    admission = found.admission
    rejection = admission.rejection
    return Explanation(
        pod=admission.pod.full_name,
        admitted=admission.admitted,
        reason=None if rejection is None else rejection.reason,
        message=None if rejection is None else rejection.message,
        outcome=simulation_document.outcome(admission),
        detail=None if rejection is None else rejection.detail,
        sentence=found.sentence,
        containers=simulation_document.containers(admission),
        decisions=[explained_merge(one, policy) for one in found.admission.decisions],
        admitting_changes=found.admitting_changes,
        shortage=None if rejection is None else rejection.shortage,
        not_added_up=not_added_up,
        doubt=doubt,
        notices=list(notices),
        make_room=room,
        owner=owner,
        hugepages_short=hugepages_short,
        start_refusal=found.start_refusal,
        not_checked=admission.pod.not_checked,
        not_known=admission.problem,
        replicas=replicas,
    )


def doubt(pods: list[str], reason: str, admission: Admission, without: Admission | None) -> Doubt:
    """`without`: the same admission if those pods are gone; None = a kubelet would crash."""
    if without is None or without.admitted is not admission.admitted:
        return Doubt(pods, reason, decides=True)
    places = simulation_document.containers(admission) if admission.admitted else {}
    others = simulation_document.containers(without)
    elsewhere = {name: others[name] for name, place in places.items() if _held(others[name]) != _held(place)}
    return Doubt(pods, reason, decides=False, elsewhere=elsewhere)


def _held(place: ContainerPlace) -> object:
    return place.cpuset_mems, place.cpus, place.devices, place.device_choices


def explained_merge(one: Decision, policy: str) -> ExplainedMerge:
    """`policy` is the Topology Manager's."""
    return ExplainedMerge(
        container=one.container,
        candidates=[
            Candidate(list(each.mask), str(each.verdict), each.preferred, words.verdict(each))
            for each in one.candidates
        ],
        providers=one.answers,
        merge=_steps(one.merge, policy),
    )


def _steps(merge: MergeSteps, policy: str) -> Merge:
    return Merge(
        policy,
        [MergeOffer(PROVIDERS[one.provider], one.resource, len(one.hints), len(one.kept)) for one in merge.offers],
        _masks(merge.agreed),
        _masks(merge.reachable),
        merge.goal,
        _masks(merge.finalists),
        merge.result.hint,
        merge.result.admit,
        merge.combinations,
        None if merge.seconds is None else round(merge.seconds, 1),
    )


def _masks(masks: Set[int]) -> list[list[int]]:
    return [list(NodeSet(mask)) for mask in sorted(masks, key=lambda mask: (mask.bit_count(), mask))]
