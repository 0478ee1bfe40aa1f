"""Reasons for which nothing could be published: a closed set, for metrics and for whoever decides when to try again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

import msgspec

from numaudit.errors import Unavailable, printable, without_password
from numaudit.net.target import retry_after

_MOST_WORDS = 400


class Reason(StrEnum):
    """Reason of a failure."""

    CONNECTION = "connection"
    """There is no answer: no route, no listener, no name, no trusted certificate."""
    TIMEOUT = "timeout"
    CREDENTIALS = "credentials"
    """Refused with 401, or the token, certificate or kubeconfig cannot be read."""
    FORBIDDEN = "forbidden"
    NO_RESOURCE = "no-resource"
    """The cluster has no NodeResourceTopology at all."""
    NO_OBJECT = "no-object"
    """The cluster has none of this node."""
    OWNED = "owned"
    """Another writer owns what should be written."""
    INVALID = "invalid"
    """Refused with 400, 413 or 422."""
    TOO_LARGE = "too-large"
    """All annotations of the object would be larger than Kubernetes allows."""
    THROTTLED = "throttled"
    SERVER = "server"
    """Answered with 5xx."""
    BROKEN = "broken"
    """The answer cannot be understood."""
    NO_STATE = "no-state"
    """The agent does not know the kubelet's state on this node."""
    NODE_NAME = "node-name"
    """The name of this node is not known, or no node can have it."""
    INTERNAL = "internal"
    """An error of numaudit itself; the log has it."""


class ApiFailure(Unavailable):
    """Nothing was published. `wait`: seconds after which the server wants the next request."""

    def __init__(self, reason: Reason, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.reason, self.wait = reason, wait


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    """An API server's words (meta/v1 Status)."""

    message: str = ""
    details: _Details | None = None


_BY_STATUS = {
    400: Reason.INVALID,
    401: Reason.CREDENTIALS,
    403: Reason.FORBIDDEN,
    404: Reason.NO_RESOURCE,
    409: Reason.OWNED,
    413: Reason.INVALID,
    422: Reason.INVALID,
    429: Reason.THROTTLED,
}
_REMEDIES = {
    Reason.CREDENTIALS: "the token or certificate has expired or is not of this cluster; renew it",
    Reason.FORBIDDEN: "allow get and patch on noderesourcetopologies.topology.node.k8s.io, and create to own the "
    "object (deploy/components/nrt)",
    Reason.NO_RESOURCE: "install the CustomResourceDefinition noderesourcetopologies.topology.node.k8s.io, as Node "
    "Feature Discovery does",
    Reason.INVALID: "this is likely a difference between numaudit and the cluster's resource definition; report it",
}


def refused(what: str, code: int, headers: Mapping[str, str], body: bytes) -> ApiFailure:
    """The failure that an answer other than 2xx is. `what`: the request, for the message."""
    status = _status(body)
    reason = _BY_STATUS.get(code, Reason.SERVER if code >= HTTPStatus.INTERNAL_SERVER_ERROR else Reason.BROKEN)
    if reason is Reason.NO_RESOURCE and status.details is not None and status.details.name:
        reason = Reason.NO_OBJECT
    asked = retry_after(headers.get("Retry-After") or "", time.time())
    said = status.message or body[: 4 * _MOST_WORDS].decode("utf-8", "replace")
    words = f"{what}: the API server answered {code}{': ' if said.strip() else ''}{_words(said)}"
    remedy = _REMEDIES.get(reason)
    return ApiFailure(reason, f"{words}; {remedy}" if remedy else words, asked)


def _status(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Status()


def _words(text: str) -> str:
    """On one line, of bounded length."""
    short = text.strip()[:_MOST_WORDS]
    return without_password(printable(short))
