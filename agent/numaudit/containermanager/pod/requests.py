"""Memory and huge pages that a container or a whole pod asks for.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (getRequestedResources, getPodRequestedResources).
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
from numaudit.containermanager.topologymanager.admission_error import AdmissionError
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
