"""The kubelet's /pods: which pods this node has, and which it refused. Pure: bytes in, values out.

Sources: k8s.io/api/core/v1/types.go; pkg/kubelet/types/pod_update.go (annotations of static pods);
pkg/kubelet/kubelet.go (rejectPod).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

import msgspec

from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import QOS_CLASSES, Pod, QosClass
from numaudit.errors import InputError, ParseError
from numaudit.intent import ClaimReference, ContainerKind, PodContainer, PodFacts, Rejection, RunState

MOST_PODS = 5000
"""A kubelet runs some hundred; a list with more is not from one."""
MOST_VALUES = 500_000
"""Objects and lists in the whole answer; a pod has some fifty. Two bytes of JSON become hundreds in memory."""
MOST_CONTAINERS = 20_000
"""In the whole answer; each takes about a kilobyte."""
MOST_QUANTITIES = 100_000
"""Requests and limits in the whole answer."""
LARGEST_POD = 4 << 20
"""Bytes of one pod, and more than the API server takes of any object."""
MOST_VALUES_OF_ONE = 100_000
"""In one pod, which is decoded at once; one that was changed often has some thousand."""
_BEGINNINGS = (b",", b"[", b"{")
"""Each value in JSON, or its key, comes after one of these."""

_SOURCE = "kubernetes.io/config.source"
_SEEN = "kubernetes.io/config.seen"
_MIRROR = "kubernetes.io/config.mirror"
_TEMPLATE_HASH = "pod-template-hash"
_SCHEDULED = re.compile(r"-\d{8,10}\Z", re.ASCII)
"""Suffix that a CronJob adds to its name: minutes (once seconds) since 1970."""
_REJECTED = "Pod was rejected: "
_RUN_STATES: tuple[RunState, ...] = ("waiting", "running", "terminated")
_LISTS: tuple[tuple[str, str, ContainerKind], ...] = (
    ("initContainers", "initContainerStatuses", "init"),
    ("containers", "containerStatuses", "app"),
    ("ephemeralContainers", "ephemeralContainerStatuses", "ephemeral"),
)

Fields = Mapping[str, object]


Pods = Mapping[str, PodFacts]
"""By UID."""


@dataclass(frozen=True, slots=True)
class PodList:
    """The pods, and what of the list could not be read."""

    pods: Pods
    problems: tuple[str, ...] = ()


class _Object(msgspec.Struct):
    """Any object, without what is in it."""


class _Objects(msgspec.Struct):
    kind: str
    items: list[_Object] | None = None


class _List(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion", default="v1")
    items: list[msgspec.Raw] | None = None


def _go_on() -> None:
    """There is time."""


@dataclass(slots=True)
class PodReader:
    """Reads /pods again and again; a pod whose bytes did not change is not decoded again."""

    _known: dict[bytes, PodFacts] = field(default_factory=dict)
    """By the digest of their JSON."""

    def read(self, body: bytes, go_on: Callable[[], None] = _go_on) -> PodList:
        """The pods of a v1 PodList in JSON. A pod that is not understood is left out and named.

        `go_on` is called before each pod that is to be decoded. What it raises ends the reading, and the next one goes
        on from there. Raises ParseError when it is no such list, or has more than a node can have.
        """
        items = _list(body).items or []
        digests = [blake2b(memoryview(one), digest_size=16).digest() for one in items]
        self._known = {one: self._known[one] for one in digests if one in self._known}
        pods: dict[str, PodFacts] = {}
        problems: list[str] = []
        containers = quantities = 0
        for index, (digest, raw) in enumerate(zip(digests, items, strict=True)):
            if digest not in self._known:
                go_on()
                try:
                    self._known[digest] = parse_pod(_decode(raw))
                except ParseError as error:
                    problems.append(f"items[{index}]: {error}")
                    continue
            pod = self._known[digest]
            containers += len(pod.containers)
            quantities += _quantities(pod)
            if containers > MOST_CONTAINERS or quantities > MOST_QUANTITIES:
                raise ParseError(
                    f"more than {MOST_CONTAINERS} containers, or {MOST_QUANTITIES} requests and limits: "
                    "this is not the list of one node"
                )
            if pod.spec is None:
                problems.append(f"pod {pod.namespace}/{pod.name}: its resources are not understood")
            pods[pod.uid] = _better(pods.get(pod.uid), pod)
        return PodList(pods, tuple(problems))


def _quantities(pod: PodFacts) -> int:
    containers = () if pod.spec is None else pod.spec.all_containers
    claims = sum(len(one.claims) for one in pod.containers)
    return claims + sum(len(one.resources.requests) + len(one.resources.limits) for one in containers)


def _list(body: bytes) -> _List:
    """The list, its pods not decoded. Raises ParseError.

    Objects are counted first: a number of two bytes would take fifty as one of the items.
    """
    if body.count(b"{") + body.count(b"[") > MOST_VALUES:
        raise ParseError(f"more than {MOST_VALUES} objects and lists: this is not the list of one node")
    try:
        objects = msgspec.json.decode(body, type=_Objects)
        if objects.kind not in ("PodList", "List"):
            raise ParseError(f"not a list of pods: its kind is {objects.kind[:60]!r}")
        if len(objects.items or ()) > MOST_PODS:
            raise ParseError(f"more than {MOST_PODS} pods: this is not the list of one node")
        return msgspec.json.decode(body, type=_List)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a list of pods: {error}") from None


def _better(one: PodFacts | None, other: PodFacts) -> PodFacts:
    """A static pod and its mirror on the API server are one pod: keep the one whose status names containers."""
    if one is None or not any(container.container_id for container in one.containers):
        return other
    return one


def _decode(raw: msgspec.Raw) -> object:
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


def parse_pod(value: object) -> PodFacts:
    """One v1 Pod, already decoded. Raises ParseError naming the field."""
    pod = _mapping(value, "pod")
    metadata, spec, status = (_mapping(pod.get(key) or {}, key) for key in ("metadata", "spec", "status"))
    annotations = _mapping(metadata.get("annotations") or {}, "metadata.annotations")
    uid = _text(metadata, "uid", "metadata")
    mirrored = annotations.get(_MIRROR)
    if isinstance(mirrored, str) and mirrored:
        uid = mirrored
    source = annotations.get(_SOURCE)
    namespace, name = _text(metadata, "namespace", "metadata"), _text(metadata, "name", "metadata")
    return PodFacts(
        uid=uid,
        namespace=namespace,
        name=name,
        qos=_qos(status),
        phase=_optional_text(status, "phase", "status"),
        is_static=bool(mirrored) or source in ("file", "http"),
        created_at=_seconds(metadata.get("creationTimestamp") or annotations.get(_SEEN)),
        containers=tuple(_containers(spec, status)),
        spec=_spec(value),
        rejection=_rejection(uid, namespace, name, status),
        workload=_workload(metadata),
        ended_without_reason=_ended_without_reason(metadata, spec, status),
        ended_at=_ended_at(status),
    )


def _ended_without_reason(metadata: Fields, spec: Fields, status: Fields) -> bool:
    if status.get("phase") not in ("Succeeded", "Failed") or status.get("reason") or status.get("message"):
        return False
    return spec.get("restartPolicy") == "Always" and metadata.get("deletionTimestamp") is None


def _ended_at(status: Fields) -> float | None:
    """That of the app containers."""
    times = [
        _seconds(_mapping(_mapping(one.get("state") or {}, "state").get("terminated") or {}, "state").get("finishedAt"))
        for one in _objects(status, "containerStatuses", "status.containerStatuses")
    ]
    known = [one for one in times if one is not None]
    return max(known) if known and len(known) == len(times) else None


def _workload(metadata: Fields) -> str | None:
    """The controller's name: of a ReplicaSet that of its Deployment, of a scheduled Job that of its CronJob."""
    owners = _objects(metadata, "ownerReferences", "metadata")
    owner = next((one for one in owners if one.get("controller") is True), None)
    if owner is None:
        return None
    name = _text(owner, "name", "metadata.ownerReferences")
    if owner.get("kind") == "Job":
        return _SCHEDULED.sub("", name)
    hash_ = _mapping(metadata.get("labels") or {}, "metadata.labels").get(_TEMPLATE_HASH)
    return name.removesuffix(f"-{hash_}") if owner.get("kind") == "ReplicaSet" else name


