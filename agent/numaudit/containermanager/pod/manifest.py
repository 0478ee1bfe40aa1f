"""A v1 Pod, as in YAML or JSON that was read already, to the part that matters here.

Source: k8s.io/api/core/v1/types.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from numaudit.containermanager.plain import given, read_mapping, read_quantity, read_sequence, read_text, shown
from numaudit.containermanager.pod.requests import peak
from numaudit.containermanager.pod.spec import CPU, MEMORY, QOS_CLASSES, Container, Pod, QosClass, Resources
from numaudit.containermanager.versions import LATEST_FEATURES
from numaudit.errors import InputError
from numaudit.topology.quantity import Quantities, Quantity

_SOURCE = "kubernetes.io/config.source"
_MIRROR = "kubernetes.io/config.mirror"
_SHORT = 32
"""Characters of a quantity that is worth remembering."""
_NONE = Resources()
_CRITICAL = ("system-cluster-critical", "system-node-critical")
_CRITICAL_PRIORITY = 2_000_000_000


def read_pod(manifest: object, *, defaults: bool = True) -> Pod:
    """Read a Pod from plain values: dictionaries, lists, text, numbers.

    With `defaults` a missing request is the limit, as the API server fills it in; without, the pod
    is taken as it stands. Quantities are taken in their canonical form, as the API server stores
    them. A manifest without `metadata.uid` gets "namespace/name" as its UID.
    Raises InputError that names the bad field.
    """
    pod = read_mapping(manifest, "pod")
    if pod.get("kind", "Pod") != "Pod":
        raise InputError(
            f"kind: a v1 Pod is needed, not {shown(pod['kind'])}; give the pod itself, not its template's owner"
        )
    metadata = read_mapping(pod.get("metadata"), "metadata")
    spec = read_mapping(pod.get("spec"), "spec")
    status = read_mapping(given(pod, "status", {}), "status")
    name = read_text(metadata.get("name"), "metadata.name")
    namespace = read_text(given(metadata, "namespace", "default"), "metadata.namespace")
    allocated, of_init = _allocated(status, "containerStatuses"), _allocated(status, "initContainerStatuses")
    read = Pod(
        name=name,
        namespace=namespace,
        uid=read_text(given(metadata, "uid", f"{namespace}/{name}"), "metadata.uid"),
        containers=_containers(spec, "containers", allocated, defaults),
        init_containers=_containers(spec, "initContainers", of_init, defaults),
        status_qos=_qos_class(status.get("qosClass")),
        overhead=_quantities(given(spec, "overhead", {}), "spec.overhead"),
        is_critical=_is_critical(metadata, spec),
        not_checked=tuple(_not_checked(spec)),
    )
    _check_names(read)
    if spec.get("resources") is None:
        return read
    resources = _resources(spec["resources"], "spec.resources", defaults=False)
    return replace(
        read,
        resources=_with_pod_level_defaults(resources, read) if defaults else resources,
        allocated=_quantities(given(status, "allocatedResources", {}), "status.allocatedResources"),
    )


def _not_checked(spec: Mapping[str, object]) -> Iterator[str]:
    """Every pod of the API tolerates the two taints that it adds itself."""
    names = ("nodeSelector", "affinity", "topologySpreadConstraints", "resourceClaims")
    yield from (name for name in names if spec.get(name))
    added = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    tolerations = spec.get("tolerations")
    listed = tolerations if isinstance(tolerations, list) else ()
    if any(not isinstance(one, Mapping) or one.get("key") not in added for one in listed):
        yield "tolerations"
    own = _listed(spec, "containers")
    own += [one for one in _listed(spec, "initContainers") if one.get("restartPolicy") == "Always"]
    if spec.get("hostNetwork") or any(port.get("hostPort") for one in own for port in _listed(one, "ports")):
        yield "host ports"


def _listed(fields: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """The mappings of a list; what is wrong with it is said where it is read."""
    value = fields.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _containers(
    spec: Mapping[str, object], key: str, allocated: Mapping[str, Quantities], defaults: bool
) -> tuple[Container, ...]:
    return tuple(
        _container(one, f"spec.{key}[{index}]", allocated, defaults)
        for index, one in enumerate(read_sequence(given(spec, key, []), f"spec.{key}"))
    )


def _check_names(pod: Pod) -> None:
    if not pod.containers:
        raise InputError("spec.containers: a pod needs at least one container")
    for name, times in Counter(one.name for one in pod.all_containers).items():
        if times > 1:
            raise InputError(f"spec: two containers are named {name!r}; names must be unique in a pod")


def _container(value: object, where: str, allocated: Mapping[str, Quantities], defaults: bool) -> Container:
    container = read_mapping(value, where)
    name = read_text(container.get("name"), f"{where}.name")
    restart = container.get("restartPolicy")
    if restart not in (None, "Always", "Never", "OnFailure"):
        raise InputError(f"{where}.restartPolicy: must be Always, Never or OnFailure, not {shown(restart)}")
    is_init = ".initContainers" in where
    is_sidecar = restart == "Always" and is_init
    return Container(
        name=name,
        resources=_resources(given(container, "resources", {}), f"{where}.resources", defaults),
        restarts_always=is_sidecar,
        allocated=allocated.get(name) if is_sidecar or not is_init else None,
    )


def _resources(value: object, where: str, defaults: bool) -> Resources:
    resources = read_mapping(value, where)
    if not resources:
        return _NONE
    unknown = resources.keys() - {"requests", "limits", "claims"}
    if unknown:
        raise InputError(f"{where}: unknown field {min(unknown)!r}; it has requests, limits and claims")
    limits = _quantities(given(resources, "limits", {}), f"{where}.limits")
    requests = _quantities(given(resources, "requests", {}), f"{where}.requests")
    if defaults:
        requests = {**requests, **{name: quantity for name, quantity in limits.items() if name not in requests}}
    return Resources(requests, limits)


def _with_pod_level_defaults(resources: Resources, pod: Pod) -> Resources:
    """Fill in the pod's requests where it has limits: what its containers ask for, else the limits."""
    if not resources.limits:
        return resources
    asked = peak(
        pod,
        lambda one: {name: q.nano for name, q in one.resources.requests.items() if name in (CPU, MEMORY)},
        LATEST_FEATURES,
    )
    from_containers = {name: Quantity.parse(str(Quantity(nano, "BinarySI"))) for name, nano in asked.items()}
    return Resources({**resources.limits, **from_containers, **resources.requests}, resources.limits)


