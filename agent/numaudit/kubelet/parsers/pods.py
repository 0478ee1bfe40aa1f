"""The kubelet's /pods: of each pod its containers, claims, and whether it was refused; and the same list without
commands and environments, for captures. Pure: bytes in, values out.

Sources: k8s.io/api/core/v1/types.go; pkg/kubelet/types/pod_update.go (annotations of static pods);
pkg/kubelet/kubelet.go (rejectPod).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from numaudit.containermanager.pod.manifest import as_allocated, read_pod
from numaudit.containermanager.pod.spec import QOS_CLASSES, Pod
from numaudit.errors import InputError, ParseError
from numaudit.intent.pods import ClaimReference, ContainerKind, PodContainer, PodFacts, Rejection, RunState
from numaudit.kubelet.parsers.pod import Annotations, Container, ContainerStatus, Metadata, PodObject, Spec, Status

_SCHEDULED = re.compile(r"-\d{8,10}\Z", re.ASCII)
"""Suffix that a CronJob adds to its name: minutes (once seconds) since 1970."""
_RESIZES = {"PodResizePending": "pending", "PodResizeInProgress": "in progress"}
_REJECTED = "Pod was rejected: "
RUN_STATES: tuple[RunState, ...] = ("waiting", "running", "terminated")

Pods = Mapping[str, PodFacts]
"""By UID."""
Kind = TypeVar("Kind")


class PodList(Struct, frozen=True):
    """The pods, and what of the list could not be read."""

    pods: Pods
    problems: tuple[str, ...] = ()


class _RawList(Struct):
    kind: str
    api_version: str = field(name="apiVersion", default="v1")
    items: list[msgspec.Raw] | None = None


_POD = msgspec.json.Decoder(PodObject)
_LIST = msgspec.json.Decoder(_RawList)


def parse(body: bytes) -> PodList:
    """The pods of a v1 PodList in JSON. A pod that is not understood is left out and named. Raises ParseError."""
    pods: dict[str, PodFacts] = {}
    problems: list[str] = []
    for index, raw in enumerate(_list(body).items or ()):
        try:
            pod = _facts(raw)
        except ParseError as error:
            problems.append(f"items[{index}]: {error}")
            continue
        if pod.spec is None:
            problems.append(f"pod {pod.namespace}/{pod.name}: its resources are not understood")
        pods[pod.uid] = _better(pods.get(pod.uid), pod)
    return PodList(pods, tuple(problems))


def without_secrets(body: bytes) -> bytes:
    """The same list with only the fields that are read here: commands and environments hold secrets.

    Raises ParseError when it is no list of pods, or one of them is not understood.
    """
    found = _list(body)
    kept = {
        "kind": found.kind,
        "apiVersion": found.api_version,
        "items": [_decode(_POD, one) for one in found.items or ()],
    }
    return msgspec.json.format(msgspec.json.encode(kept), indent=1)


def _facts(raw: bytes | msgspec.Raw) -> PodFacts:
    """One v1 Pod. Raises ParseError naming the field."""
    pod = _decode(_POD, raw)
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    annotations = metadata.annotations or Annotations()
    uid = annotations.mirror or metadata.uid
    wish = _wish(pod)
    counted = None if wish is None else as_allocated(wish)
    return PodFacts(
        uid=uid,
        namespace=metadata.namespace,
        name=metadata.name,
        qos=next((one for one in QOS_CLASSES if one == status.qos_class), None),
        phase=status.phase or None,
        created_at=_seconds(metadata.creation_timestamp or annotations.seen),
        containers=tuple(_containers(spec, status)),
        spec=counted,
        rejection=_rejection(uid, metadata, status),
        resize=_resize(status, wish, counted),
        workload=_workload(metadata),
        ended_without_reason=_ended_without_reason(metadata, spec, status),
        ended_at=_ended_at(status),
    )


def _list(body: bytes) -> _RawList:
    """The list, its pods not decoded. Raises ParseError."""
    found = _decode(_LIST, body)
    if found.kind not in ("PodList", "List"):
        raise ParseError(f"not a list of pods: its kind is {found.kind[:60]!r}")
    return found


def _decode(decoder: msgspec.json.Decoder[Kind], data: bytes | msgspec.Raw) -> Kind:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not a {'pod' if decoder is _POD else 'list of pods'}: {error}") from None


def _better(one: PodFacts | None, other: PodFacts) -> PodFacts:
    """A static pod and its mirror on the API server are one pod: keep the one whose status names containers."""
    if one is None or not any(container.container_id for container in one.containers):
        return other
    return one


def _ended_without_reason(metadata: Metadata, spec: Spec, status: Status) -> bool:
    if status.phase not in ("Succeeded", "Failed") or status.reason or status.message:
        return False
    return spec.restart_policy == "Always" and metadata.deletion_timestamp is None


def _ended_at(status: Status) -> float | None:
    """That of the app containers."""
    ends = [one.state.terminated for one in status.container_statuses or ()]
    known = [at for one in ends if one is not None and (at := _seconds(one.finished_at)) is not None]
    return max(known) if known and len(known) == len(ends) else None


def _workload(metadata: Metadata) -> str | None:
    """The controller's name: of a ReplicaSet that of its Deployment, of a scheduled Job that of its CronJob."""
    owner = next((one for one in metadata.owner_references or () if one.controller), None)
    if owner is None:
        return None
    if owner.kind == "Job":
        return _SCHEDULED.sub("", owner.name)
    hash_ = metadata.labels.template_hash if metadata.labels is not None else None
    return owner.name.removesuffix(f"-{hash_}") if owner.kind == "ReplicaSet" else owner.name