def _spec(value: object) -> Pod | None:
    try:
        return read_pod(value, defaults=False)
    except InputError:
        return None


def _qos(status: Fields) -> QosClass | None:
    value = status.get("qosClass")
    return next((one for one in QOS_CLASSES if one == value), None)


def _containers(spec: Fields, status: Fields) -> Iterator[PodContainer]:
    claims = _claims(spec, status)
    extended = _extended_claims(status)
    for in_spec, in_status, kind in _LISTS:
        statuses = {
            _text(one, "name", f"status.{in_status}"): one for one in _objects(status, in_status, f"status.{in_status}")
        }
        for one in _objects(spec, in_spec, f"spec.{in_spec}"):
            name = _text(one, "name", f"spec.{in_spec}")
            is_sidecar = kind == "init" and one.get("restartPolicy") == "Always"
            own = (*_references(one, claims, f"spec.{in_spec}"), *extended.get(name, ()))
            kind_of = "sidecar" if is_sidecar else kind
            yield _container(name, kind_of, statuses.get(name, {}), f"status.{in_status}", own)


def _claims(spec: Fields, status: Fields) -> dict[str, str]:
    """Name in the pod -> the claim. One that is made of a template has its name in the status."""
    made = {
        _text(one, "name", "status.resourceClaimStatuses"): _optional_text(
            one, "resourceClaimName", "status.resourceClaimStatuses"
        )
        for one in _objects(status, "resourceClaimStatuses", "status.resourceClaimStatuses")
    }
    found: dict[str, str] = {}
    for one in _objects(spec, "resourceClaims", "spec.resourceClaims"):
        name = _text(one, "name", "spec.resourceClaims")
        claim = _optional_text(one, "resourceClaimName", "spec.resourceClaims") or made.get(name)
        if claim is not None:  # else it is not made yet, or none is needed
            found[name] = claim
    return found


