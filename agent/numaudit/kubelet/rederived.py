"""An admission that happened, derived anew with the pods that were there before it, and held against the log. Pure.

Pods that have gone since are not known to it: where one of them held something then, the log's hints differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from numaudit.errors import NumauditError
from numaudit.intent import HintRecord, Intent, PodFacts
from numaudit.memorymanager.admission import NodeState, remove
from numaudit.memorymanager.pod.spec import Pod
from numaudit.memorymanager.scenario import words
from numaudit.memorymanager.scenario.explanation import ExplainedDecision, Explanation, explain
from numaudit.memorymanager.scenario.values import Setup
from numaudit.memorymanager.topologymanager.hints import ProviderHints, TopologyHint


@dataclass(frozen=True, slots=True)
class Rederived:
    """A pod's admission as the library decides on it."""

    explanation: Explanation
    policy: str
    """The Topology Manager's."""
    before: int
    """Pods that hold something and were there before it, by the log or by their creation."""

    def decision(self, container: str) -> ExplainedDecision | None:
        """The merge about a container; in pod scope there is one for all."""
        return next((one for one in self.explanation.decisions if one.decision.container in (None, container)), None)


def rederive(setup: Setup, state: NodeState, intent: Intent, uid: str) -> Rederived | str:
    """`state` has all pods of the node. Why not, where too little is known of the pod."""
    facts = (intent.pods or {}).get(uid)
    if facts is None or facts.spec is None:
        return "the pod's spec is not known: the kubelet's list of pods could not be read, or does not have it"
    began = _began(intent)
    mine = began.get(uid)
    if mine is None:
        return "when it was admitted is not known"
    # With its own UID it would still hold what it has, and its hints would only repeat that.
    for other in state.pods:
        if other == uid or began.get(other, mine) > mine:
            state = remove(state, other)
    pod: Pod = replace(facts.spec, uid=f"{uid}-again")
    try:
        return Rederived(explain(setup, state, pod), setup.kubelet.topology.policy, len(state.pods))
    except NumauditError as error:
        return f"it cannot be derived: {error}"


def differences(record: HintRecord, derived: ExplainedDecision) -> tuple[str, ...]:
    """Where the log and the derivation are not the same; () = they agree."""
    found = []
    logged, anew = _by_resource(record.providers), _by_resource(one.hints for one in derived.decision.answers)
    if record.providers:
        for name in sorted({*logged, *anew}):
            ours, theirs = anew.get(name, ()), logged.get(name, ())
            if ours != theirs:
                found.append(f"{name}: the log has {words.hints(theirs)}, derived are {words.hints(ours)}")
    if record.best is not None and record.best != derived.decision.merged:
        best = words.hint(derived.decision.merged)
        found.append(f"merged hint: the log has {words.hint(record.best)}, derived is {best}")
    return tuple(found)


def _by_resource(answers: Iterable[ProviderHints]) -> dict[str, tuple[TopologyHint, ...] | None]:
    """Without what has no preference at all, in an order of its own."""
    found: dict[str, tuple[TopologyHint, ...] | None] = {}
    for answer in answers:
        for name, hints in (answer or {}).items():
            found[name] = None if hints is None else tuple(sorted(hints, key=_order))
    return found


def _order(hint: TopologyHint) -> tuple[int, bool]:
    return (-1 if hint.affinity is None else hint.affinity.mask), hint.preferred


def _began(intent: Intent) -> Mapping[str, float]:
    """Pod UID -> when its admission began, seconds since the epoch, by the log; else when it was created."""
    return {uid: at for uid, pod in (intent.pods or {}).items() if (at := _admitted_at(uid, pod, intent)) is not None}


def _admitted_at(uid: str, pod: PodFacts, intent: Intent) -> float | None:
    return min(_logged_at(uid, intent), default=pod.created_at)


def _logged_at(uid: str, intent: Intent) -> Iterator[float]:
    for one in intent.hints:
        if one.pod_uid == uid and one.at is not None and not one.regenerated:
            yield one.at
