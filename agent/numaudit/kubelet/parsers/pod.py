"""One v1 Pod of the kubelet's /pods: its containers, claims, and whether it was refused. Pure: values in, values out.

Sources: k8s.io/api/core/v1/types.go; pkg/kubelet/types/pod_update.go (annotations of static pods);
pkg/kubelet/kubelet.go (rejectPod).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from numaudit.containermanager.pod.manifest import as_allocated, read_pod
from numaudit.containermanager.pod.spec import QOS_CLASSES, Pod, QosClass
from numaudit.errors import InputError, ParseError
from numaudit.intent.pods import ClaimReference, ContainerKind, PodContainer, PodFacts, Rejection, RunState

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_SEEN = "kubernetes.io/config.seen"
MIRROR = "kubernetes.io/config.mirror"
TEMPLATE_HASH = "pod-template-hash"
_SCHEDULED = re.compile(r"-\d{8,10}\Z", re.ASCII)
"""Suffix that a CronJob adds to its name: minutes (once seconds) since 1970."""
_RESIZES = {"PodResizePending": "pending", "PodResizeInProgress": "in progress"}
_REJECTED = "Pod was rejected: "
RUN_STATES: tuple[RunState, ...] = ("waiting", "running", "terminated")
CONTAINER_LISTS: tuple[tuple[str, str, ContainerKind], ...] = (
    ("initContainers", "initContainerStatuses", "init"),
    ("containers", "containerStatuses", "app"),
    ("ephemeralContainers", "ephemeralContainerStatuses", "ephemeral"),
)

Fields = Mapping[str, object]


def parse_pod(value: object) -> PodFacts:
    """One v1 Pod, already decoded. Raises ParseError naming the field."""
    pod = _mapping(value, "pod")
    metadata, spec, status = (_mapping(pod.get(key) or {}, key) for key in ("metadata", "spec", "status"))
    annotations = _mapping(metadata.get("annotations") or {}, "metadata.annotations")
    uid = _text(metadata, "uid", "metadata")
    mirrored = annotations.get(MIRROR)
    if isinstance(mirrored, str) and mirrored:
        uid = mirrored
    source = annotations.get(CONFIG_SOURCE)
    namespace, name = _text(metadata, "namespace", "metadata"), _text(metadata, "name", "metadata")
    wish = _spec(value)
    counted = None if wish is None else as_allocated(wish)
    return PodFacts(
        uid=uid,
        namespace=namespace,
        name=name,
        qos=_qos(status),
        phase=_optional_text(status, "phase", "status"),
        is_static=bool(mirrored) or source in ("file", "http"),
        created_at=_seconds(metadata.get("creationTimestamp") or annotations.get(CONFIG_SEEN)),
        containers=tuple(_containers(spec, status)),
        spec=counted,
        rejection=_rejection(uid, namespace, name, status),
        resize=_resize(status, wish, counted),
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
    hash_ = _mapping(metadata.get("labels") or {}, "metadata.labels").get(TEMPLATE_HASH)
    return name.removesuffix(f"-{hash_}") if owner.get("kind") == "ReplicaSet" else name


def _spec(value: object) -> Pod | None:
    try:
        return read_pod(value, defaults=False)
    except InputError:
        return None


def _resize(status: Fields, wish: Pod | None, counted: Pod | None) -> str | None:
    """By the conditions of kubelets since 1.33, or by `status.resize` of older ones."""
    states = [_optional_text(status, "resize", "status")]
    for one in _objects(status, "conditions", "status.conditions"):
        if one.get("type") in _RESIZES and one.get("status") == "True":
            parts = (_optional_text(one, key, "status.conditions") for key in ("reason", "message"))
            states.append(": ".join(filter(None, [_RESIZES[str(one["type"])], *parts])))
    state = "; ".join(filter(None, states))
    if not state or wish is None or counted is None:
        return state or None
    pairs = [
        (f"container {wished.name}", wished.resources, own.resources)
        for wished, own in zip(wish.all_containers, counted.all_containers, strict=True)
    ]
    if wish.resources is not None and counted.resources is not None:
        pairs.append(("the pod", wish.resources, counted.resources))
    changed = [
        f"{who} has {own.requests.get(name, 'no')} of {name} and wishes {amount}"
        for who, wished, own in pairs
        for name, amount in wished.requests.items()
        if own.requests.get(name) != amount
    ]
    return "; ".join([state, *changed])


def _qos(status: Fields) -> QosClass | None:
    value = status.get("qosClass")
    return next((one for one in QOS_CLASSES if one == value), None)


def _containers(spec: Fields, status: Fields) -> Iterator[PodContainer]:
    claims = _claims(spec, status)
    extended = _extended_claims(status)
    for in_spec, in_status, kind in CONTAINER_LISTS:
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
        state=next((one for one in RUN_STATES if state.get(one) is not None), None),
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
    had_containers = any(status.get(in_status) for _, in_status, _ in CONTAINER_LISTS)
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
