"""What a cgroup path says about its owner. Pure: text in, values out.

Sources: the kubelet's pkg/kubelet/cm/{pod_container_manager,cgroup_manager}_linux.go (QoS and pod
groups, systemd escaping), the runtimes' naming of leaf groups, systemd's unit names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from numaudit.snapshot import Kind, Qos

_ID = r"[0-9a-f]{64}"
_UID = r"[0-9a-f]{32}|[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}"
_QOS: dict[str | None, Qos] = {None: "Guaranteed", "burstable": "Burstable", "besteffort": "BestEffort"}

# kubepods-burstable-pod<uid>.slice, also with a prefix (kubelet-kubepods-...) and with the runtime's
# leaf appended after a colon, which runc does when containerd and kubelet disagree about the driver.
_SYSTEMD_POD = re.compile(
    rf"(?:.+-)?kubepods(?:-(burstable|besteffort))?-pod({_UID})\.slice(?::([\w.-]+):({_ID}))?", re.ASCII
)
_SYSTEMD_TIER = re.compile(r"(?:.+-)?kubepods(?:-(burstable|besteffort))?\.slice", re.ASCII)
_CGROUPFS_POD = re.compile(rf"pod({_UID})", re.ASCII)
# cri-containerd-<id>.scope, crio-<id>, docker-<id>.scope, libpod-<id>.scope, <id>
_LEAF = re.compile(rf"(?:(?P<prefix>[a-z][a-z0-9.]*(?:-[a-z0-9.]+)*)-)?(?P<id>{_ID})(?:\.scope)?", re.ASCII)
_RUNTIMES = {
    "cri-containerd": "containerd",
    "crio": "cri-o",
    "docker": "docker",
    "libpod": "podman",
    "nerdctl": "containerd",
}
_BARE_PARENTS = {"docker": "docker", "libpod_parent": "podman", "default": "containerd", "k8s.io": "containerd"}


@dataclass(frozen=True, slots=True)
class Place:
    """What one cgroup is, by its path alone. None = the path does not say."""

    kind: Kind
    pod_uid: str | None = None
    qos: Qos | None = None
    runtime: str | None = None
    container_id: str | None = None


@lru_cache(maxsize=8192)
def parse(path: str) -> Place:
    """Sort a cgroup path by its last component, with the pod found among its parents.

    The innermost pod counts, so a pod inside a container (kind, minikube) is still found.
    """
    parts = [part for part in path.split("/") if part]
    if not parts:
        return Place("group")
    pod = _innermost_pod(parts)
    if pod is None:
        return _outside_pods(parts)
    place, index, joined = pod
    if joined is not None or index == len(parts) - 1:
        return joined or place
    return _inside_pod(parts[index + 1 :], place)


def _innermost_pod(parts: list[str]) -> tuple[Place, int, Place | None] | None:
    for index in range(len(parts) - 1, -1, -1):
        match = _SYSTEMD_POD.fullmatch(parts[index])
        if match is not None:
            place = Place("pod", match[2].replace("_", "-"), _QOS[match[1]])
            return place, index, _joined_leaf(place, match)
        match = _CGROUPFS_POD.fullmatch(parts[index])
        if match is not None and "kubepods" in parts[:index]:
            tier = parts[index - 1] if parts[index - 1] in _QOS else None
            return Place("pod", match[1].replace("_", "-"), _QOS[tier]), index, None
    return None


def _joined_leaf(place: Place, match: re.Match[str]) -> Place | None:
    if match[4] is None:
        return None
    return Place("container", place.pod_uid, place.qos, _RUNTIMES.get(match[3]), match[4])


def _inside_pod(below: list[str], pod: Place) -> Place:
    match = _LEAF.fullmatch(below[0])
    if match is None or (match["prefix"] or "").endswith("conmon"):
        # The runtime's monitor or a group of the pod's own making: no container the pod names.
        return Place(_unit_kind(below[-1]), pod.pod_uid, pod.qos)
    if len(below) > 1:
        return Place(_unit_kind(below[-1]), pod.pod_uid, pod.qos, container_id=match["id"])
    return Place("container", pod.pod_uid, pod.qos, _RUNTIMES.get(match["prefix"] or ""), match["id"])


def _outside_pods(parts: list[str]) -> Place:
    last = parts[-1]
    match = _LEAF.fullmatch(last)
    if match is not None and not (match["prefix"] or "").endswith("conmon"):
        parent = parts[-2] if len(parts) > 1 else ""
        runtime = _RUNTIMES.get(match["prefix"] or "") or _BARE_PARENTS.get(parent)
        return Place("container", runtime=runtime, container_id=match["id"])
    tier = _SYSTEMD_TIER.fullmatch(last)
    if tier is not None:
        return Place("slice")
    return Place(_unit_kind(last))


def _unit_kind(name: str) -> Kind:
    if name.endswith(".service"):
        return "service"
    if name.endswith(".scope"):
        return "scope"
    return "slice" if name.endswith(".slice") else "group"
