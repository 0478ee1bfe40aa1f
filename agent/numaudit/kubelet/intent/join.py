"""One container out of many sources: checkpoints, pods, PodResources, the log and cgroups. Pure.

The checkpoints know pod UID and container name; the cgroups pod UID and container id; the pods'
status has all three; PodResources and the log know namespace, pod and container name. What fits
more than once stays unknown. The work is linear in the number of containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.intent.node import ContainerIntent, Promise
from numaudit.intent.pods import HintRecord, PodContainer, PodFacts, Rejection
from numaudit.kubelet.intent import promises
from numaudit.kubelet.intent.promises import Checkpoints, ContainerKey, OtherSources
from numaudit.kubelet.parsers.pods import Pods
from numaudit.kubelet.sources.podresources import DynamicResource, PodResources
from numaudit.snapshot import Container
from numaudit.topology.nodeset import NodeSet

_CLOCK_STEP = 1.0
"""Seconds: a pod's creation time has no fractions."""

_PodName = tuple[str, str]


class Joined(Struct, frozen=True):
    """The containers, the log's records with their pods' UIDs, and where sources contradict each other."""

    containers: tuple[ContainerIntent, ...]
    hints: tuple[HintRecord, ...]
    conflicts: tuple[str, ...]
    given_claims: Mapping[ContainerKey, tuple[DynamicResource, ...]] = field(default_factory=dict)
    """Devices of the containers' resource claims, by PodResources."""


def complete(containers: Sequence[Container], pods: Pods | None) -> tuple[Container, ...]:
    """The same containers with the names that the pods' status gives to their ids.

    A container whose mounts and id give different names is left without a name.
    """
    if not pods:
        return tuple(containers)
    names = _names_by_id(pods)
    named = [_complete(one, pods, names) for one in containers]
    sandboxes = _sandboxes(named, pods, names)
    return tuple([replace(one, kind="sandbox") if one.id in sandboxes else one for one in named])


def _sandboxes(named: Iterable[Container], pods: Pods, names: Mapping[str, ContainerKey | None]) -> set[int]:
    """The one cgroup left over in a pod whose other containers all run in cgroups of their own, or ended.

    A pod's status never names its sandbox. While a container waits or restarts, more could be left over.
    """
    cgroups: dict[str, list[Container]] = {}
    for one in named:
        if one.kind in ("container", "sandbox") and one.pod_uid is not None and one.pod_uid in pods:
            cgroups.setdefault(one.pod_uid, []).append(one)
    found: set[int] = set()
    for uid, of_pod in cgroups.items():
        states = {one.state for one in pods[uid].containers}
        running = {one.container_id for one in pods[uid].containers if one.state == "running"}
        here = {one.container_id for one in of_pod if one.name is not None}
        unnamed = [one for one in of_pod if one.name is None and one.container_id not in names]
        is_settled = running and running <= here and states <= {"running", "terminated"}
        if is_settled and len(unnamed) == 1 and len(of_pod) == len(here) + 1:
            found.add(unnamed[0].id)
    return found


def _complete(one: Container, pods: Pods, names: Mapping[str, ContainerKey | None]) -> Container:
    pod = None if one.pod_uid is None else pods.get(one.pod_uid)
    if pod is None:
        return one
    name = one.name
    found = None if one.container_id is None else names.get(one.container_id)
    if one.kind == "container" and found is not None and found[0] == pod.uid:
        name = found[1] if one.name in (None, found[1]) else None
    return replace(one, namespace=pod.namespace, pod=pod.name, name=name, qos=pod.qos or one.qos)


def _names_by_id(pods: Pods) -> dict[str, ContainerKey | None]:
    """Container id -> pod UID and name; None for an id that two containers claim."""
    names: dict[str, ContainerKey | None] = {}
    for pod in pods.values():
        for container in pod.containers:
            key = (pod.uid, container.name)
            for id_ in (container.container_id, container.previous_container_id):
                if id_ is not None:
                    names[id_] = key if names.get(id_, key) == key else None
    return names


def join(
    containers: Sequence[Container],
    checkpoints: Checkpoints,
    *,
    pods: Pods | None,
    pods_are_current: bool,
    resources: Iterable[PodResources] | None,
    records: Iterable[HintRecord],
    cgroups_are_settled: bool = False,
) -> Joined:
    """Join everything by pod UID and container name. `containers` are those that `complete` gave back.

    `cgroups_are_settled`: the checkpoints were written long enough ago that every pod in them has its cgroup.
    """
    uids = _uids_by_name(pods or {}, containers)
    cgroups: dict[ContainerKey, list[int]] = {}
    for one in containers:
        if one.kind == "container" and one.pod_uid is not None and one.name is not None:
            cgroups.setdefault((one.pod_uid, one.name), []).append(one.id)
    resources = tuple(resources or ())
    given = _resources_by_key(resources, uids)
    hints = tuple([_with_uid(record, pods or {}, uids) for record in records])
    hints_by_key = _hints_by_key(hints)
    spec = {(pod.uid, one.name): one for pod in (pods or {}).values() for one in pod.containers}
    living = {one.pod_uid for one in containers if one.pod_uid is not None}
    all_seen = pods_are_current or (pods is None and cgroups_are_settled and bool(living))
    in_checkpoint = checkpoints.keys
    keys = dict.fromkeys([*spec, *cgroups, *sorted(in_checkpoint), *given])
    names = _names_by_uid(containers, hints)
    found: list[ContainerIntent] = []
    conflicts: list[str] = []
    for key in keys:
        uid, name = key
        pod = (pods or {}).get(uid)
        namespace, pod_name = (pod.namespace, pod.name) if pod is not None else names.get(uid, (None, None))
        part = spec.get(key)
        record = hints_by_key.get(key) or hints_by_key.get((uid, ""))
        others = OtherSources(given.get(key), _logged_nodes(record, part))
        found.append(
            ContainerIntent(
                pod_uid=uid,
                name=name,
                namespace=namespace,
                pod=pod_name,
                kind=None if part is None else part.kind,
                cgroups=tuple(cgroups.get(key, ())),
                promise=promises.promise(key, checkpoints, others),
                hints=record,
                is_stale=key in in_checkpoint and _is_stale(key, pod, part, living, all_seen),
                has_ended=_has_ended(pod, part),
            )
        )
        problem = promises.conflict((namespace, pod_name, name), key, checkpoints, others)
        if problem is not None:
            conflicts.append(problem)
    return Joined(tuple(found), hints, tuple(conflicts), _claims_by_key(resources, uids))


