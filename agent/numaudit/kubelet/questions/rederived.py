"""An admission that happened, derived again with the pods that were there before it, and compared with the log. Pure.

What pods that have gone since held then is not known: where one held something, the log differs, and they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import Pod, full_name
from numaudit.containermanager.topologymanager.hints import ProviderHints, TopologyHint
from numaudit.errors import NumauditError
from numaudit.intent.node import Intent
from numaudit.intent.pods import HintRecord, Rejection
from numaudit.memorymanager.admission import remove
from numaudit.memorymanager.outcome import Decision
from numaudit.memorymanager.outcome import Rejection as DerivedRejection
from numaudit.scenario import words
from numaudit.scenario.explanation import AdmissionExplanation, explain
from numaudit.scenario.holdings import holders
from numaudit.scenario.values import Node
from numaudit.topology.nodeset import CpuSet, NodeSet


class Rederived(Struct, frozen=True):
    """A pod's admission as the library decides on it."""

    explanation: AdmissionExplanation
    policy: str
    """The Topology Manager's."""
    before: int
    """Pods that hold something and were there before it, by the log or by their creation."""
    gone: tuple[str, ...] = ()
    """Pods in the log before it that hold nothing now: they have gone, or were refused. They may have, then."""
    refusal: Rejection | None = None
    """The kubelet's, by its log; None = it admitted the pod then, whatever a later start of it made of the pod."""

    def decision(self, container: str) -> Decision | None:
        """The merge about a container; in pod scope there is one for all."""
        return next((one for one in self.explanation.admission.decisions if one.container in (None, container)), None)


def rederive(node: Node, intent: Intent, uid: str) -> Rederived | str:
    """Why not, where too little is known of the pod."""
    facts = (intent.pods or {}).get(uid)
    if facts is None or facts.spec is None:
        return "the pod's spec is not known: the kubelet's list of pods could not be read, or does not have it"
    mine = admitted_at(intent, uid)
    if mine is None:
        return "when it was admitted is not known"
    state = node.state
    # With its own UID it would still hold what it has, and its hints would only repeat that.
    for other in state.pods:
        began = admitted_at(intent, other)
        if other == uid or (began is not None and began > mine):
            state = remove(state, other)
    pod: Pod = replace(facts.spec, uid=f"{uid}-again")
    try:
        found = explain(node.setup, state, pod)
    except NumauditError as error:
        return f"it cannot be derived: {error}"
    refusal = next((one.denial for one in intent.hints if one.pod_uid == uid and one.denial is not None), None)
    gone = tuple(sorted(_gone(intent, uid, mine)))
    return Rederived(found, node.kubelet.topology.policy, len(holders(state)), gone, refusal)


def differences(record: HintRecord, again: Rederived, derived: Decision) -> tuple[str, ...]:
    """Differences between the log and the derivation: hints, merge, outcome and what was given. () = they agree."""
    return (*_merges_differ(record, derived), *_outcomes_differ(record, again))


def _merges_differ(record: HintRecord, derived: Decision) -> Iterator[str]:
    logged, again = _by_resource(record.providers), _by_resource(one.hints for one in derived.answers)
    if record.providers:
        for name in sorted({*logged, *again}):
            ours, theirs = again.get(name, ()), logged.get(name, ())
            if ours != theirs:
                yield f"{name}: the log has {words.hints(theirs)}, derived are {words.hints(ours)}"
    if record.best is not None and record.best != derived.merged:
        best = words.hint(derived.merged)
        yield f"merged hint: the log has {words.hint(record.best)}, derived is {best}"


def _outcomes_differ(record: HintRecord, again: Rederived) -> Iterator[str]:
    admission = again.explanation.admission
    theirs, ours = _outcome(again.refusal), _outcome(admission.rejection)
    if theirs != ours:
        yield f"outcome: the log has {theirs}, derived is {ours}"
    if theirs != ours or again.refusal is not None:  # what a refused pod got for a moment is taken back
        return
    got = [one for one in admission.placements if record.container in (None, one.container)]
    cpus = CpuSet.from_ids(id_ for one in got for id_ in one.cpus or ())
    if record.cpus is not None and record.cpus != cpus:
        yield f"CPUs: the log has {record.cpus}, derived are {cpus or 'none'}"
    nodes = NodeSet.from_ids(id_ for one in got for id_ in one.memory_nodes or ())
    if record.memory_nodes is not None and record.memory_nodes != nodes:
        yield f"nodes of its memory: the log has {record.memory_nodes or 'none'}, derived are {nodes or 'none'}"


def _outcome(refusal: Rejection | DerivedRejection | None) -> str:
    return "admitted" if refusal is None else f"{refusal.reason}: {refusal.message}"


def _gone(intent: Intent, uid: str, mine: float) -> Iterator[str]:
    pods = intent.pods or {}
    refused = {one.pod_uid for one in intent.rejections}
    seen = set[str | None]()
    for one in intent.hints:
        facts = pods.get(one.pod_uid or "")
        is_before = one.at is not None and one.at < mine and one.pod_uid not in (None, uid)
        if is_before and one.pod_uid not in seen and (facts is None or facts.has_ended or one.pod_uid in refused):
            seen.add(one.pod_uid)
            yield full_name(one.namespace, one.pod, one.pod_uid, None)


def _by_resource(answers: Iterable[ProviderHints]) -> dict[str, tuple[TopologyHint, ...] | None]:
    """Without what has no preference at all, in an order of its own."""
    found: dict[str, tuple[TopologyHint, ...] | None] = {}
    for answer in answers:
        for name, hints in (answer or {}).items():
            found[name] = None if hints is None else tuple(sorted(hints, key=_order))
    return found


def _order(hint: TopologyHint) -> tuple[int, bool]:
    return (-1 if hint.affinity is None else hint.affinity.mask), hint.preferred


def admitted_at(intent: Intent, uid: str) -> float | None:
    """Return when a pod's admission began, seconds since the epoch, by the log; else when the pod was created."""
    pod = (intent.pods or {}).get(uid)
    logged = [one.at for one in intent.hints if one.pod_uid == uid and one.at is not None and not one.regenerated]
    return min(logged, default=None if pod is None else pod.created_at)
