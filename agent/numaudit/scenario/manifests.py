"""Pods of files: a v1 Pod, lists as kubectl prints them, and the pod templates of workloads, whatever their kind.

A template is found by its shape: `spec.containers` below a name that ends in Template, or `containers` anywhere else.
A field that a Pod does not have is an error: a kubelet never sees it, so a request would be lost silently.

Source: k8s.io/api/core/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go of Kubernetes 1.36.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.containermanager.plain import Document
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.scenario.machine import Devices, check_devices

MOST_CONTAINERS = 1000
"""App or init containers; a pod of as many is hardly smaller than the 1.5 MiB that an API server keeps of one."""
_USUAL = ("spec.template", "spec.jobTemplate.spec.template", "template")
"""Places of the pod template: in workloads, in a CronJob, in a PodTemplate."""
_MULTIPLIERS = ("replicas", "parallelism", "numOfHosts")
"""Fields around a template that say how many pods it is for: of most workloads, of a Job, of a RayCluster."""
_NO_TEMPLATES = ("status", "pattern", "anyPattern", "openAPIV3Schema")
"""Fields that describe pods, but are for none: those of policies and schemas."""
_BARE = ("container", "script")
"""Fields of an Argo Workflow's template: one container each."""
_TITLE_ENDS = re.compile(r"(?:GroupSpec|Template|Spec)$")
_NO_TITLES = ("", "template", "spec", "pod")


def _names(*lines: str) -> tuple[str, ...]:
    return tuple(name for line in lines for name in line.split())


_POD = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA = _names(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp",
    "deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
)
_SPEC = _names(
    "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds",
    "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken",
    "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname subdomain",
    "affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates",
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os",
    "hostUsers schedulingGates resourceClaims resources hostnameOverride workloadRef schedulingGroup",
)
_CONTAINER = _names(
    "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules",
    "volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath",
    "terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
)


def _check_fields(manifest: Document) -> None:
    """Raise InputError for a field that a Pod does not have, with the names that are near."""
    manifest.fields(_POD)
    for name, known in (("metadata", _METADATA), ("spec", _SPEC)):
        if manifest.part(name).value is not None:
            manifest.part(name).fields(known)
    spec = manifest.part("spec")
    for name in ("initContainers", "containers"):
        for container in spec.part(name).elements():
            container.fields(_CONTAINER)


class Manifest(Struct, frozen=True):
    """A pod of a file."""

    pod: Pod
    owner: str | None = None
    """The workload whose template it is, such as `StatefulSet db`, and where in it, if that is not `spec.template`;
    None = the file has the pod itself."""
    replicas: int | None = None
    """Number of them that the workload asks for; None = it does not say."""


def read_manifests(documents: Sequence[Document], devices: Devices | None = None) -> tuple[Manifest, ...]:
    """All pods of a file: each v1 Pod, and one for each pod template. Other objects are passed over.

    Raises InputError that names the place, also where there is no pod at all; `devices`: also for one that the machine
    does not have.
    """
    objects = [each for document in documents for each in _objects(document)]
    found = [one for each in objects for one in _manifests(each, devices)]
    if not found:
        names = ", ".join(dict.fromkeys(str(_named(each)) for each in objects)) or "an empty list"
        first = objects[0] if objects else documents[0]
        advice = next(
            (why for each in objects if (why := _elsewhere(each))), "give a v1 Pod, or a workload with a pod template"
        )
        raise first.error(f"there is no pod in it, only {names}; {advice}")
    return tuple(found)


def _objects(document: Document) -> Iterator[Document]:
    """The objects of a list; what is no list is one itself."""
    kind = document.part("kind").value
    if isinstance(kind, str) and kind.endswith("List") and document.part("items").value is not None:
        for item in document.part("items").elements():
            yield from _objects(item)
    else:
        yield document


def _manifests(found: Document, devices: Devices | None) -> Iterator[Manifest]:
    """None for an object without pods, such as a Service. Raises InputError."""
    spec = found.part("spec")
    for machine in (spec, spec.part("template").part("spec")):
        if isinstance(machine.part("domain").value, Mapping):
            raise machine.part("domain").error(
                "a virtual machine has no pod spec; give its virt-launcher pod (`kubectl get pod NAME -o yaml`)"
            )
    templates = [] if found.part("kind").value == "Pod" else list(_templates(found, (), None))
    if not templates:  # one of another shape is wrong, and the error says how
        templates = [_Template(one, (), None) for one in _usual(found) if isinstance(one.part("spec").value, Mapping)]
    usual = [one.path for one in _usual(found)]
    for one in templates:
        pod = _pod_of(found, one.template, _title(one) if len(templates) > 1 else None)
        where = "" if one.template.path in usual else f" {one.template.path}{one.note}"
        yield Manifest(read_manifest(pod, devices), f"{_named(found)}{where}", one.replicas)
    if not templates and (found.part("kind").value in ("Pod", None) or spec.part("containers").value is not None):
        yield Manifest(read_manifest(_pod_of(found, found), devices))


def _usual(found: Document) -> Iterator[Document]:
    for path in _USUAL:
        place = found
        for name in path.split("."):
            place = place.part(name)
        yield place


class _Template(Struct, frozen=True):
    """A mapping with the `spec` of a pod."""

    template: Document
    around: tuple[Document, ...]
    """Everything that it is in, the nearest last."""
    replicas: int | None
    note: str = ""
    """Remark for whoever reads where it was found."""


