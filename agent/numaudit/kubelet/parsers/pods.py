"""The list of the kubelet's /pods, and the same without commands and environments, for captures. Pure: bytes in, values
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from numaudit.errors import ParseError
from numaudit.intent.pods import PodFacts
from numaudit.kubelet.parsers.pod import (
    CONFIG_SEEN,
    CONFIG_SOURCE,
    CONTAINER_LISTS,
    MIRROR,
    RUN_STATES,
    TEMPLATE_HASH,
    parse_pod,
)

MOST_CONTAINERS = 20_000
"""In the whole answer; each takes about a kilobyte."""
LARGEST_POD = 4 << 20
"""Bytes of one pod, and more than the API server takes of any object."""
MOST_VALUES_OF_ONE = 100_000
"""In one pod, which is decoded at once; one that was changed often has some thousand."""
_BEGINNINGS = (b",", b"[", b"{")
"""Each value in JSON, or its key, comes after one of these."""

Pods = Mapping[str, PodFacts]
"""By UID."""


class PodList(Struct, frozen=True):
    """The pods, and what of the list could not be read."""

    pods: Pods
    problems: tuple[str, ...] = ()


class RawList(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion", default="v1")
    items: list[msgspec.Raw] | None = None


def _go_on() -> None:
    """There is time."""


class PodReader(Struct):
    """Reads /pods again and again; a pod whose bytes did not change is not decoded again."""

    _known: dict[bytes, PodFacts] = field(default_factory=dict)
    """By the digest of their JSON."""

    def read(self, body: bytes, go_on: Callable[[], None] = _go_on) -> PodList:
        """The pods of a v1 PodList in JSON. A pod that is not understood is left out and named.

        `go_on` is called before each pod that is to be decoded. What it raises ends the reading, and the next one goes
        on from there. Raises ParseError when it is no such list, or has more than a node can have.
        """
        items = pod_list(body).items or []
        digests = [blake2b(memoryview(one), digest_size=16).digest() for one in items]
        self._known = {one: self._known[one] for one in digests if one in self._known}
        pods: dict[str, PodFacts] = {}
        problems: list[str] = []
        containers = 0
        for index, (digest, raw) in enumerate(zip(digests, items, strict=True)):
            if digest not in self._known:
                go_on()
                try:
                    self._known[digest] = parse_pod(decode_pod(raw))
                except ParseError as error:
                    problems.append(f"items[{index}]: {error}")
                    continue
            pod = self._known[digest]
            containers += len(pod.containers)
            if containers > MOST_CONTAINERS:
                raise ParseError(f"more than {MOST_CONTAINERS} containers: this is not the list of one node")
            if pod.spec is None:
                problems.append(f"pod {pod.namespace}/{pod.name}: its resources are not understood")
            pods[pod.uid] = _better(pods.get(pod.uid), pod)
        return PodList(pods, tuple(problems))


def pod_list(body: bytes) -> RawList:
    """The list, its pods not decoded. Raises ParseError."""
    try:
        found = msgspec.json.decode(body, type=RawList)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a list of pods: {error}") from None
    if found.kind not in ("PodList", "List"):
        raise ParseError(f"not a list of pods: its kind is {found.kind[:60]!r}")
    return found


def _better(one: PodFacts | None, other: PodFacts) -> PodFacts:
    """A static pod and its mirror on the API server are one pod: keep the one whose status names containers."""
    if one is None or not any(container.container_id for container in one.containers):
        return other
    return one


def decode_pod(raw: msgspec.Raw) -> object:
    """The values of one pod. Raises ParseError."""
    text = bytes(raw)
    if len(text) > LARGEST_POD:
        raise ParseError(f"larger than {LARGEST_POD >> 20} MiB, which no pod can be")
    if sum(map(text.count, _BEGINNINGS)) > MOST_VALUES_OF_ONE:
        raise ParseError(f"more than {MOST_VALUES_OF_ONE} values, which no pod has")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a pod: {error}") from None


def without_secrets(body: bytes) -> bytes:
    """The same list with only the fields that are read here: commands and environments hold secrets.

    Raises ParseError when it is no list of pods.
    """
    found = pod_list(body)
    head = msgspec.json.encode({"kind": found.kind, "apiVersion": found.api_version}).removesuffix(b"}")
    items = b",".join([msgspec.json.encode(_kept(decode_pod(one), _READ)) for one in found.items or ()])
    return msgspec.json.format(b'%b,"items":[%b]}' % (head, items), indent=1)


def _kept(value: object, fields: object) -> object:
    """The parts of a document that a tree of fields names; None in the tree = all below."""
    if not isinstance(fields, dict):
        return value
    if isinstance(value, list):
        return [_kept(one, fields) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _kept(item, fields[key]) for key, item in value.items() if key in fields}


_RESOURCES = {"requests": None, "limits": None, "claims": {"name": None, "request": None}}
_CLAIM = dict.fromkeys(("name", "resourceClaimName", "resourceClaimTemplateName"))
_CONTAINER = {"name": None, "restartPolicy": None, "resources": _RESOURCES}
_STATE: dict[str, object] = {
    one: dict.fromkeys(("startedAt", "finishedAt", "containerID", "exitCode")) for one in RUN_STATES
}
_STATUS = {
    "name": None,
    "containerID": None,
    "restartCount": None,
    "allocatedResources": None,
    "state": _STATE,
    "lastState": _STATE,
}
_READ: dict[str, object] = {
    "metadata": {
        "name": None,
        "namespace": None,
        "uid": None,
        "creationTimestamp": None,
        "deletionTimestamp": None,
        "annotations": {CONFIG_SOURCE: None, CONFIG_SEEN: None, MIRROR: None},
        "labels": {TEMPLATE_HASH: None},
        "ownerReferences": {"kind": None, "name": None, "controller": None},
    },
    "spec": {
        **dict.fromkeys(("overhead", "priority", "priorityClassName", "restartPolicy")),
        "resources": _RESOURCES,
        "resourceClaims": _CLAIM,
        **{in_spec: _CONTAINER for in_spec, _, _ in CONTAINER_LISTS},
    },
    "status": {
        **dict.fromkeys(("phase", "reason", "message", "qosClass", "startTime", "resize", "allocatedResources")),
        "conditions": dict.fromkeys(("type", "status", "reason", "message")),
        "resourceClaimStatuses": _CLAIM,
        "extendedResourceClaimStatus": {
            "resourceClaimName": None,
            "requestMappings": dict.fromkeys(("containerName", "resourceName", "requestName")),
        },
        **{in_status: _STATUS for _, in_status, _ in CONTAINER_LISTS},
    },
}