def _wish(pod: PodObject) -> Pod | None:
    try:
        return read_pod(msgspec.to_builtins(pod), defaults=False)
    except InputError:
        return None


def _resize(status: Status, wish: Pod | None, counted: Pod | None) -> str | None:
    """By the conditions of kubelets since 1.33, or by `status.resize` of older ones."""
    states = [status.resize]
    for one in status.conditions or ():
        if one.type in _RESIZES and one.status == "True":
            states.append(": ".join(filter(None, [_RESIZES[one.type], one.reason, one.message])))
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


def _containers(spec: Spec, status: Status) -> Iterator[PodContainer]:
    claims = _claims(spec, status)
    extended = _extended_claims(status)
    lists: tuple[tuple[Sequence[Container] | None, Sequence[ContainerStatus] | None, ContainerKind], ...] = (
        (spec.init_containers, status.init_container_statuses, "init"),
        (spec.containers, status.container_statuses, "app"),
        (spec.ephemeral_containers, status.ephemeral_container_statuses, "ephemeral"),
    )
    for listed, listed_statuses, kind in lists:
        statuses = {one.name: one for one in listed_statuses or ()}
        for one in listed or ():
            own = (*_references(one, claims), *extended.get(one.name, ()))
            is_sidecar = kind == "init" and one.restart_policy == "Always"
            yield _container(
                statuses.get(one.name) or ContainerStatus(one.name), "sidecar" if is_sidecar else kind, own
            )


def _claims(spec: Spec, status: Status) -> dict[str, str]:
    """Name in the pod -> the claim. One that is made of a template has its name in the status."""
    made = {one.name: one.resource_claim_name for one in status.resource_claim_statuses or ()}
    named = {one.name: one.resource_claim_name or made.get(one.name) for one in spec.resource_claims or ()}
    return {name: claim for name, claim in named.items() if claim}  # else it is not made yet, or none is needed


def _extended_claims(status: Status) -> dict[str, tuple[ClaimReference, ...]]:
    """Container -> its parts of the claim that stands for extended resources."""
    extended = status.extended_resource_claim_status
    found: dict[str, tuple[ClaimReference, ...]] = {}
    if extended is None:
        return found
    for one in extended.request_mappings or ():
        reference = ClaimReference(extended.resource_claim_name, one.request_name or None)
        found[one.container_name] = (*found.get(one.container_name, ()), reference)
    return found


def _references(container: Container, claims: Mapping[str, str]) -> Iterator[ClaimReference]:
    used = () if container.resources is None else container.resources.claims or ()
    yield from (ClaimReference(claims[one.name], one.request or None) for one in used if one.name in claims)


def _container(status: ContainerStatus, kind: ContainerKind, claims: tuple[ClaimReference, ...]) -> PodContainer:
    state, previous = status.state, status.last_state.terminated
    return PodContainer(
        name=status.name,
        kind=kind,
        state=next((one for one in RUN_STATES if getattr(state, one) is not None), None),
        container_id=_id(status.container_id),
        previous_container_id=None if previous is None else _id(previous.container_id),
        restarts=status.restart_count,
        started_at=None if state.running is None else _seconds(state.running.started_at),
        claims=claims,
    )


def _id(value: str | None) -> str | None:
    """`containerd://<id>` -> id."""
    return (value or "").rpartition("://")[2] or None


def _rejection(uid: str, metadata: Metadata, status: Status) -> Rejection | None:
    """A refused pod failed without ever having a container; one that was evicted while it ran had some."""
    message = status.message or ""
    had_containers = status.init_container_statuses or status.container_statuses or status.ephemeral_container_statuses
    if status.phase != "Failed" or not status.reason or (had_containers and not message.startswith(_REJECTED)):
        return None
    # Kubelets before 1.27 or so wrote "Pod " before the message.
    text = message.removeprefix(_REJECTED) if message.startswith(_REJECTED) else message.removeprefix("Pod ")
    at = _seconds(status.start_time)
    return Rejection(uid, metadata.namespace, metadata.name, status.reason, text, at)


def _seconds(value: str | None) -> float | None:
    try:
        when = datetime.fromisoformat(value or "")
    except ValueError:
        return None
    return None if when.tzinfo is None else when.timestamp()
