"""A v1 Pod, as in YAML or JSON that was read already, to the part that matters here.

Source: k8s.io/api/core/v1/types.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from numaudit.errors import InputError, ParseError
from numaudit.memorymanager.pod import QOS_CLASSES, Container, Pod, QosClass, Resources
from numaudit.topology.quantity import Quantities, Quantity


def read_pod(manifest: object, *, defaults: bool = True) -> Pod:
    """Read a Pod from plain values: dictionaries, lists, text, numbers.

    With `defaults` a missing request is the limit, as the API server fills it in; without, the pod
    is taken as it stands. Quantities are taken in their canonical form, as the API server stores
    them. A manifest without `metadata.uid` gets "namespace/name" as its UID.
    Raises InputError that names the bad field.
    """
    pod = _mapping(manifest, "pod")
    if pod.get("kind", "Pod") != "Pod":
        raise InputError(
            f"kind: a v1 Pod is needed, not {pod['kind']!r}; give the pod itself, not its template's owner"
        )
    metadata = _mapping(pod.get("metadata", {}), "metadata")
    spec = _mapping(pod.get("spec"), "spec")
    status = _mapping(pod.get("status") or {}, "status")
    name = _text(metadata.get("name"), "metadata.name")
    namespace = _text(metadata.get("namespace", "default"), "metadata.namespace")
    allocated = _allocated(status)
    return Pod(
        name=name,
        namespace=namespace,
        uid=_text(metadata.get("uid", f"{namespace}/{name}"), "metadata.uid"),
        **_containers(spec, allocated, defaults),
        resources=None if spec.get("resources") is None else _resources(spec["resources"], "spec.resources", defaults),
        status_qos=_qos_class(status.get("qosClass")),
    )


def _containers(
    spec: Mapping[str, object], allocated: Mapping[str, Quantities], defaults: bool
) -> dict[str, tuple[Container, ...]]:
    found = {
        field: tuple(
            _container(one, f"spec.{key}[{index}]", allocated, defaults)
            for index, one in enumerate(_sequence(spec.get(key) or [], f"spec.{key}"))
        )
        for field, key in (("init_containers", "initContainers"), ("containers", "containers"))
    }
    if not found["containers"]:
        raise InputError("spec.containers: a pod needs at least one container")
    names = [one.name for one in found["init_containers"] + found["containers"]]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"spec: two containers are named {name!r}; names must be unique in a pod")
    return found


def _container(value: object, where: str, allocated: Mapping[str, Quantities], defaults: bool) -> Container:
    container = _mapping(value, where)
    name = _text(container.get("name"), f"{where}.name")
    restart = container.get("restartPolicy")
    if restart not in (None, "Always", "Never", "OnFailure"):
        raise InputError(f"{where}.restartPolicy: must be Always, Never or OnFailure, not {restart!r}")
    return Container(
        name=name,
        resources=_resources(container.get("resources") or {}, f"{where}.resources", defaults),
        restarts_always=restart == "Always" and ".initContainers" in where,
        allocated=allocated.get(name),
    )


def _resources(value: object, where: str, defaults: bool) -> Resources:
    resources = _mapping(value, where)
    unknown = resources.keys() - {"requests", "limits", "claims"}
    if unknown:
        raise InputError(f"{where}: unknown field {min(unknown)!r}; it has requests, limits and claims")
    limits = _quantities(resources.get("limits") or {}, f"{where}.limits")
    requests = _quantities(resources.get("requests") or {}, f"{where}.requests")
    if defaults:
        requests = {**requests, **{name: quantity for name, quantity in limits.items() if name not in requests}}
    return Resources(requests, limits)


def _allocated(status: Mapping[str, object]) -> dict[str, Quantities]:
    """`allocatedResources` by container. A status without them counts as one that allocated nothing."""
    found: dict[str, Quantities] = {}
    where = "status.containerStatuses"
    for index, value in enumerate(_sequence(status.get("containerStatuses") or [], where)):
        one = _mapping(value, f"{where}[{index}]")
        name = _text(one.get("name"), f"{where}[{index}].name")
        found[name] = _quantities(one.get("allocatedResources") or {}, f"{where}[{index}].allocatedResources")
    return found


def _quantities(value: object, where: str) -> dict[str, Quantity]:
    return {name: _quantity(one, f"{where}.{name}") for name, one in _mapping(value, where).items()}


def _quantity(value: object, where: str) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}: must be a quantity such as 4Gi or 500m, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: must be a finite quantity, not {value!r}")
    try:
        quantity = Quantity.parse(str(value).strip())
    except ParseError as error:
        raise InputError(f"{where}: {error}") from None
    if quantity.nano < 0:
        raise InputError(f"{where}: must not be negative: {value!r}")
    return Quantity.parse(str(quantity))


def _qos_class(value: object) -> QosClass | None:
    if not value:
        return None
    for one in QOS_CLASSES:
        if value == one:
            return one
    raise InputError(f"status.qosClass: must be {', '.join(QOS_CLASSES)}, not {value!r}")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: must be a mapping, not {_kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{where}: field names must be text, not {key!r}")
    return value


def _sequence(value: object, where: str) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"{where}: must be a list, not {_kind(value)}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: must be text that is not empty, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    return "absent" if value is None else type(value).__name__
