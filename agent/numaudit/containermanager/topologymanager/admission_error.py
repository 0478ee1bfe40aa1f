"""Refusals of a manager of the kubelet to allocate.

Source: pkg/kubelet/cm/admission/errors.go.
"""

from __future__ import annotations

from numaudit.errors import NumauditError

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
UNEXPECTED = "UnexpectedAdmissionError"
SMT_ALIGNMENT = "SMTAlignmentError"
EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"


class AdmissionError(NumauditError):
    """A provider's Allocate failed: the kubelet's text, and the reason of the pod's status.

    Only texts under UNEXPECTED are wrapped ("Allocate failed due to ..., which is unexpected")
    before a user sees them; the others are the pod's message as they are.
    """

    def __init__(self, text: str, reason: str = UNEXPECTED) -> None:
        super().__init__(text)
        self.reason = reason

    @property
    def message(self) -> str:
        """The message in the pod's status."""
        text = str(self)
        return f"Allocate failed due to {text}, which is unexpected" if self.reason == UNEXPECTED else text


class KubeletHangs(NumauditError):
    """A request from which a real kubelet never returns, so that there is no answer to give."""
