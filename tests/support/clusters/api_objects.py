"""Objects of many kinds, as an API server stores them: discovery, POST, GET, DELETE. `api_server` has pods, nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_KINDS = {
    ("v1", "namespaces"): ("Namespace", False),
    ("v1", "configmaps"): ("ConfigMap", True),
    ("v1", "serviceaccounts"): ("ServiceAccount", True),
    ("apps/v1", "daemonsets"): ("DaemonSet", True),
    ("networking.k8s.io/v1", "networkpolicies"): ("NetworkPolicy", True),
    ("rbac.authorization.k8s.io/v1", "clusterroles"): ("ClusterRole", False),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"): ("ClusterRoleBinding", False),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
}
_PATH = re.compile(
    r"/(?:api|apis)/(?P<version>v1|[^/]+/v1)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?"
)

Answer = tuple[int, Json]
"""Status and body."""


@dataclass
class Objects:
    """What was created and not deleted."""

    stored: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    """Resource, namespace or "", name -> object."""
    when_created: Callable[[Json], None] = lambda _: None
    when_gone: Callable[[str, str], None] = lambda *_: None
    """Resource and name of what was deleted."""
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    """Verb and resource that a review denies."""

    def answer(self, method: str, path: str, body: bytes) -> Answer | None:
        """None = not the path of an object that is kept here."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        resource, name = found["resource"], found["name"] or ""
        namespace = found["namespace"] or ""
        if (found["version"], resource) not in _KINDS:
            return None
        if resource == "selfsubjectaccessreviews":
            return 201, self._reviewed(body)
        key = (resource, namespace, name)
        if method == "POST":
            return self._create(resource, namespace, json.loads(body))
        if key not in self.stored:
            return 404, status(404, "NotFound", f'{resource} "{name}" not found')
        if method == "DELETE":
            return 200, self._delete(key)
        return 200, self.stored[key]

    def _create(self, resource: str, namespace: str, body: Json) -> Answer:
        name = body["metadata"]["name"]
        key = (resource, namespace, name)
        if key in self.stored:
            return 409, status(409, "AlreadyExists", f'{resource} "{name}" already exists')
        self.stored[key] = body
        self.when_created(body)
        return 201, body

    def _delete(self, key: tuple[str, str, str]) -> Json:
        resource, _, name = key
        gone = self.stored.pop(key)
        if resource == "namespaces":
            self.stored = {other: one for other, one in self.stored.items() if other[1] != name}
        self.when_gone(resource, name)
        return gone

    def _reviewed(self, body: bytes) -> Json:
        """kubectl asks in protobuf and takes JSON."""
        asked = _attributes(body)
        resource = "/".join(filter(None, (asked.get(_RESOURCE), asked.get(_SUBRESOURCE))))
        allowed = (asked.get(_VERB), resource) not in self.forbidden
        return {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "status": {"allowed": allowed},
        }


_VERB, _RESOURCE, _SUBRESOURCE = 2, 5, 6
"""Fields of ResourceAttributes (k8s.io/api/authorization/v1/generated.proto)."""


def _attributes(body: bytes) -> dict[int, str]:
    """The spec.resourceAttributes of a review: the second field of what `runtime.Unknown` wraps, and its first."""
    spec = _fields(_fields(_fields(body.removeprefix(b"k8s\0"))[2])[2])
    return {number: value.decode() for number, value in _fields(spec[1]).items()}


def _fields(message: bytes) -> dict[int, bytes]:
    """Number -> content of a protobuf message whose fields are all strings or messages."""
    found = {}
    while message:
        key, message = _number(message)
        size, message = _number(message)
        found[key >> 3], message = message[:size], message[size:]
    return found


def _number(message: bytes) -> tuple[int, bytes]:
    """A varint, and what is behind it."""
    value = 0
    for at, byte in enumerate(message):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, message[at + 1 :]
    raise ValueError("a number without an end")


def status(code: int, reason: str, message: str) -> Json:
    """A failure, as the API server writes it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def groups() -> Json:
    """The API groups: the answer to /apis."""
    versions = [{"groupVersion": version, "version": "v1"} for version in _group_versions()]
    found = [
        {"name": one["groupVersion"].partition("/")[0], "versions": [one], "preferredVersion": one} for one in versions
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources() -> Iterator[tuple[str, list[Json]]]:
    """Path of a version -> its resources."""
    for version in ("v1", *_group_versions()):
        listed = [
            {
                "name": resource,
                "singularName": kind.lower(),
                "namespaced": is_namespaced,
                "kind": kind,
                "verbs": ["create", "delete", "get"],
            }
            for (of, resource), (kind, is_namespaced) in _KINDS.items()
            if of == version
        ]
        yield f"/api/{version}" if version == "v1" else f"/apis/{version}", listed


def _group_versions() -> list[str]:
    return list(dict.fromkeys(version for version, _ in _KINDS if version != "v1"))
