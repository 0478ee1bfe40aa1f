"""Names of pods and their containers for people, who know no UIDs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from numaudit.encoding.value import Value

_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST = 253


def can_be_typed(name: str) -> bool:
    """Is it a name that the API server gives, and no option or text of a shell?

    Source: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go (IsDNS1123Subdomain).
    """
    return len(name) <= _LONGEST and _DNS_SUBDOMAIN.fullmatch(name) is not None


class PodName(Value, frozen=True):
    """One pod that a checkpoint has an entry of. None = not known."""

    namespace: str | None
    pod: str | None
    stale: bool | None
    """Is the pod gone, or has it ended? None = neither a list of pods nor the cgroups say."""

    @property
    def full_name(self) -> str | None:
        return f"{self.namespace}/{self.pod}" if self.namespace and self.pod else None


def full_name(namespace: str | None, pod: str | None, pod_uid: str | None, container: str | None) -> str:
    """namespace/pod/container as far as known; the pod's UID stands for a pod of no known name."""
    named = f"{namespace}/{pod}" if namespace and pod else f"pod {pod_uid}" if pod_uid else None
    return "/".join(part for part in (named, container) if part)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with names in place of the UIDs that have one; `names`: UID -> name."""
    known = [re.escape(uid) for uid in names if uid and uid in text]
    return re.sub(rf"(?<![\w-])(?:{'|'.join(known)})(?![\w-])", lambda found: names[found[0]], text) if known else text