def _templates(found: Document, around: tuple[Document, ...], replicas: int | None) -> Iterator[_Template]:
    """All pod templates below an object."""
    value = found.value
    if isinstance(value, list):
        for index in range(len(value)):
            yield from _templates(found.part(index), (*around, found), replicas)
    if not isinstance(value, Mapping):
        return
    name = found.path.rpartition(".")[2].partition("[")[0]
    inner = found.part("spec")
    is_template = name.endswith(("emplate", "emplates"))
    if is_template and _has_containers(inner.value):
        yield _Template(found, around, replicas)
        return
    if name != "spec" and _has_containers(value):
        yield _Template(_with_spec(found, value), around, replicas)
        return
    bare = next((value[one] for one in _BARE if isinstance(value.get(one), Mapping)), None)
    if name == "templates" and bare is not None:
        listed = {**value, "containers": [bare, *_listed(value, "sidecars")]}
        yield _Template(_with_spec(found, listed), around, replicas, ", without the containers that Argo adds")
        return
    for key in value:
        if isinstance(key, str) and key not in _NO_TEMPLATES:
            yield from _templates(found.part(key), (*around, found), _multiplied(found, key, replicas))


def _has_containers(spec: object) -> bool:
    listed = spec.get("containers") if isinstance(spec, Mapping) else None
    return isinstance(listed, list) and bool(listed) and all(isinstance(one, Mapping) for one in listed)


def _listed(value: Mapping[str, object], name: str) -> list[object]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _with_spec(found: Document, value: Mapping[str, object]) -> Document:
    """Fields of a pod spec among those of its workload, such as a KServe predictor: as a template of their own."""
    spec = {key: value[key] for key in _SPEC if key in value}
    spec["containers"] = [
        {"name": "main", **{key: one[key] for key in _CONTAINER if key in one}} if isinstance(one, Mapping) else one
        for one in _listed(value, "containers")
    ]
    return Document(found.name, {"spec": spec}, lambda path: found.line_of(path.replace(".spec.", ".", 1)), found.path)


def _multiplied(found: Document, key: str, replicas: int | None) -> int | None:
    """The number of pods below a field, as far as the fields beside it say; None = they do not."""
    counts = [found.part(name).value for name in _MULTIPLIERS]
    size = found.part("size").value
    if key in ("workerTemplate", "leaderTemplate") and type(size) is int:  # of a group of a LeaderWorkerSet
        has_leader = found.part("leaderTemplate").value is not None
        counts.append(1 if key == "leaderTemplate" else size - has_leader)
    stated = [count for count in counts if type(count) is int]
    return math.prod(stated, start=1 if replicas is None else replicas) if stated else replicas


def _title(one: _Template) -> str | None:
    """Name of the group that it is of, which tells it from others of its workload."""
    for place in (one.template, *reversed(one.around)):
        key = place.path.rpartition(".")[2]
        if key.endswith("]"):
            title = place.part("name").value or place.part("groupName").value
        else:
            title = _TITLE_ENDS.sub("", key).lower()
        if isinstance(title, str) and title not in _NO_TITLES:
            return title
    return None


def _elsewhere(found: Document) -> str | None:
    """Advice for a workload whose pods are described in another object."""
    runtime = found.part("spec").part("runtimeRef").part("name").value
    if isinstance(runtime, str):
        return f"its pods are described by the runtime {runtime}: give that, or one of its pods"
    return None


def _named(found: Document) -> str:
    name = found.part("metadata").part("name").value
    kind = found.part("kind").value
    return " ".join(one for one in (kind, name) if isinstance(one, str)) or "an object without a kind"


def _pod_of(owner: Document, template: Document, title: str | None = None) -> Document:
    """The pod of a template, with the owner's name and namespace: a controller adds to the name when it creates one.

    `title` is added to the owner's name.
    """
    value = template.value
    if not isinstance(value, Mapping):
        return template
    metadata = value.get("metadata") or {}
    given = owner.part("metadata").value or {}
    if isinstance(metadata, Mapping) and isinstance(given, Mapping) and not metadata.get("name"):
        name = given.get("name") or given.get("generateName")
        short = name.rstrip("-.") if isinstance(name, str) else name
        if title is not None and isinstance(short, str):
            short = f"{short}-{title}"
        added = {"name": short, "namespace": given.get("namespace")}
        metadata = {**metadata, **{key: one for key, one in added.items() if one is not None}}
        value = {**value, "metadata": metadata}
    return Document(template.name, value, template.line_of, template.path)


def read_manifest(manifest: Document, devices: Devices | None = None) -> Pod:
    """A v1 Pod. Raises InputError that names the place; `devices`: also for one that the machine does not have."""
    _check_size(manifest.part("spec"))
    _check_fields(manifest)
    with manifest.located():
        pod = read_pod(manifest.value)
    if devices is not None:
        for container in pod.all_containers:
            wanted = {name: 1 for name in container.resources.limits if _is_extended(name)}
            check_devices(wanted, devices, manifest)
    return pod


def _check_size(spec: Document) -> None:
    """The kubelet asks each manager for each container of the whole pod, so an admission takes the square of them."""
    for name in ("initContainers", "containers"):
        part = spec.part(name)
        if isinstance(part.value, list) and len(part.value) > MOST_CONTAINERS:
            raise part.error(f"at most {MOST_CONTAINERS} containers can be simulated, not {len(part.value)}")


def unknown_devices(pod: Pod, devices: Devices) -> tuple[str, ...]:
    """Resources of device plugins that the pod asks for and no plugin has registered; a kubelet ignores them."""
    asked = dict.fromkeys(name for one in pod.all_containers for name in one.resources.limits)
    return tuple(name for name in asked if _is_extended(name) and name not in devices)


def _is_extended(resource: str) -> bool:
    """Is this a resource of a device plugin, by its name?"""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")
