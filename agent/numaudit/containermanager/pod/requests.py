"""Memory and huge pages that a container or a whole pod asks for, and how memory of the pod's own (pod-level resources)
is divided among its containers.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (getRequestedResources, getPodRequestedResources, AllocatePod),
KEP-5526. Pod-level resources need the feature gate PodLevelResourceManagers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numaudit.containermanager.pod.spec import (
    Container,
    Pod,
    is_eligible,
    is_managed_at_pod_level,
    is_memory,
    is_sidecar,
    requests_of,
)
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures
from numaudit.topology.quantity import Quantities

Requests = Mapping[str, int]
"""Resource (memory, hugepages-2Mi, ...) -> bytes."""

NOT_INT64 = "[memorymanager] failed to represent quantity as int64"


def container_requests(pod: Pod, container: Container, features: KubeletFeatures = LATEST_FEATURES) -> dict[str, int]:
    """One container's request; nothing where it may have no exclusive memory of its own.

    Raises AdmissionError for an amount that the kubelet cannot read as an int64.
    """
    if not is_eligible(pod, container, features):
        return {}
    return _bytes(requests_of(container, features))


def pod_requests(pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> dict[str, int]:
    """The whole pod's request at once, for the resources that an app container requests.

    Raises AdmissionError as `container_requests` does.
    """
    if is_managed_at_pod_level(pod, features) and pod.resources is not None:
        return {name: size for name, size in _bytes(pod.resources.requests).items() if size > 0}
    return peak(pod, lambda container: container_requests(pod, container, features), features)


def peak(pod: Pod, asks: Callable[[Container], Mapping[str, int]], features: KubeletFeatures) -> dict[str, int]:
    """The most a pod needs at one time, of the resources that an app container asks for.

    App containers run together with all sidecars; an ordinary init container runs alone but for the
    sidecars declared before it. Kubelets before 1.32 take sidecars for ordinary init containers.
    """
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in pod.init_containers:
        for name, amount in asks(container).items():
            together = amount + sidecars.get(name, 0)
            if is_sidecar(pod, container.name, features):
                sidecars[name] = together
            else:
                starting[name] = max(starting.get(name, 0), together)
    running: dict[str, int] = {}
    for container in pod.containers:
        for name, amount in asks(container).items():
            running[name] = running.get(name, 0) + amount
    return {name: max(amount + sidecars.get(name, 0), starting.get(name, 0)) for name, amount in running.items()}


def _bytes(quantities: Quantities) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, quantity in quantities.items():
        if is_memory(name):
            size = quantity.as_int64
            if size is None:
                raise AdmissionError(NOT_INT64)
            found[name] = size
    return found


def shared_pool_error(pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> str | None:
    """Reason why containers without memory of their own would find none left; None = all is well.

    Raises AdmissionError for an amount that the kubelet cannot read as an int64.
    """
    if not is_managed_at_pod_level(pod, features):
        return None
    total = pod_requests(pod, features)
    used: dict[str, int] = {}
    shares = False
    for container in pod.all_containers:
        own = container_requests(pod, container, features)
        if container in pod.init_containers and not is_sidecar(pod, container.name, features):
            exhausted = None if own else _exhausted(total, used)
            if exhausted is not None:
                return f"pod rejected, pod has shared init containers but no {exhausted} available for them"
        elif own:
            used = _add(used, own)
        else:
            shares = True
    exhausted = _exhausted(total, used) if shares else None
    if exhausted is None:
        return None
    return (
        f"pod rejected, sum of exclusive container {exhausted} requests equals pod budget, "
        "leaving no memory for shared containers"
    )


def divide(pod: Pod, total: Requests, features: KubeletFeatures) -> dict[str, Requests]:
    """The pod's memory by container: each has its own, or all that the others leave, together.

    What is shared is named for every container that shares it, so a sum over containers counts too much.
    """
    shares: dict[str, Requests] = {}
    sidecars: dict[str, int] = {}
    apps: dict[str, int] = {}
    for container in pod.all_containers:
        own = container_requests(pod, container, features)
        sidecar = is_sidecar(pod, container.name, features)
        if own:
            shares[container.name] = own
            if sidecar:
                sidecars = _add(sidecars, own)
            elif container in pod.containers:
                apps = _add(apps, own)
        elif container in pod.init_containers and not sidecar:
            shares[container.name] = _left(total, sidecars)
    pool = _left(total, _add(sidecars, apps))
    return {container.name: shares.get(container.name, pool) for container in pod.all_containers}


def _exhausted(total: Requests, used: Requests) -> str | None:
    """The first resource with nothing left."""
    return next((name for name, size in total.items() if used.get(name, 0) >= size), None)


def _left(total: Requests, used: Requests) -> dict[str, int]:
    return {name: size - used.get(name, 0) for name, size in total.items() if size > used.get(name, 0)}


def _add(left: Requests, right: Requests) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
