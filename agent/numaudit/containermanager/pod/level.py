"""Pods with memory of their own (pod-level resources): how it is divided among their containers.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (AllocatePod), KEP-5526. Needs the feature gate
PodLevelResourceManagers.
"""

from __future__ import annotations

from numaudit.containermanager.pod.requests import Requests, container_requests, pod_requests
from numaudit.containermanager.pod.spec import Pod, is_managed_at_pod_level, is_sidecar
from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures


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