def _extended_claims(status: Fields) -> dict[str, tuple[ClaimReference, ...]]:
    """Container -> its parts of the claim that stands for extended resources."""
    where = "status.extendedResourceClaimStatus"
    extended = _mapping(status.get("extendedResourceClaimStatus") or {}, where)
    found: dict[str, tuple[ClaimReference, ...]] = {}
    for one in _objects(extended, "requestMappings", where):
        container = _text(one, "containerName", where)
        reference = ClaimReference(
            _text(extended, "resourceClaimName", where), _optional_text(one, "requestName", where)
        )
        found[container] = (*found.get(container, ()), reference)
    return found


def _references(container: Fields, claims: Mapping[str, str], where: str) -> Iterator[ClaimReference]:
    resources = _mapping(container.get("resources") or {}, f"{where}.resources")
    for one in _objects(resources, "claims", f"{where}.resources.claims"):
        claim = claims.get(_text(one, "name", f"{where}.resources.claims"))
        if claim is not None:
            yield ClaimReference(claim, _optional_text(one, "request", f"{where}.resources.claims"))


def _container(
    name: str, kind: ContainerKind, status: Fields, where: str, claims: tuple[ClaimReference, ...]
) -> PodContainer:
    state = _mapping(status.get("state") or {}, f"{where}.state")
    last = _mapping(status.get("lastState") or {}, f"{where}.lastState")
    restarts = status.get("restartCount")
    return PodContainer(
        name=name,
        kind=kind,
        state=next((one for one in _RUN_STATES if state.get(one) is not None), None),
        container_id=_id(status.get("containerID")),
        previous_container_id=_id(_mapping(last.get("terminated") or {}, f"{where}.lastState").get("containerID")),
        restarts=restarts if type(restarts) is int else None,
        started_at=_seconds(_mapping(state.get("running") or {}, f"{where}.state.running").get("startedAt")),
        claims=claims,
    )


def _id(value: object) -> str | None:
    """`containerd://<id>` -> id."""
    return value.rpartition("://")[2] or None if isinstance(value, str) else None


def _rejection(uid: str, namespace: str, name: str, status: Fields) -> Rejection | None:
    """A refused pod failed without ever having a container; one that was evicted while it ran had some."""
    reason = _optional_text(status, "reason", "status")
    message = _optional_text(status, "message", "status") or ""
    had_containers = any(status.get(in_status) for _, in_status, _ in _LISTS)
    if status.get("phase") != "Failed" or not reason or (had_containers and not message.startswith(_REJECTED)):
        return None
    # Kubelets before 1.27 or so wrote "Pod " before the message.
    text = message.removeprefix(_REJECTED) if message.startswith(_REJECTED) else message.removeprefix("Pod ")
    return Rejection(uid, namespace, name, reason, text, _seconds(status.get("startTime")))


def _seconds(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if when.tzinfo is None else when.timestamp()


def without_secrets(body: bytes) -> bytes:
    """The same list with only the fields that are read here: commands and environments hold secrets.

    Raises ParseError when it is no list of pods.
    """
    found = _list(body)
    head = msgspec.json.encode({"kind": found.kind, "apiVersion": found.api_version}).removesuffix(b"}")
    items = b",".join([msgspec.json.encode(_kept(_decode(one), _READ)) for one in found.items or ()])
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
    one: dict.fromkeys(("startedAt", "finishedAt", "containerID", "exitCode")) for one in _RUN_STATES
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
        "annotations": {_SOURCE: None, _SEEN: None, _MIRROR: None},
        "labels": {_TEMPLATE_HASH: None},
        "ownerReferences": {"kind": None, "name": None, "controller": None},
    },
    "spec": {
        **dict.fromkeys(("overhead", "priority", "priorityClassName", "restartPolicy")),
        "resources": _RESOURCES,
        "resourceClaims": _CLAIM,
        **{in_spec: _CONTAINER for in_spec, _, _ in _LISTS},
    },
    "status": {
        **dict.fromkeys(("phase", "reason", "message", "qosClass", "startTime")),
        "resourceClaimStatuses": _CLAIM,
        "extendedResourceClaimStatus": {
            "resourceClaimName": None,
            "requestMappings": dict.fromkeys(("containerName", "resourceName", "requestName")),
        },
        **{in_status: _STATUS for _, in_status, _ in _LISTS},
    },
}


def _mapping(value: object, where: str) -> Fields:
    if not isinstance(value, Mapping):
        raise ParseError(f"{where}: expected an object")
    return value


def _objects(fields: Fields, key: str, where: str) -> list[Fields]:
    value = fields.get(key) or []
    if not isinstance(value, list):
        raise ParseError(f"{where}: expected a list")
    return [_mapping(one, where) for one in value]


def _text(fields: Fields, key: str, where: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise ParseError(f"{where}.{key}: expected a text that is not empty")
    return value


def _optional_text(fields: Fields, key: str, where: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise ParseError(f"{where}.{key}: expected a text")
    return value or None
