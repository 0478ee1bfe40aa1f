"""One container from its promise to what it costs, as a document: the report's row with the admission behind it."""

from __future__ import annotations

import msgspec

from numaudit.api import simulation_document
from numaudit.api.explanation_document import ExplainedMerge, ProviderAnswer, explained_merge, provider_answer
from numaudit.api.simulation_document import Hint
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.intent import HintRecord
from numaudit.kubelet.questions.rederived import Rederived, differences
from numaudit.report.values import ContainerReport, NodeReport
from numaudit.scenario.sentences import PROVIDERS


class LoggedAdmission(msgspec.Struct, frozen=True, rename="camel"):
    """The admission as the kubelet's log has it."""

    at: float | None
    """Seconds since the epoch."""
    providers: list[ProviderAnswer]
    hint: Hint | None
    """Merged; null = the log does not have it."""
    regenerated: bool
    """A restarted kubelet found the allocation in its checkpoint, so the hints only repeat it."""


class DerivedAdmission(msgspec.Struct, frozen=True, rename="camel"):
    """The admission derived again, with the pods that are still here and were there before it."""

    before: int
    """Those pods, as far as they hold something."""
    gone: list[str]
    """Pods that the log has before it and that hold nothing now: they may have held something then."""
    admitted: bool
    reason: str | None
    message: str | None
    """Of a refusal, in the kubelet's words."""
    sentence: str
    merge: ExplainedMerge | None
    """null under topologyManagerPolicy none."""


class AdmissionAccount(msgspec.Struct, frozen=True, rename="camel"):
    """How the kubelet came to its promise."""

    logged: LoggedAdmission | None
    derived: DerivedAdmission | None
    not_derived: str | None
    """Why not."""
    differences: list[str] | None
    """Empty = log and derivation agree; null = one of them is missing."""


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """One container, or one pod that was refused."""

    container: ContainerReport | None
    """null = the pod was refused."""
    refused: HintOutcome | None
    admission: AdmissionAccount
    promised_at: float | None = None
    """When its pod was admitted, seconds since the epoch, by the kubelet's log; else when the pod was created."""
    started_at: float | None = None
    """When its newest instance started, seconds since the epoch, by the pod's status."""


class PlacementList(msgspec.Struct, frozen=True, rename="camel"):
    """Those that were asked for; the worst verdict first, refused pods last."""

    items: list[Placement]
    nodes: tuple[NodeReport, ...]


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
        record.at,
        [provider_answer(provider, hints) for provider, hints in named],
        None if record.best is None else simulation_document.hint(record.best),
        record.regenerated,
    )