def rejections(pods: Pods | None, from_log: Mapping[str, Rejection]) -> tuple[Rejection, ...]:
    """One for each pod UID: a pod that was refused twice counts with its newest refusal."""
    found = dict(from_log)
    for pod in (pods or {}).values():
        other = pod.rejection
        known = found.get(pod.uid)
        if other is not None and (known is None or (known.at or 0.0) + _CLOCK_STEP < (other.at or 0.0)):
            found[pod.uid] = other
    return tuple(found.values())


def _names_by_uid(containers: Sequence[Container], hints: Iterable[HintRecord]) -> dict[str, _PodName]:
    """Pod UID -> namespace and name where the pods are not listed: by the log, and by what names the cgroups have."""
    names = {one.pod_uid: (one.namespace, one.pod) for one in hints if one.pod_uid is not None}
    for one in containers:
        if one.pod_uid is not None and one.namespace is not None and one.pod is not None:
            names[one.pod_uid] = (one.namespace, one.pod)
    return names


def _uids_by_name(pods: Pods, containers: Sequence[Container]) -> dict[_PodName, str | None]:
    """Namespace and name of each pod that has not ended -> UID; None where two pods have the name."""
    uids: dict[_PodName, str | None] = {}
    for pod in pods.values():
        if not pod.has_ended:
            name = (pod.namespace, pod.name)
            uids[name] = pod.uid if name not in uids else None
    if not pods:
        for one in containers:
            if one.namespace is not None and one.pod is not None and one.pod_uid is not None:
                name = (one.namespace, one.pod)
                uids[name] = one.pod_uid if uids.get(name, one.pod_uid) == one.pod_uid else None
    return uids


def _resources_by_key(
    resources: Iterable[PodResources], uids: Mapping[_PodName, str | None]
) -> dict[ContainerKey, Promise]:
    found: dict[ContainerKey, Promise] = {}
    for pod in resources:
        uid = uids.get((pod.namespace, pod.name))
        if uid is not None:
            found.update({(uid, name): one for name, one in pod.containers.items()})
    return found


def _claims_by_key(
    resources: Iterable[PodResources], uids: Mapping[_PodName, str | None]
) -> dict[ContainerKey, tuple[DynamicResource, ...]]:
    found: dict[ContainerKey, tuple[DynamicResource, ...]] = {}
    for pod in resources:
        uid = uids.get((pod.namespace, pod.name)) if pod.claims else None
        if uid is not None:
            found.update({(uid, name): listed for name, listed in pod.claims.items()})
    return found


def _with_uid(record: HintRecord, pods: Pods, uids: Mapping[_PodName, str | None]) -> HintRecord:
    """The record with its pod's UID. By the name alone it is found only if that pod is old enough."""
    if record.pod_uid is not None or record.at is None:
        return record
    uid = uids.get((record.namespace, record.pod))
    pod = None if uid is None else pods.get(uid)
    if pod is None or pod.created_at is None or record.at < pod.created_at - _CLOCK_STEP:
        return record
    return replace(record, pod_uid=uid)


def _hints_by_key(hints: Iterable[HintRecord]) -> dict[ContainerKey, HintRecord]:
    """The newest record of each container; of a whole pod under the name ""."""
    return {(one.pod_uid, one.container or ""): one for one in hints if one.pod_uid is not None}


def _logged_nodes(record: HintRecord | None, part: PodContainer | None) -> NodeSet:
    """The nodes of the memory that a container holds by the log. An init container hands its memory over."""
    if record is None or record.memory_nodes is None or record.denial is not None or record.allocate_error is not None:
        return NodeSet()
    is_over = part is not None and (part.kind == "init" or part.state == "terminated")
    return NodeSet() if is_over else record.memory_nodes


def _is_stale(
    key: ContainerKey, pod: PodFacts | None, part: PodContainer | None, living: set[str], all_seen: bool
) -> bool | None:
    if pod is not None:
        return True if pod.has_ended else part is None and all_seen
    if key[0] in living:
        return False
    return True if all_seen else None


def _has_ended(pod: PodFacts | None, part: PodContainer | None) -> bool | None:
    if pod is None or part is None:
        return None
    if pod.has_ended:
        return True
    if part.state is None:
        return None
    return part.kind == "init" and part.state == "terminated"
