"""Explanation why a pod is admitted or refused, from the library's own record of the admission; nothing is computed
twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import Pod
from numaudit.errors import NumauditError
from numaudit.memorymanager.admission import Admission, NodeState, admit, remove
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.manager import start_refusal
from numaudit.memorymanager.outcome import Decision
from numaudit.scenario.admitting_changes import AdmittingChange, find_admitting_changes, needs_a_change
from numaudit.scenario.sentences import of_container, of_refusal
from numaudit.scenario.simulation import Played
from numaudit.scenario.values import Setup


class AdmissionExplanation(Struct, frozen=True):
    """A pod's admission, accounted for."""

    admission: Admission
    sentence: str
    """The explanation, for people."""
    admitting_changes: tuple[AdmittingChange, ...]
    """Changes that would let it in if it was refused, or align it if it is not, the smallest first."""
    start_refusal: str | None = None
    """Reason why the kubelet would not start again after it, in its words; None = it would."""


def explain(setup: Setup, state: NodeState, pod: Pod) -> AdmissionExplanation:
    """Admit the pod and account for it. Raises as `admit` does."""
    kubelet = setup.kubelet
    admission = admit(kubelet, state, pod)
    is_known = admission.problem is None
    ways = find_admitting_changes(setup, state, admission) if is_known and needs_a_change(admission) else ()
    refusal, sentence = start_refusal(kubelet, admission.state), sentence_of(kubelet, admission)
    if refusal is not None:
        sentence += f" But the kubelet will not start again: {refusal}."
    return AdmissionExplanation(admission, sentence, ways, refusal)


def admit_without(kubelet: Kubelet, state: NodeState, admission: Admission, uids: Collection[str]) -> Admission | None:
    """The same admission if these pods were not there; None = a kubelet would crash. `state` is that before it."""
    for uid in uids:
        state = remove(state, uid)
    try:
        return admit(kubelet, state, admission.pod)
    except NumauditError:
        return None


class Account(Struct, frozen=True):
    """Explanation why a step of a scenario refused a pod, or put it on nodes that are not preferred."""

    pod: Pod
    sentence: str
    admitting_changes: tuple[AdmittingChange, ...]


def accounts_of(played: Played) -> tuple[Account, ...]:
    """Of the pods that a step refused or did not align: one at most, of a restart any number."""
    found: list[Account] = []
    kubelet, state = played.kubelet, played.before
    for admission in _admissions(played):
        if admission.problem is None and needs_a_change(admission):
            ways = find_admitting_changes(played.setup, state, admission)
            found.append(Account(admission.pod, sentence_of(kubelet, admission), ways))
        if played.readmissions:  # what the pods hold that are still to be admitted again is not free
            state = replace(admission.state, pods=played.before.pods)
    return tuple(found)


def _admissions(played: Played) -> Sequence[Admission]:
    if played.admission is not None:
        return (played.admission,)
    return [one.admission for one in played.readmissions]


def sentence_of(kubelet: Kubelet, admission: Admission) -> str:
    """A sentence or two for each container, the refused one last."""
    decisions = admission.decisions
    rejection = admission.rejection
    placed = [one for one in admission.placements if rejection is None or one.container != rejection.container]
    is_only_one = len(placed) + (rejection is not None) == 1
    found = [
        of_container(
            kubelet, admission, _of(decisions, one.container), one, _subject(one.container, is_only_one=is_only_one)
        )
        for one in placed
    ]
    if rejection is not None:
        who = _subject(rejection.container, is_only_one=is_only_one)
        found.append(of_refusal(kubelet, admission, _of(decisions, rejection.container), rejection, who))
    return " ".join(dict.fromkeys(found))


def _subject(container: str | None, *, is_only_one: bool) -> str:
    if is_only_one:
        return "It"
    return "The pod" if container is None else f"Container {container}"


def _of(decisions: Sequence[Decision], container: str | None) -> Decision | None:
    """The decision about a container; in pod scope there is one for all."""
    return next((one for one in decisions if one.container in (None, container)), None)