def as_allocated(pod: Pod) -> Pod:
    """A pod of /pods or the API as its kubelet counts it: of a resize that waits or was refused, what it allocated.

    The spec has the wish. Source: pkg/kubelet/allocation/allocation_manager.go (UpdatePodFromAllocation).
    """
    return replace(
        pod,
        containers=tuple(_as_allocated(one) for one in pod.containers),
        init_containers=tuple(_as_allocated(one) for one in pod.init_containers),
        resources=None if pod.resources is None else _resources_of(pod.resources, pod.allocated),
        not_checked=(),
    )


def _as_allocated(container: Container) -> Container:
    return replace(container, resources=_resources_of(container.resources, container.allocated))


def _resources_of(own: Resources, allocated: Quantities | None) -> Resources:
    """Requests that were allocated, and the limits that equal them."""
    if not allocated or all(own.requests.get(name) == amount for name, amount in allocated.items()):
        return own
    equal = [name for name, amount in allocated.items() if own.limits.get(name) == own.requests.get(name)]
    limits = {**own.limits, **{name: allocated[name] for name in equal if name in own.limits}}
    return Resources({**own.requests, **allocated}, limits)


def _allocated(status: Mapping[str, object], key: str) -> dict[str, Quantities]:
    """`allocatedResources` by container. A status without them counts as one that allocated nothing."""
    found: dict[str, Quantities] = {}
    where = f"status.{key}"
    for index, value in enumerate(read_sequence(given(status, key, []), where)):
        one = read_mapping(value, f"{where}[{index}]")
        name = read_text(one.get("name"), f"{where}[{index}].name")
        found[name] = _quantities(given(one, "allocatedResources", {}), f"{where}[{index}].allocatedResources")
    return found


def _quantities(value: object, where: str) -> dict[str, Quantity]:
    """A resource list in canonical form: `1.5Gi` becomes `1536Mi`, which the Memory Manager can read."""
    return {name: _quantity(one, where, name) for name, one in read_mapping(value, where).items()}


def _quantity(value: object, where: str, name: str) -> Quantity:
    known = _canonical(value) if isinstance(value, str) and len(value) <= _SHORT else None
    return known or Quantity.parse(str(read_quantity(value, f"{where}.{name}")))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> Quantity | None:
    """Pods ask for the same few quantities; a node's share one value for each. None = it is not one."""
    try:
        return Quantity.parse(str(read_quantity(text, "")))
    except InputError:
        return None


def _is_critical(metadata: Mapping[str, object], spec: Mapping[str, object]) -> bool:
    """A static pod is, and one by its priority, or by the name of a class that the API server turns into one.

    Source: pkg/apis/scheduling/types.go (SystemCriticalPriority), pkg/kubelet/types/pod_update.go (IsCriticalPod).
    """
    priority = spec.get("priority")
    annotations = read_mapping(given(metadata, "annotations", {}), "metadata.annotations")
    if annotations.get(_SOURCE) in ("file", "http") or annotations.get(_MIRROR):
        return True
    return spec.get("priorityClassName") in _CRITICAL or (isinstance(priority, int) and priority >= _CRITICAL_PRIORITY)


def _qos_class(value: object) -> QosClass | None:
    if not value:
        return None
    for one in QOS_CLASSES:
        if value == one:
            return one
    raise InputError(f"status.qosClass: must be {', '.join(QOS_CLASSES)}, not {shown(value)}")
