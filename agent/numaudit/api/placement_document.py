"""One container from its promise to what it costs, as a document: the report's row with the admission behind it."""

from __future__ import annotations

from numaudit.api.explanation_document import ExplainedMerge, explained_merge
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.encoding.value import Timestamp, Value, timestamp
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.intent.pods import HintRecord
from numaudit.kubelet.questions.rederived import Rederived, differences
from numaudit.memorymanager.outcome import ProviderAnswer
from numaudit.report.values import ContainerReport, NodeReport
from numaudit.scenario.refusals import PROVIDERS


class LoggedAdmission(Value, frozen=True):
    """The admission as the kubelet's log has it."""

    at: Timestamp | None
    """Time of the admission; null = the log does not say."""
    providers: list[ProviderAnswer]
    """Answer of each hint provider."""
    hint: TopologyHint | None
    """Merged; null = the log does not have it."""
    regenerated: bool
    """A restarted kubelet found the allocation in its checkpoint, so the hints only repeat it."""


class DerivedAdmission(Value, frozen=True):
    """The admission derived again, with the pods that are still here and were there before it."""

    before: int
    """Those pods, as far as they hold something."""
    gone: list[str]
    """Pods that the log has before it and that hold nothing now: they may have held something then."""
    admitted: bool
    reason: str | None
    message: str | None
    sentence: str
    merge: ExplainedMerge | None
    """null under topologyManagerPolicy none."""


class AdmissionAccount(Value, frozen=True):
    """Account of how the kubelet came to its promise."""

    logged: LoggedAdmission | None
    """As the log has it; null = it does not."""
    derived: DerivedAdmission | None
    """As it was derived again; null = it could not be."""
    not_derived: str | None
    """The reason why it was not derived."""
    differences: list[str] | None
    """Empty = log and derivation agree; null = one of them is missing."""
    log_gaps: str | None = None
    """Count of lines of the log that were not understood and may be about this admission; null = none."""


class Placement(Value, frozen=True):
    """One container, or one pod that was refused."""

    container: ContainerReport | None
    """null = the pod was refused."""
    refused: HintOutcome | None
    """The refusal; null = a container."""
    admission: AdmissionAccount
    """Account of how the kubelet came to its promise."""
    promised_at: Timestamp | None = None
    """Time when its pod was admitted, by the kubelet's log; else when the pod was created."""
    started_at: Timestamp | None = None
    """Time when its newest instance started, by the pod's status."""
    resize: str | None = None
    """The pod's in-place resize that waits, was refused or is under way, with both amounts; null = none is known."""


class PlacementList(Value, frozen=True):
    """Those that were asked for; the worst verdict first, refused pods last."""

    items: list[Placement]
    nodes: tuple[NodeReport, ...]
    """Every node of the host, by its own counters."""


def account(record: HintRecord | None, found: Rederived | str, container: str | None) -> AdmissionAccount:
    """`found`: the derivation, or why there is none. `container` None = whichever the log is about."""
    name = container or (None if record is None else record.container) or ""
    logged = None if record is None else _logged(record)
    if isinstance(found, str):
        return AdmissionAccount(logged, None, found, None)
    decision = found.decision(name)
    policy = found.policy
    refusal = found.explanation.admission.rejection
    derived = DerivedAdmission(
        before=found.before,
        gone=list(found.gone),
        admitted=refusal is None,
        reason=None if refusal is None else refusal.reason,
        message=None if refusal is None else refusal.message,
        sentence=found.explanation.sentence,
        merge=None if decision is None else explained_merge(decision, policy),
    )
    compared = None
    if record is not None and decision is not None and not record.regenerated:
        compared = list(differences(record, found, decision))
    return AdmissionAccount(logged, derived, None, compared)


def _logged(record: HintRecord) -> LoggedAdmission:
    named = zip(PROVIDERS, record.providers, strict=False)
    return LoggedAdmission(
        timestamp(record.at),
        [ProviderAnswer(provider, hints) for provider, hints in named],
        record.best,
        record.regenerated,
    )
