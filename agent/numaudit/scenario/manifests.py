"""Pods of files: a v1 Pod, lists as kubectl prints them, and the pod templates of workloads.

A field that a Pod does not have is an error: a kubelet never sees it, so a request would be lost silently.

Source: k8s.io/api/core/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.scenario.document import Document
from numaudit.scenario.machine import Devices, check_devices

MOST_CONTAINERS = 1000
"""App or init containers; a pod of as many is hardly smaller than the 1.5 MiB that an API server keeps of one."""
_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))
"""Places of the pod template: in workloads, in a CronJob, in a PodTemplate."""


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
    """The workload whose template it is, such as `StatefulSet db`; None = the file has the pod itself."""
    replicas: int | None = None
    """Number of them that the workload asks for; None = it does not say."""


def read_manifests(documents: Sequence[Document], devices: Devices | None = None) -> tuple[Manifest, ...]:
    """All pods of a file: each v1 Pod, and one for each pod template. Other objects are passed over.

    Raises InputError that names the place, also where there is no pod at all; `devices`: also for one that the machine
    does not have.
    """
    objects = [each for document in documents for each in _objects(document)]
    found = [one for each in objects if (one := _manifest(each, devices)) is not None]
    if not found:
        names = ", ".join(dict.fromkeys(str(_named(each)) for each in objects)) or "an empty list"
        first = objects[0] if objects else documents[0]
        raise first.error(f"there is no pod in it, only {names}; give a v1 Pod, or a workload with a pod template")
    return tuple(found)


def _objects(document: Document) -> Iterator[Document]:
    """The objects of a list; what is no list is one itself."""
    kind = document.part("kind").value
    if isinstance(kind, str) and kind.endswith("List") and document.part("items").value is not None:
        for item in document.part("items").elements():
            yield from _objects(item)
    else:
        yield document


def _manifest(found: Document, devices: Devices | None) -> Manifest | None:
    """None = an object without pods, such as a Service."""
    for places in _TEMPLATES:
        template = found
        for place in places:
            template = template.part(place)
        if isinstance(template.part("spec").value, Mapping):
            replicas = found.part("spec").part("replicas").value
            count = replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else None
            return Manifest(read_manifest(_pod_of(found, template), devices), _named(found), count)
    if found.part("kind").value in ("Pod", None) or found.part("spec").part("containers").value is not None:
        return Manifest(read_manifest(_pod_of(found, found), devices))
    return None


def _named(found: Document) -> str:
    name = found.part("metadata").part("name").value
    kind = found.part("kind").value
    return " ".join(one for one in (kind, name) if isinstance(one, str)) or "an object without a kind"


def _pod_of(owner: Document, template: Document) -> Document:
    """The pod of a template, with the owner's name and namespace: a controller adds to the name when it creates one."""
    value = template.value
    if not isinstance(value, Mapping):
        return template
    metadata = value.get("metadata") or {}
    given = owner.part("metadata").value or {}
    if isinstance(metadata, Mapping) and isinstance(given, Mapping) and not metadata.get("name"):
        name = given.get("name") or given.get("generateName")
        short = name.rstrip("-.") if isinstance(name, str) else name
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
